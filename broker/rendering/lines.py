"""The public form of matches as JSON, made without their objects.

What the matches of a document have in common is written once: what is said of the document, and the
copies of its nodes, are kept with it as they stand in a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from broker.model import iso_time
from broker.rendering.content import Content
from broker.rendering.rendering import Rendering
from broker.shared_match import BEGUN, ENDED, SharedMatch, timed
from broker.text.json_text import inside, to_json
from broker.text.markup import quote

_BEGUN, _ENDED = inside(BEGUN), inside(ENDED) + b'"'

_COMMON = (
    b',"stream":%b,"start":"%b","end":"%b","documents":[%b],%b"values":%b,"joined":%b,"result":"%b'
)


def match_lines(match: SharedMatch) -> Iterator[tuple[bytes, ...]]:
    """What stands between the braces of `to_json(each.to_json())`, for each subscriber's match, in
    pieces."""
    shared = match.shared
    if not isinstance(shared, Rendering) or match.named is not None:
        for each in match:
            yield (to_json(each.to_json())[1:-1],)
        return
    contents, places = shared.contents, shared.places
    copies = b"".join([contents[place].inside(node, item) for place, node, item in places.pieces])
    start, end = iso_time(match.start_us), iso_time(match.end_us)
    documents = map(Content.reference, contents, shared.said)
    common = _COMMON % (
        b"null" if match.stream is None else to_json(match.stream),
        start.encode(),
        end.encode(),
        b",".join(documents),
        b"" if places.blocks is None else b'"blocks":%b,' % places.blocks_json.encode(),
        to_json(shared.derive_values()),
        places.joined_json,
        _BEGUN,
    )
    before, behind = inside(timed(start, end, copies)), _ENDED if copies else b'"'
    for place, query in enumerate(match.queries):
        name, quoted = _written(query)
        identity = b'"id":"%b","query":%b' % (match.id(place).encode(), name)
        yield identity, common, quoted, before, copies, behind


@lru_cache(maxsize=10_000)
def _written(query: str) -> tuple[bytes, bytes]:
    """The name of a query as JSON, and as an attribute's value in a text of JSON."""
    return to_json(query), inside(quote(query))

"""Joins that the documents of streams suggest, each with a query that is ready to be subscribed.

In: the catalogue of streams. Out: suggestions, best first. What the values of a sample promise is
verified: the queries run over the documents of the sample, as they would run over the stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import xscl
from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals
from broker.engine import Engine
from broker.model import Limit
from broker.query.prepared import compile_query
from broker.state.store import Store
from broker.state.stream_counts import Sampled
from broker.statistics.joins import Joinable, Met, Place, joinable, parsed_sample
from broker.statistics.streams import StreamCatalogue, parsed
from feeds.rows import DocumentRow
from xscl.syntax.durations import format_microseconds

SAMPLE = 2_000
"""Documents of each stream that are looked at."""

_TRIED = 2
"""For each suggestion that is wanted, how many are verified."""
_MOST_MATCHES = 10_000
"""Matches of a query in the sample, after which it is given up: it is not selective."""
_HOUR = 3_600 * 1_000_000
_WINDOWS = tuple(_HOUR * hours for hours in (1, 6, 24, 48, 168, 720, 2_160, 8_760))
"""Windows that a query may have, in microseconds."""
_ALWAYS = 1 << 61
"""A lateness beyond any sample."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A join that documents suggest. `query` is its text; over the sample it found `matches`, whose
    documents are `documents` of the `sampled` ones; `values` met. `window` is in microseconds."""

    id: str
    query: str
    left: Place
    right: Place
    values: int
    matches: int
    documents: int
    sampled: int
    window: int

    def as_json(self) -> dict[str, Any]:
        """The suggestion as the API and the command show it."""
        return {
            "id": self.id,
            "query": self.query,
            "left": self.left._asdict(),
            "right": self.right._asdict(),
            "values": self.values,
            "matches": self.matches,
            "documents": self.documents,
            "sampled": self.sampled,
        }


def suggest(catalogue: StreamCatalogue, streams: Sequence[str], most: int) -> list[Suggestion]:
    """At most `most` joins within a stream, or between several streams. Those that match nothing in
    the sample are left out."""
    found = {name: catalogue.sample(name, SAMPLE) for name in dict.fromkeys(streams)}
    documents = {each.doc: each for sample in found.values() for each in sample}
    met = {doc: Met(each.source, each.end) for doc, each in documents.items()}
    samples = [parsed_sample(name, parsed(sample), met) for name, sample in found.items()]
    pairs = joinable(samples, most * _TRIED)
    feeds = {
        sample.stream
        for sample in samples
        if any(root.find("{*}channel_title") is not None for root in sample.roots.values())
    }
    ids: Counter[str] = Counter()
    texts = [(pair, *_query(pair, feeds, ids)) for pair in pairs]
    counted = _verified([text for *_, text in texts], [*documents.values()])
    suggestions = [
        Suggestion(
            *(id, text, pair.left, pair.right, pair.values, *counted[id]),
            *(len(documents), _window(pair)),
        )
        for pair, id, text in texts
        if id in counted
    ]
    return suggestions[:most]


def _query(pair: Joinable, feeds: set[str], ids: Counter[str]) -> tuple[str, str]:
    """The id and the text of the query of a pair."""
    left, right = pair.left, pair.right
    names = [_name(place.path) for place in (left, right)]
    id = f"same-{names[0]}" if names[0] == names[1] else f"{names[0]}-{names[1]}"
    ids[id] += 1
    if ids[id] > 1:
        id = f"{id}-{ids[id]}"
    apart = pair.across and {left.stream, right.stream} <= feeds
    sides = [_block(place, name, apart) for place, name in ((left, "a"), (right, "b"))]
    condition = "a = b AND site_a != site_b" if apart else "a = b"
    # In any order, except where each pair would be found twice; a feed and its copy have one time.
    operator = "FOLLOWED BY" if left == right and not pair.together else "JOIN"
    window = format_microseconds(_window(pair))
    return id, f"{id}:\n  {sides[0]}\n  {operator} {{{condition}, {window}}}\n  {sides[1]}"


def _block(place: Place, variable: str, apart: bool) -> str:
    root, *below = place.path.split("/")[1:]
    site = f"[./channel_title->site_{variable}]" if apart else ""
    return f"{place.stream}//{root}[./{'/'.join(below)}->{variable}]{site}"


def _name(path: str) -> str:
    return path.rpartition("/")[2].removeprefix("@")


def _window(pair: Joinable) -> int:
    """The window of a pair's query: most partners are within it."""
    return next((window for window in _WINDOWS if window >= pair.gap), _WINDOWS[-1])


def _verified(texts: Sequence[str], documents: list[Sampled]) -> dict[str, tuple[int, int]]:
    """How many matches each query has among the documents, and how many documents are in them, by
    its id. Queries without matches, or with too many, are left out."""
    if not texts:
        return {}
    store = Store(None)
    try:
        engine = Engine(store, _ALWAYS, limit=Limit(_MOST_MATCHES, 1e9))
        program = xscl.check([xscl.parse(";\n".join(texts), "suggested")])
        engine.subscribe([compile_query(query) for query in program.queries])
        matches: Counter[str] = Counter()
        having: dict[str, set[str]] = {}
        for shared in engine.apply(_arrivals(engine, documents)):
            for match in shared:
                matches[match.query] += 1
                having.setdefault(match.query, set()).update(d.id for d in match.documents)
        halted = engine.registry.halted
        return {id: (count, len(having[id])) for id, count in matches.items() if id not in halted}
    finally:
        store.close()


def _arrivals(engine: Engine, documents: list[Sampled]) -> Arrivals:
    rows = []
    for each in documents:
        id = str(each.doc)
        rows.append(DocumentRow(id, id, each.streams, each.end, True, None, False, each.xml))
    return arrivals(engine.matcher, rows)

"""Lines for those who wait for matches, which are made without the objects that they say."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.delivery.log import Taken
from broker.delivery.model import Delivered
from broker.model import Blocks, compact_json
from broker.rendering.content import Content
from broker.rendering.rendering import Rendering, places
from broker.shared_match import ID, SharedMatch, Whole
from broker.text.json_text import from_json, inside, to_json
from broker.text.markup import quote, text_xml
from tests.delivery.support import START
from xscl.stage1.document import ELEMENT_BITS

ANY = st.text(st.characters(exclude_categories=()), max_size=12)
"""Also lone surrogates, which UTF-8 does not have."""
TEXT = st.text(max_size=12)
TIME = st.integers(-(2**61), 2**61) | st.just(START)


def document(title: str, link: str, attribute: str) -> bytes:
    """A document of three elements: its nodes are the root, the title with an attribute, the
    link."""
    named = f"<title of={quote(attribute)}>{text_xml(title)}</title>"
    return f"<item>{named}<link>{text_xml(link)}</link></item>".encode()


ATTRIBUTE = 1 << ELEMENT_BITS | 1
DOCUMENT = st.builds(document, TEXT, TEXT | st.just("https://courier.example/1"), TEXT)


@st.composite
def rows(draw: st.DrawFn) -> Taken:
    contents = [Content(xml, {}) for xml in draw(st.lists(DOCUMENT, min_size=1, max_size=3))]
    said = [compact_json([draw(ANY), draw(ANY), draw(TIME)]) for _ in contents]
    place = st.integers(0, len(contents) - 1)
    node = st.sampled_from([0, 1, 2, ATTRIBUTE])
    names = st.sampled_from(["t", "u", "value2"])
    blocks: Blocks | None = draw(st.none() | st.just((0, None, (0, 0))))
    found = places(
        (0,),
        tuple(draw(st.lists(st.tuples(names, place, st.lists(node).map(tuple)), max_size=4))),
        tuple(draw(st.lists(st.tuples(place, node, st.booleans()), max_size=4))),
        tuple(draw(st.lists(st.lists(names, min_size=2).map(tuple), max_size=2))),
        blocks,
    )
    queries = draw(st.lists(ANY, min_size=1, max_size=3, unique=True))
    ids = draw(st.binary(min_size=ID * len(queries), max_size=ID * len(queries)))
    rendering = Rendering((*range(len(contents)),), contents, said, found, len(queries) > 1)
    shared: Rendering | Whole = rendering
    if draw(st.booleans()):
        made, values = rendering.derive_documents(), rendering.derive_values()
        shared = Whole(made, values, rendering.derive_content(), draw(st.booleans()), blocks)
    stream = draw(st.none() | ANY)
    match = SharedMatch(
        ids, queries, stream, draw(TIME), draw(TIME), found.nodes, found.joined, shared
    )
    return Taken(draw(st.integers(len(queries), 2**60)), match, draw(st.integers(0, 3)))


@given(rows(), TIME)
def test_a_line_says_what_the_match_says(row: Taken, taken: int) -> None:
    first = row.n - len(row.match) + 1
    for _ in range(2):  # what is kept says the same
        lines = [*row.lines(taken)]
        assert [n for n, _ in lines] == [*range(first, row.n + 1)]
        for (n, line), match in zip(lines, row.match, strict=True):
            told = Delivered(n, taken, match, row.left_out).to_json()
            assert json.loads(line) == plain(told)
            if utf8(told):
                assert line == to_json(told) + b"\n"


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def utf8(value: object) -> bool:
    """Whether UTF-8 has all texts of a value."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_is_that_of_python(value: Any) -> None:
    written = to_json(value)
    assert from_json(written) == json.loads(written) == value
    assert from_json(json.dumps(value, ensure_ascii=False)) == value
    if utf8(value):
        assert written == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def test_deep_values_are_written_and_read() -> None:
    value: list[Any] = []
    for _ in range(600):
        value = [value]
    assert from_json(to_json(value)) == value


@given(ANY, ANY)
def test_what_stands_in_a_text_is_put_together(one: str, other: str) -> None:
    assert json.loads(b'"%b%b"' % (inside(one), inside(other))) in (one + other, joined(one, other))


def joined(one: str, other: str) -> str:
    """Two texts of which the halves of a character become one in JSON."""
    return (one + other).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

"""Stage 1 compared with lxml's XPath: one shared automaton, many random paths, random documents."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lxml import etree

from xscl import parse
from xscl.normal.lower import Lowering
from xscl.normal.treepattern import Definition, definition, tree_pattern
from xscl.stage1.document import (
    DOCUMENT_NODE,
    DocumentError,
    encode_text,
    node_element,
    node_text,
    parse_document,
    value_code,
)
from xscl.stage1.matcher import Matcher
from xscl.stage1.witness import Edge, Witness

TAGS = "abc"


def random_document(rng: random.Random) -> bytes:
    def element(depth: int) -> str:
        tag = rng.choice(TAGS)
        attributes = "".join(f' {n}="{rng.randint(0, 2)}"' for n in "xy" if rng.random() < 0.3)
        inner = "".join(
            rng.choice(["t", "<!-- c -->", "<?p q?>", ""]) + element(depth + 1)
            for _ in range(rng.randint(0, 3 if depth < 4 else 0))
        )
        return f"<{tag}{attributes}>{inner}{rng.choice(['', '1', 'u'])}</{tag}>"

    return element(0).encode()


def random_path(rng: random.Random) -> str:
    """An absolute path of the language that XPath reads the same way."""
    steps = [rng.choice(["/", "//"]) + rng.choice([*TAGS, "*"]) for _ in range(rng.randint(1, 4))]
    for i in range(len(steps)):
        if rng.random() < 0.2:
            steps[i] += rng.choice(["[@x = '1']", "[b]", "[.//c]", "[a/b or @y]", "[not(c)]"])
    if rng.random() < 0.4:
        steps.append(rng.choice(["/@x", "//@y", "/@*", "/text()", "//text()", "//."]))
    return "".join(steps)


def edge(number: int, path: str) -> Edge:
    (query,) = parse(f"S{path}").statements
    pattern = tree_pattern("S", query.pattern.steps, Lowering({}))  # type: ignore[union-attr]
    return Edge(number, 0, number, definition("S", pattern.selected), 0, True)


def expected(root: etree._Element, path: str) -> list[str]:
    """String values of the nodes that the path selects, in document order."""
    found = root.getroottree().xpath(path)
    assert isinstance(found, list)
    return [
        str(n) if isinstance(n, str) else str(n.xpath("string()"))  # type: ignore[union-attr]
        for n in found
    ]


def variables(witness: Witness) -> list[int]:
    """Those that stand for a node, by row."""
    return [var2 for _, var2, _, _, _ in witness]


@pytest.mark.parametrize("seed", range(25))
def test_every_path_selects_what_lxml_selects(seed: int) -> None:
    rng = random.Random(seed)
    paths = dict(enumerate({random_path(rng) for _ in range(120)}, 1))
    matcher = Matcher(edge(number, path) for number, path in paths.items())
    for _ in range(12):
        root = parse_document(random_document(rng))
        witness = matcher.match(root, ("S",))
        assert {node1 for _, _, node1, _, _ in witness} <= {DOCUMENT_NODE}
        for number, path in paths.items():
            rows = [(node, code) for _, var, _, node, code in witness if var == number]
            assert len({node for node, _ in rows}) == len(rows), path
            texts = [node_text(root, node) for node, _ in rows]
            assert sorted(texts) == sorted(expected(root, path)), path
            assert [code for _, code in rows] == [value_code(text) for text in texts]


@pytest.mark.parametrize("limit", [1, 10, 100_000])
def test_what_is_remembered_is_bounded_and_forgetting_changes_nothing(limit: int) -> None:
    tags = [f"t{i}" for i in range(100)]
    paths = [f"//{t}/b" for t in tags[:50]]
    matcher = Matcher([edge(n, path) for n, path in enumerate(paths, 1)], limit=limit)
    xml = "<r>" + "".join(f"<{t}><b/><c/></{t}>" for t in tags) + "</r>"
    for _ in range(2):
        witness = matcher.match(parse_document(xml.encode()), ("S",))
        assert sorted(variables(witness)) == list(range(1, 51))
        assert len({node2 for _, _, _, node2, _ in witness}) == 50
        assert matcher.automaton.remembered <= max(limit, 20)


def test_removing_a_pattern_leaves_the_automaton_as_it_was() -> None:
    rng = random.Random(7)
    kept = {n: random_path(rng) for n in range(1, 40)}
    gone = {n: random_path(rng) for n in range(40, 80)}
    once = Matcher(edge(n, p) for n, p in kept.items())
    both = Matcher(edge(n, p) for n, p in (kept | gone).items())
    for n in gone:
        both.remove(n)
    assert sum(1 for _ in both.automaton.states()) == sum(1 for _ in once.automaton.states())
    root = parse_document(random_document(rng))
    rows = [sorted(matcher.match(root, ("S",))) for matcher in (both, once)]
    assert rows[0] == rows[1]


def test_deep_recursion_costs_no_more_than_its_size() -> None:
    """Hundreds of nested elements have very many embeddings of `//a//a//a//a`; none is
    enumerated."""
    filtered = edge(1, "//a[a]//a[@x]//a//a")
    depth = 250
    xml = '<a x="1">' * depth + "</a>" * depth
    witness = Matcher([filtered]).match(parse_document(xml.encode()), ("S",))
    assert len(witness) == depth - 3


def test_documents_flow_through_several_streams() -> None:
    paths = {
        1: Definition("S", edge(1, "/a").definition.steps),
        2: Definition("T", edge(2, "/a").definition.steps),
    }
    matcher = Matcher(Edge(n, 0, n, d, 0, False) for n, d in paths.items())
    root = parse_document(b"<a/>")
    assert variables(matcher.match(root, ("S",))) == [1]
    assert sorted(variables(matcher.match(root, ("S", "T", "U")))) == [1, 2]
    assert not matcher.match(root, ("U",))


@pytest.mark.parametrize(
    "xml",
    [
        b"",
        b"no xml",
        b"<a>",
        b"<a/><b/>",
        b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
        b'<!DOCTYPE a [<!ENTITY e SYSTEM "http://127.0.0.1:9/">]><a>&e;</a>',
        b'<?xml version="1.0" encoding="utf-8"?><a>\xff</a>',
        b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
        + b"".join(
            b'<!ENTITY a%d "%s">' % (i, b"&a%s;" % (str(i - 1).encode() if i else b"") * 10)
            for i in range(12)
        )
        + b"]><a>&a11;</a>",
    ],
)
def test_what_is_no_document_is_refused_with_a_reason(xml: bytes) -> None:
    with pytest.raises(DocumentError, match=r".{10}"):
        parse_document(xml)


def test_a_harmless_doctype_is_accepted() -> None:
    xml = b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd" [<!ENTITY e "inner">]><a>&e;</a>'
    assert node_text(parse_document(xml), 0) == "inner"


@pytest.mark.parametrize(
    "external", ["", 'SYSTEM "{file}"', 'PUBLIC "-//A//EN" "http://127.0.0.1:9/"']
)
def test_defaults_of_attributes_count_as_the_document_declares_them(
    external: str, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.dtd"
    outside.write_text('<!ATTLIST a outside CDATA "1" lang CDATA "de">')
    xml = (
        f"<!DOCTYPE a {external.format(file=outside)} ["
        '<!ATTLIST a lang CDATA "en" id ID #REQUIRED kind (x|y) "y" n NMTOKENS " 1  2 ">'
        '<!ENTITY v "w"><!ATTLIST b k CDATA #FIXED "&v;1"><!ATTLIST a lang CDATA "fr">]>'
        '<a kind="x"><a lang="it"/><b/></a>'
    )
    root = parse_document(xml.encode())
    assert [dict(element.attrib) for element in root.iter()] == [
        {"kind": "x", "lang": "en", "n": "1 2"},
        {"lang": "it", "kind": "y", "n": "1 2"},
        {"k": "w1"},
    ]
    assert node_text(root, 2 << 32) == "en", "defaults come behind what stands there"


@pytest.mark.parametrize(
    "xml",
    [
        b'<!DOCTYPE a [<!ATTLIST b z CDATA "'
        + b"x" * 100_000
        + b'">]><a>'
        + b"<b/>" * 20_000
        + b"</a>",
        b"<!DOCTYPE a [<!ATTLIST b "
        + b" ".join(b'a%d CDATA "v"' % n for n in range(20_000))
        + b">]><a>"
        + b"<b/>" * 2_000
        + b"</a>",
    ],
)
def test_defaults_of_attributes_are_bounded(xml: bytes) -> None:
    with pytest.raises(DocumentError, match="amplification"):
        parse_document(xml)


def test_a_query_reads_the_default_of_an_attribute() -> None:
    xml = b'<!DOCTYPE a [<!ATTLIST a lang CDATA "en">]><a><t>1</t></a>'
    matcher = Matcher([edge(1, "/a[@lang]/t"), edge(2, "/a[@other]/t")])
    assert variables(matcher.match(parse_document(xml), ("S",))) == [1]


def test_a_text_forgets_its_declaration() -> None:
    xml = encode_text('<?xml version="1.0" encoding="ISO-8859-1"?>\n<a>é</a>')
    assert node_element(parse_document(xml), 0).text == "é"

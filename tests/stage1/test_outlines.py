"""The outlines of documents compared with what lxml says of each element."""

from __future__ import annotations

import pickle
import random

from lxml import etree

from tests.stage1.test_matcher import edge, random_document
from xscl.stage1.document import parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.nfa import Automaton
from xscl.stage1.outlines import DEEPEST, LONGEST, MOST, REST, Outline
from xscl.stage1.structures import Structures


def outline_of(structures: Structures, xml: bytes) -> Outline:
    elements = [*parse_document(xml).iter()]
    return structures.find([each.tag for each in elements], [*map(len, elements)], None)[0]


def paths_of(root: etree._Element) -> set[str]:
    """The label paths of a document, by the ancestors of each element."""
    found = set()
    for element in root.iter("*"):
        above = [etree.QName(each).localname for each in element.iterancestors()]
        found.add("/" + "/".join([*reversed(above), etree.QName(element).localname]))
    return found


def test_an_outline_has_the_label_paths_that_lxml_finds_whatever_is_read_of_the_document() -> None:
    rng = random.Random(1)
    readers = [
        Matcher(),
        Matcher([edge(1, "/a")]),
        Matcher([edge(1, "/a/b"), edge(2, "/b[c]/@x")]),
        Matcher([edge(1, "//c")]),
    ]
    for _ in range(300):
        xml = random_document(rng)
        root = parse_document(xml)
        found = {reader.match(parse_document(xml), ("S",)).outline for reader in readers}
        (outline,) = found
        assert outline is not None
        assert set(outline.paths) == paths_of(root)
        assert list(outline.paths) == sorted(outline.paths)


def test_wide_documents_have_the_same_outline_whether_or_not_they_are_read_below() -> None:
    rng = random.Random(2)
    inner = ("<b/>", "<c><d/><!-- x --></c>", "<?p q?>", "<e><f><g/></f></e>", "text")
    for width in (1, 5, 6, 7, 50, 100):
        below = "".join(rng.choice(inner) for _ in range(width))
        xml = f"<a><w>{below}</w><v>{'<u/>' * width}<t><s/></t></v></a>".encode()
        root = parse_document(xml)
        found = {
            Matcher(edges, block=12).match(parse_document(xml), ("S",)).outline
            for edges in ([edge(1, "/a")], [edge(1, "//x")], [edge(1, "/a/v")], [edge(1, "/z")], [])
        }
        (outline,) = found
        assert outline is not None
        assert set(outline.paths) == paths_of(root)


def test_equal_paths_have_one_outline_in_every_process() -> None:
    xml = b"<a><b/><n:b xmlns:n='u'/><!-- c --><?p q?><c><b>1</b></c></a>"
    other = b"<a><c><b/><b x='1'/></c><b/></a>"
    one, two = (outline_of(Structures(Automaton(1_000)), each) for each in (xml, other))
    assert one == two
    assert one.id == 8437338816738615267  # not Python's hash, which each process seeds anew
    copy = pickle.loads(pickle.dumps(Matcher([edge(1, "/a")])))
    assert copy.match(parse_document(xml), ("S",)).outline == one


def test_trees_whose_tags_are_equal_but_nested_differently_are_told_apart() -> None:
    structures = Structures(Automaton(1_000))
    for xml in (b"<a><b><c/></b></a>", b"<a><b/><c/></a>", b"<a><b/><c><a/></c></a>"):
        root = parse_document(xml)
        assert set(outline_of(structures, xml).paths) == paths_of(root)


def test_invented_names_are_bounded_and_hide_nobody_elses() -> None:
    structures = Structures(Automaton(1_000))
    for number in range(200):
        invented = "".join(f"<n{number}x{i}/>" for i in range(1_000))
        found = outline_of(structures, f"<item>{invented}</item>".encode())
        assert len(found.paths) == MOST + 1
        assert REST in found.paths
    assert structures.paths._known < 30_000
    assert structures._held < 600_000
    assert outline_of(structures, b"<item><title>t</title></item>").paths == (
        "/item",
        "/item/title",
    )


def test_what_is_too_deep_or_too_long_is_not_named() -> None:
    deep = b"<a>" * 200 + b"</a>" * 200
    found = outline_of(Structures(Automaton(1_000)), deep)
    assert max(path.count("/") for path in found.paths) == DEEPEST
    assert REST in found.paths
    name = "n" * LONGEST
    found = outline_of(Structures(Automaton(1_000)), f"<a><{name}><b/></{name}><c/></a>".encode())
    assert found.paths == (REST, "/a", "/a/c")

"""Documents that are built alike: what is found once for all of them is what each would give."""

from __future__ import annotations

import pickle
import random

import pytest
from lxml import etree

from tests.seeds import seeds
from tests.stage1.test_incremental import random_edge, rows
from tests.stage1.test_matcher import edge, random_document
from xscl.stage1.document import parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.nfa import Automaton
from xscl.stage1.structures import Structures
from xscl.stage1.witness import Edge


def with_other_texts(rng: random.Random, xml: bytes) -> bytes:
    """A document with the same elements, comments and attributes."""
    root = parse_document(xml)
    for element in root.iter():
        if rng.random() < 0.5:
            element.tail = None if element is root else rng.choice(["t", "1", "u", None])
        if isinstance(element.tag, str):
            if rng.random() < 0.5:
                element.text = rng.choice(["t", "2", "u", None])
            for name in element.attrib:
                element.set(name, str(rng.randint(0, 2)))
    return etree.tostring(root)


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_documents_built_alike_are_matched_as_the_first_of_them(seed: int) -> None:
    """Whatever comes and goes between them, in another process too, and block by block."""
    rng = random.Random(seed)
    built = [random_document(rng) for _ in range(6)]
    there: dict[int, Edge] = {number: random_edge(rng, number) for number in range(60)}
    whole, cut = Matcher(there.values()), Matcher(there.values(), block=rng.randint(1, 7))
    found = 0
    for turn in range(120):
        change = rng.randrange(12)
        if change == 0:
            gone = rng.choice(sorted(there))
            del there[gone]
            whole.remove(gone)
            cut.remove(gone)
        elif change == 1:
            there[100 + turn] = random_edge(rng, 100 + turn)
            whole.add(there[100 + turn])
            cut.add(there[100 + turn])
        elif change == 2 and turn % 3 == 0:
            whole, cut = pickle.loads(pickle.dumps((whole, cut)))
        xml = with_other_texts(rng, rng.choice(built))
        streams = rng.choice([("S",), ("T",), ("S", "T"), ("U",)])
        alone = Matcher(there.values()).match(parse_document(xml), streams)
        for matcher in (whole, cut):
            witness = matcher.match(parse_document(xml), streams)
            assert rows(witness) == rows(alone)
            assert witness.texts == alone.texts
            assert witness.outline == alone.outline
        found += len(alone)
    assert found > 200
    known = whole.reading.structures._known.values()
    assert sum(len(each.stops) for each in known) > 0


def test_a_structure_is_kept_when_it_is_met_again_and_dropped_with_the_automaton_it_was_for() -> (
    None
):
    matcher = Matcher([edge(1, "/a/b")])
    root = parse_document(b"<a><b>1</b></a>")
    for kept in (0, 1, 1):
        assert len(matcher.match(root, ("S",))) == 1
        (structure,) = matcher.reading.structures._known.values()
        assert len(structure.stops) == kept
    (before,) = structure.stops.values()
    matcher.add(edge(2, "/a/c"))
    assert len(matcher.match(root, ("S",))) == 1
    matcher.add(edge(3, "/a/b[. = '1']"))
    assert len(matcher.match(root, ("S",))) == 2
    (after,) = structure.stops.values()
    assert after is not before


_ASKED = [
    "//e[./a = '1']",
    "//e[./a = '2']/k",
    "//e[./a > 1]/k",
    "//e[number(./a) = 2]",
    "//e[contains(./a, 't')]/k",
    "//e[starts-with(./b, '1')]",
    "//e[./a = '1'][./b = '1']/k",
]


@pytest.mark.parametrize("seed", seeds(3, 10))
def test_children_that_are_compared_with_constants_are_those_of_each_document(seed: int) -> None:
    """Also where they are missing, several, or in another namespace, with comments and elements
    inside of them and beside them."""
    rng = random.Random(seed)
    asked = [edge(n, path) for n, path in enumerate(_ASKED, 1)]
    child = "<{0}>t</{0}>"

    def element(depth: int) -> str:
        parts = [
            *(child.format(rng.choice("abk")) for _ in range(rng.randrange(4))),
            rng.choice(["<!--c-->", "<x:a>t</x:a>", "<a>t<b>t</b><!--c-->t</a>", "<?p q?>"]),
            *(element(depth + 1) for _ in range(rng.randrange(3) if depth < 3 else 0)),
        ]
        rng.shuffle(parts)
        return f"<e>{''.join(parts)}</e>"

    found = 0
    for _ in range(15):
        built = f"<r xmlns:x='urn:x'>{element(0)}{element(0)}</r>"
        matcher = Matcher(asked)
        for _ in range(4):
            texts = iter(rng.choices(["1", "2", "t", "1t", ""], k=built.count(">t<") + 50))
            xml = "".join(
                part if n == 0 else f">{next(texts)}<{part}"
                for n, part in enumerate(built.split(">t<"))
            ).encode()
            witness = matcher.match(parse_document(xml), ("S",))
            alone = Matcher(asked).match(parse_document(xml), ("S",))
            assert rows(witness) == rows(alone)
            assert witness.texts == alone.texts
            found += len(alone)
    assert found > 50


def test_structures_of_one_hash_are_told_apart() -> None:
    structures = Structures(Automaton(1_000))
    assert hash((-1, 0)) == hash((-2, 0))
    structures.find([-1], [0], None)
    (first,) = structures._known.values()
    assert first.tags is None
    for tag in (-1, -2, -1):
        structures.find([tag], [0], None)
        assert [*structures._known.values()] == [first]
        assert first.tags == [-1]


def test_what_is_known_of_structures_is_bounded() -> None:
    matcher = Matcher([edge(1, "//b"), edge(2, "//a/b")])
    most = 0
    for number in range(250):
        root = parse_document(f"<a>{'<b/>' * 900}{'<c/>' * number}</a>".encode())
        for _ in range(3):
            assert len(matcher.match(root, ("S",))) == 1800
        held = 0
        for structure in matcher.reading.structures._known.values():
            held += 2 * len(structure.tags or ())
            held += sum(len(rows) for stops in structure.stops.values() for rows, *_ in stops)
        most = max(most, held)
    assert 200_000 < most < 600_000

"""After any sequence of added and removed patterns, the matcher equals a new one with the same
patterns."""

from __future__ import annotations

import pickle
import random

import pytest
from lxml import etree

from tests.seeds import seeds
from tests.stage1.test_matcher import edge, random_document, random_path, variables
from xscl import parse
from xscl.normal.lower import Lowering
from xscl.normal.treepattern import Definition
from xscl.stage1.document import node_element, parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.nfa import _PATCHED
from xscl.stage1.witness import Edge, Witness

FILTERS = (
    *("[@x = '1']", "[b]", "[. = '1']", "[contains(., 't')]", "[b > 1]", "[@y < 2]", "[.//c]"),
    *("[@x = '2'][contains(., 'u')]", "[not(c)]", "[starts-with(., 't')][@x >= 1]"),
)


def random_steps(rng: random.Random) -> list[str]:
    """The steps of a path that XPath reads as we do, with filters that an index serves or not."""
    steps = []
    for _ in range(rng.randint(1, 4)):
        step = rng.choice(["/", "//"]) + rng.choice([*"abc", "*"])
        steps.append(step + (rng.choice(FILTERS) if rng.random() < 0.3 else ""))
    if rng.random() < 0.3:
        steps.append(rng.choice(["/@x", "//@y", "/@*", "/text()", "//text()"]))
    return steps


def random_edge(rng: random.Random, number: int) -> Edge:
    if rng.random() < 0.1:
        return edge(number, random_path(rng))
    steps = random_steps(rng)
    plain = edge(number, "".join(steps))
    value = None
    if rng.random() < 0.2:
        (query,) = parse("S//a[string-length(.) = 1]").statements
        value = Lowering({}).expression(query.pattern.steps[0].filters[0].left)  # type: ignore[union-attr]
    definition = Definition(rng.choice("SST"), plain.definition.steps, value)
    depth = rng.randint(0, len(steps) - 1)
    return Edge(
        number, 1000 + number, number, definition, depth, rng.random() < 0.6, rng.random() < 0.2
    )


def rows(witness: Witness) -> list[tuple[object, ...]]:
    return sorted(
        ((*row, witness.text.get(i), witness.num.get(i)) for i, row in enumerate(witness)),
        key=repr,
    )


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("limit", [60, 200_000])
@pytest.mark.parametrize("seed", seeds(5, 12))
def test_any_order_of_changes_is_as_a_new_matcher(seed: int, limit: int, sent: bool) -> None:
    """Also if another process goes on with it now and then (`sent`)."""
    rng = random.Random(seed)
    matcher = Matcher(limit=limit)
    there: dict[int, Edge] = {}
    found = 0
    for number in range(1, 120):
        if there and rng.random() < 0.4:
            gone = rng.choice(sorted(there))
            matcher.remove(gone)
            del there[gone]
        else:
            there[number] = random_edge(rng, number)
            matcher.add(there[number])
        if sent and number % 10 == 0:
            matcher = pickle.loads(pickle.dumps(matcher))
        if rng.random() < 0.5:
            continue
        root = parse_document(random_document(rng))
        streams = rng.choice([("S",), ("T",), ("S", "T"), ("T", "U")])
        wanted = rows(Matcher(there.values()).match(root, streams))
        assert rows(matcher.match(root, streams)) == wanted
        found += len(wanted)
    for number in there:
        matcher.remove(number)
    assert found > 200
    assert not matcher.edges
    assert not matcher.automaton.starts
    assert not matcher.match(parse_document(b"<a/>"), ("S", "T"))


def pairs(root: etree._Element, above: str, below: str) -> list[tuple[int, str]]:
    """The nodes of one path by number, with the values of those that another leads to from
    there."""
    numbers = {element: number for number, element in enumerate(root.iter())}
    found = []
    for origin in root.getroottree().xpath(above):  # type: ignore[union-attr]
        for node in origin.xpath("." + below):  # type: ignore[union-attr]
            text = str(node) if isinstance(node, str) else str(node.xpath("string()"))  # type: ignore[union-attr]
            found.append((numbers[origin], text))  # type: ignore[index]
    return sorted(found)


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_an_edge_relates_the_nodes_that_lxml_relates(seed: int) -> None:
    rng = random.Random(seed)
    edges = {}
    for number in range(1, 60):
        steps = random_steps(rng)
        if len(steps) > 1:
            depth = rng.randint(1, len(steps) - 1)
            made = edge(number, "".join(steps))
            edge_ = Edge(number, 1, number, made.definition, depth, False, True)
            edges[number] = (edge_, "".join(steps[:depth]), "".join(steps[depth:]))
    matcher = Matcher(e for e, _, _ in edges.values())
    related = 0
    for _ in range(8):
        root = parse_document(random_document(rng))
        witness = matcher.match(root, ("S",))
        for number, (_, above, below) in edges.items():
            found = sorted(
                (node1, witness.text[i])
                for i, (_, var, node1, _, _) in enumerate(witness)
                if var == number
            )
            assert found == pairs(root, above, below), (above, below, etree.tostring(root))
            related += len(found)
    assert related > 200


def test_a_change_costs_no_more_label_paths_than_it_touches() -> None:
    """What other patterns' label paths were worked out to is kept."""
    matcher = Matcher([edge(1, "/r/a/b"), edge(2, "/r/c/d")])
    root = parse_document(b"<r><a><b/><e/></a><c><d/><e/></c></r>")
    matcher.match(root, ("S",))
    start = matcher.automaton.root(("S",))
    assert start is not None
    below = start.children["r"]
    kept, touched = below.children["a"], below.children["c"]
    matcher.add(edge(3, "/r/c/e"))
    assert below.children["a"] is kept
    assert set(touched.children) == {"d"}
    assert sorted(variables(matcher.match(root, ("S",)))) == [1, 2, 3]
    matcher.remove(3)
    assert sorted(variables(matcher.match(root, ("S",)))) == [1, 2]
    assert below.children["a"] is kept


def test_with_very_many_state_sets_a_change_forgets_them() -> None:
    names = [f"n{i}" for i in range(_PATCHED + 50)]
    matcher = Matcher(edge(n, f"//{name}") for n, name in enumerate(names, 1))
    root = parse_document(("<r>" + "".join(f"<{n}/>" for n in names) + "<new/></r>").encode())
    assert len(matcher.match(root, ("S",))) == len(names)
    matcher.add(edge(5000, "//new"))
    assert matcher.automaton.remembered == 0
    assert len(matcher.match(root, ("S",))) == len(names) + 1
    matcher.remove(7)
    assert 7 not in variables(matcher.match(root, ("S",)))


def test_numbers_count_what_is_not_visited() -> None:
    """Below a node where no pattern goes on nothing is looked at, but everything is counted."""
    xml = b"<r><s>t<!-- c --><u><v/><?p q?></u>t</s><a/><s/><a><x/></a></r>"
    root = parse_document(xml)
    witness = Matcher([edge(1, "/r/a")]).match(root, ("S",))
    assert [node_element(root, node) for _, _, _, node, _ in witness] == root.findall("a")

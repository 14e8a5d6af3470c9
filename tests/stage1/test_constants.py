"""Indexed constants compared with evaluating the filters one by one."""

from __future__ import annotations

import random

import pytest

from tests.stage1.test_matcher import edge
from xscl.stage1.constants import atom_of
from xscl.stage1.document import parse_document
from xscl.stage1.filters import compile_filter
from xscl.stage1.groups import Tried
from xscl.stage1.matcher import Matcher

TEXTS = ["", "a", "b", "ab", "abc", "A", " a ", "1", "1.0", "2", "-3", "x1", "bc"]


def random_filter(rng: random.Random) -> str:
    subject = rng.choice(
        ["./t", "@k", ".", "./u/t", ".//t", "t", "lower-case(./t)", "string-length(./t)"]
    )
    text = rng.choice([t for t in TEXTS if t])
    number = rng.choice(["1", "2", "-3", "0.5", "3"])
    op = rng.choice(["=", "<", "<=", ">", ">=", "!="])
    match rng.randint(0, 6):
        case 0:
            return f"{subject} = '{text}'"
        case 1:
            return f"{subject} {op} {number}"
        case 2:
            return f"{number} {op} {subject}"
        case 3:
            return f"{rng.choice(['contains', 'starts-with', 'ends-with'])}({subject}, '{text}')"
        case 4:
            return f"./t[. = '{text}']"
        case 5:
            return f"./t[contains(., '{text}')]"
        case _:
            return f"{subject} = '{text}' and not(@k = '{rng.choice(TEXTS)}')"


def random_item(rng: random.Random) -> bytes:
    def text() -> str:
        return rng.choice(TEXTS)

    inner = "".join(
        rng.choice(
            [f"<t>{text()}</t>", f"<u><t>{text()}</t></u>", f"<t>{text()}<t>{text()}</t></t>"]
        )
        for _ in range(rng.randint(0, 4))
    )
    return f'<r><i k="{text()}">{inner}</i><i>{inner}</i></r>'.encode()


@pytest.mark.parametrize("seed", range(12))
def test_the_index_finds_what_the_filters_find(seed: int) -> None:
    rng = random.Random(seed)
    paths = {n: f"//i[{random_filter(rng)}]" for n in range(1, 200)}
    edges = {n: edge(n, path) for n, path in paths.items()}
    matcher = Matcher(edges.values())
    removed = set(rng.sample(sorted(edges), 60))
    for n in removed:
        matcher.remove(n)
    for _ in range(25):
        root = parse_document(random_item(rng))
        witness = matcher.match(root, ("S",))
        found = {(var2, node2) for _, var2, _, node2, _ in witness}
        expected = set()
        for index, element in enumerate(root.iter()):
            if element.tag == "i":
                for n, e in edges.items():
                    filters = e.definition.steps[-1].filters
                    if n not in removed and all(compile_filter(f)(element) for f in filters):
                        expected.add((n, index))
        assert found == expected


def test_most_filters_with_a_constant_are_indexed() -> None:
    for text in (
        "./t = 'a'",
        "./t > 3",
        "3 < ./t",
        "contains(./t, 'a')",
        "starts-with(@k, 'a')",
        "lower-case(./t) = 'a'",
        "./t[. = 'a']",
        "contains(words(./t), 'a b')",
    ):
        (part,) = edge(1, f"//i[{text}]").definition.steps[-1].filters
        assert atom_of(part) is not None, text
    for text in ("./t != 'a'", "not(./t = 'a')", "./t = ./u", "contains(./t, '')", "./t"):
        (part,) = edge(1, f"//i[{text}]").definition.steps[-1].filters
        assert atom_of(part) is None, text


def test_only_edges_whose_constant_is_there_are_looked_at() -> None:
    """A filter that is never reached is never evaluated: its constant keeps it away."""
    edges = [edge(n, f"//i[./t = 'text {n}'][not(./u = 'other {n}')]") for n in range(1, 1000)]
    matcher = Matcher(edges)
    evaluated = []
    for entry in matcher.edges.values():
        ((_, test),) = entry.tests
        assert isinstance(test, Tried)
        test.holds = lambda node, n=entry.id: evaluated.append(n) or True  # type: ignore[func-returns-value,misc]
    witness = matcher.match(parse_document(b"<i><t>text 7</t><u>other</u></i>"), ("S",))
    assert [var2 for _, var2, _, _, _ in witness] == [7]
    assert evaluated == [7]


def test_a_constant_that_decides_alone_leaves_nothing_to_try() -> None:
    matcher = Matcher([edge(1, "//i[./t = 'x']"), edge(2, "//i[./t = 'x']/u"), edge(3, "//i//u")])
    assert [entry.tests for entry in matcher.edges.values()] == [(), (), ()]

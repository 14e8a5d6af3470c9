"""tokenize(): several strings, of which one must satisfy a comparison."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from broker import Broker, Document

SEPARATORS = ", | and "
BOTH = f"tokenize(a, '{SEPARATORS}')", f"tokenize(b, '{SEPARATORS}')"


def found(query: str, texts: list[str], memory: int = 1_000) -> set[tuple[int, ...]]:
    """The numbers of the documents of each match; each match comes once."""
    documents = [
        Document(str(n), "S", float(n), f"<i><by>{text}</by></i>") for n, text in enumerate(texts)
    ]
    with Broker(memory=memory) as broker:
        broker.subscribe(query)
        matches = [m for document in documents for m in broker.process([document])]
    told = [tuple(int(document.id) for document in match.documents) for match in matches]
    assert len(told) == len(set(told))
    return set(told)


def tokens(text: str) -> set[str]:
    return {part.strip() for part in re.split(SEPARATORS, text)} - {""}


def pairs(texts: list[str]) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(texts)), 2))


@pytest.mark.parametrize("memory", [1, 1_000])
@pytest.mark.parametrize("seed", range(6))
def test_some_token_is_enough_and_under_not_none_may_be(seed: int, memory: int) -> None:
    rng = random.Random(seed)
    texts = [
        rng.choice([", ", " and "]).join(rng.choices(["A", "B", "C", "D E", "1", "2"], k=k))
        for k in rng.choices(range(5), k=9)
    ]
    some, other = BOTH
    named = [tokens(text) for text in texts]

    def query(predicate: str) -> str:
        return f"q: S//i->x[./by->a] FOLLOWED BY {{{predicate}}} S//i->y[./by->b]"

    def wanted(holds: object) -> set[tuple[int, ...]]:
        return {(m, n) for m, n in pairs(texts) if holds(m, n)}  # type: ignore[operator]

    def is_one(m: int, n: int) -> bool:
        return texts[n] in named[m]

    def shared(m: int, n: int) -> bool:
        return bool(named[m] & named[n])

    assert found(query(f"{some} = b"), texts, memory) == wanted(is_one)
    assert found(query(f"{some} = {other}"), texts, memory) == wanted(shared)
    assert found(query(f"NOT {some} = b"), texts, memory) == wanted(lambda m, n: not is_one(m, n))
    assert found(query(f"{some} = b OR {some} = 'A'"), texts, memory) == wanted(
        lambda m, n: is_one(m, n) or "A" in named[m]
    )
    assert found(query(f"{some} != b"), texts, memory) == wanted(
        lambda m, n: bool(named[m] - {texts[n]})
    )
    assert found(query(f"{some} = number(b)"), texts, memory) == wanted(
        lambda m, n: texts[n] in {"1", "2"} & named[m]
    )
    path = query(f"NOT tokenize(x/by, '{SEPARATORS}') = b")
    assert found(path, texts, memory) == wanted(lambda m, n: not is_one(m, n))
    both = f"tokenize(concat(a, ', ', b), '{SEPARATORS}')"
    assert found(query(f"{both} = 'A'"), texts, memory) == wanted(
        lambda m, n: "A" in named[m] | named[n]
    )
    assert found(query(f"NOT {both} > 1"), texts, memory) == wanted(
        lambda m, n: "2" not in named[m] | named[n]
    )
    assert found(query(f"{both} != {both}"), texts, memory) == wanted(
        lambda m, n: len(named[m] | named[n]) > 1
    )
    assert found(query("tokenize('x, y', ',') = 'y'"), texts, memory) == wanted(lambda m, n: True)
    assert found(query("tokenize('x, y', ',') = 'z'"), texts, memory) == set()
    ones = found(f"q: S//i[tokenize(./by, '{SEPARATORS}') = 'A']", texts)
    assert ones == {(n,) for n, each in enumerate(named) if "A" in each}
    ones = found(f"q: S//i->x[./by->a] WHERE {some} = 'A'", texts)
    assert ones == {(n,) for n, each in enumerate(named) if "A" in each}
    ones = found(f"q: S//i[not(tokenize(./by, '{SEPARATORS}') = 'A')]", texts)
    assert ones == {(n,) for n, each in enumerate(named) if "A" not in each}


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ("tokenize(./by[last()], ',') = 'B'", {0}),
        ("tokenize(./by[1], ',') = 'B'", {1}),
        ("count(./by[tokenize(., ',') = 'B']) = 1", {0, 1}),
        ("not(tokenize(./by[1], ',') = tokenize(./by[2], ','))", {2}),
        ("tokenize(./by[1], ',') != tokenize(./by[2], ',')", {0, 1, 2}),
        ("tokenize(./by[1], ',') > 1", {2}),
    ],
)
def test_filters_that_look_around_take_some_string(condition: str, numbers: set[int]) -> None:
    texts = ["A</by><by>A, B", "B, A</by><by>A", "1, 2</by><by>3"]
    assert {number for (number,) in found(f"q: S//i[{condition}]", texts)} == numbers


def test_select_makes_an_element_of_each() -> None:
    with Broker() as broker:
        broker.subscribe(
            f"q: SELECT {BOTH[0]} AS name, {BOTH[0]} FROM S//i->x[./by->a];"
            f"r: SELECT <r n='{{{BOTH[0]}}}'>{{{BOTH[0]}}}</r> FROM S//i->x[./by->a]"
        )
        document = Document("d", "S", 0.0, "<i><by>A and B &amp; C</by></i>")
        one, two = (match.result for match in broker.process([document]))
    tokens = "<name>A</name><name>B &amp; C</name><value>A</value><value>B &amp; C</value>"
    assert one.partition(">")[2] == f"{tokens}</result>"
    assert two == '<r n="A B &amp; C">A B &amp; C</r>'

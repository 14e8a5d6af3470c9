"""tokenize(): several strings, of which one must satisfy a comparison."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable

import pytest

from broker import Broker, Document
from tests.seeds import seeds

SEPARATORS = ", | and "
BOTH = f"tokenize(a, '{SEPARATORS}')", f"tokenize(b, '{SEPARATORS}')"


def found(query: str, texts: list[str], memory: int = 1_000) -> set[tuple[int, ...]]:
    """The numbers of the documents of each match; each match comes once."""
    return found_by_each([query], texts, memory)[0]


def found_by_each(
    queries: list[str], texts: list[str], memory: int = 1_000
) -> list[set[tuple[int, ...]]]:
    """The same for several queries, side by side."""
    documents = [
        Document(str(n), "S", float(n), f"<i><by>{text}</by></i>") for n, text in enumerate(texts)
    ]
    with Broker(memory=memory) as broker:
        broker.subscribe("; ".join(f"q{n}: {query}" for n, query in enumerate(queries)))
        matches = [m for document in documents for m in broker.process([document])]
    told = [(m.query, tuple(int(document.id) for document in m.documents)) for m in matches]
    assert len(told) == len(set(told))
    return [{docs for name, docs in told if name == f"q{n}"} for n in range(len(queries))]


def tokens(text: str) -> set[str]:
    return {part.strip() for part in re.split(SEPARATORS, text)} - {""}


def pairs(texts: list[str]) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(texts)), 2))


@pytest.mark.parametrize("memory", [1, 1_000])
@pytest.mark.parametrize("seed", seeds(2, 6))
def test_some_token_is_enough_and_under_not_none_may_be(seed: int, memory: int) -> None:
    rng = random.Random(seed)
    texts = [
        rng.choice([", ", " and "]).join(rng.choices(["A", "B", "C", "D E", "1", "2"], k=k))
        for k in rng.choices(range(5), k=9)
    ]
    some, other = BOTH
    named = [tokens(text) for text in texts]

    def is_one(m: int, n: int) -> bool:
        return texts[n] in named[m]

    def shared(m: int, n: int) -> bool:
        return bool(named[m] & named[n])

    both = f"tokenize(concat(a, ', ', b), '{SEPARATORS}')"
    joins: list[tuple[str, Callable[[int, int], bool]]] = [
        (f"{some} = b", is_one),
        (f"{some} = {other}", shared),
        (f"NOT {some} = b", lambda m, n: not is_one(m, n)),
        (f"{some} = b OR {some} = 'A'", lambda m, n: is_one(m, n) or "A" in named[m]),
        (f"{some} != b", lambda m, n: bool(named[m] - {texts[n]})),
        (f"{some} = number(b)", lambda m, n: texts[n] in {"1", "2"} & named[m]),
        (f"NOT tokenize(x/by, '{SEPARATORS}') = b", lambda m, n: not is_one(m, n)),
        (f"{both} = 'A'", lambda m, n: "A" in named[m] | named[n]),
        (f"NOT {both} > 1", lambda m, n: "2" not in named[m] | named[n]),
        (f"{both} != {both}", lambda m, n: len(named[m] | named[n]) > 1),
        ("tokenize('x, y', ',') = 'y'", lambda m, n: True),
        ("tokenize('x, y', ',') = 'z'", lambda m, n: False),
    ]
    alone: list[tuple[str, Callable[[set[str]], bool]]] = [
        (f"S//i[tokenize(./by, '{SEPARATORS}') = 'A']", lambda own: "A" in own),
        (f"S//i->x[./by->a] WHERE {some} = 'A'", lambda own: "A" in own),
        (f"S//i[not(tokenize(./by, '{SEPARATORS}') = 'A')]", lambda own: "A" not in own),
    ]
    queries = [
        f"S//i->x[./by->a] FOLLOWED BY {{{predicate}}} S//i->y[./by->b]" for predicate, _ in joins
    ]
    answers = found_by_each([*queries, *(query for query, _ in alone)], texts, memory)
    for (predicate, holds), answer in zip(joins, answers, strict=False):
        assert answer == {(m, n) for m, n in pairs(texts) if holds(m, n)}, predicate
    for (query, passes), answer in zip(alone, answers[len(joins) :], strict=True):
        assert answer == {(n,) for n, own in enumerate(named) if passes(own)}, query


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
    assert {number for (number,) in found(f"S//i[{condition}]", texts)} == numbers


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

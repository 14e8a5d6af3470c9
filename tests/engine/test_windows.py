"""What patterns range over and compare at once: the windows of OVER, and the nodes of documents."""

from __future__ import annotations

from math import inf, nan
from random import Random

import pytest

from broker import Broker, Document
from broker.pattern.comparing import some_compare
from broker.pattern.instances import Instance, Row
from broker.pattern.sliding import Column, Past
from tests.calls import calls
from tests.seeds import seeds
from xscl.functions.comparing import COMPARE


def prices(count: int) -> list[Document]:
    return [Document(str(n), "S", float(n), f"<q><p>{n % 9}</p></q>") for n in range(count)]


def asked(select: str) -> Broker:
    broker = Broker()
    broker.subscribe(f"q: SELECT {select} FROM S//q[./p->p] WAIT 0 s OVER 1 day;")
    return broker


@pytest.mark.parametrize("select", ["p, count(p) AS n, sum(p) AS s", "p, first(p) AS f"])
def test_a_match_costs_no_more_with_the_matches_in_its_window(select: str) -> None:
    def cost(count: int) -> int:
        broker = asked(select)
        broker.process(prices(1))
        with calls() as made:
            broker.process(prices(count)[1:])
        return made[0]

    assert cost(900) < 4 * cost(300)


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_a_window_has_what_a_list_of_the_matches_has(seed: int) -> None:
    r = Random(seed)
    past, every, end = Past(), list[Instance](), 0
    given: list[tuple[Column, list[Row]]] = []
    for number in range(r.randint(1, 60)):
        end += r.choice([0, 0, 1, 3])
        names = r.sample(["x", "y", "z"], r.randint(0, 2))
        instance = match(number, end, names, r)
        past.add(instance)
        every.append(instance)
        if r.random() < 0.5:
            past.drop(end - 5)
            every = [each for each in every if each.end >= end - 5]
        until = end - r.choice([0, 0, 2])
        columns = past.window(until)
        inside = [each for each in every if each.end <= until]
        for name in ("x", "y", "z"):
            rows = [each.single[name] for each in inside if name in each.single]
            assert [*columns.get(name, ())] == rows
            if not rows:
                assert name not in columns
                continue
            column = columns[name]
            texts = [text for row in rows for text in row.values["p"]]
            assert column.numbers("p") == [float(text) for text in texts if text != "?"]
            assert column.count("p") == sum([bool(row.values["p"]) for row in rows])
            assert (len(column), column[0], column[-1]) == (len(rows), rows[0], rows[-1])
            assert [*reversed(column)] == rows[::-1]
            assert column[1:] == rows[1:]
            given.append((column, rows))
    assert all([*column] == rows for column, rows in given)


@pytest.mark.parametrize("seed", seeds(50, 2_000))
def test_values_compare_as_every_pair_of_them_does(seed: int) -> None:
    r = Random(seed)
    some: list[object] = ["a", "b", "c"] if r.random() < 0.5 else [1.0, 2.0, nan, inf, -0.0, 0.0]
    op = r.choice(["=", "!="] if "a" in some else [*COMPARE])
    left, right = (r.choices(some[: r.randint(1, len(some))], k=r.randint(0, 9)) for _ in range(2))
    wanted = any(COMPARE[op](one, other) for one in left for other in right)
    assert some_compare(op, left, right) == wanted


def match(number: int, end: int, names: list[str], r: Random) -> Instance:
    single = {}
    for name in names:
        texts = [r.choice(["1", "2.5", "?"]) for _ in range(r.randint(0, 2))]
        single[name] = Row(number, number, number, end, end, str(number), 0, {}, {"p": texts})
    return Instance(end, end, end, end, 0, {}, frozenset(), None, single)

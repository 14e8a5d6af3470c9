"""The oracle of event patterns against itself: laws by which one query finds what another one finds.

The worked cases are in `tests/cases`. Documents have few times, so that many are simultaneous.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import xscl
from tests.oracle.oracle import Arrival, Oracle

SECOND = 1_000_000
LATENESS = 4
SEEDS = range(12)

_Rows = list[Any]


def documents(random: Random, names: str = "abcd", count: int = 9) -> list[Arrival]:
    """In the order of their times."""
    times = sorted(random.randint(0, 8) for _ in range(count))
    arrivals = []
    for n, time in enumerate(times):
        name = random.choice(names)
        xml = f"<{name}><k>{random.randint(1, 2)}</k><v>{n}</v></{name}>"
        arrivals.append(Arrival(f"d{n}", ("S",), time * SECOND, xml))
    return arrivals


def found(query: str, arrivals: list[Arrival], lateness: int = 10**6) -> _Rows:
    """The documents of all matches, sorted, once everything is decided."""
    oracle = Oracle(lateness * SECOND)
    (resolved,) = xscl.check([xscl.parse(query)]).queries
    oracle.subscribe(resolved)
    last = Arrival("last", ("~",), 3 * 10**6 * SECOND, "<last/>")
    matches = oracle.process([*arrivals, last])
    assert not oracle.dead
    return sorted((match.documents for match in matches), key=repr)


def flat(rows: _Rows) -> _Rows:
    """Without what stands for a branch that is not taken."""
    return sorted((tuple(part for part in row if part is not None) for row in rows), key=repr)


EQUAL = {
    "no b and no c": (
        "S/a FOLLOWED BY NOT (S/b OR S/c) FOLLOWED BY S/d",
        "S/a FOLLOWED BY NOT S/b FOLLOWED BY NOT S/c FOLLOWED BY S/d",
    ),
    "absences side by side": (
        "S/a FOLLOWED BY (NOT S/b JOIN NOT S/c) FOLLOWED BY S/d",
        "S/a FOLLOWED BY NOT S/c FOLLOWED BY NOT S/b FOLLOWED BY S/d",
    ),
    "absence at the end": (
        "S/a FOLLOWED BY {3} NOT S/b",
        "S/a FOLLOWED BY NOT S/b WITHIN 3",
    ),
    "absence of a group": (
        "S/a FOLLOWED BY NOT (S/b)+ FOLLOWED BY S/c",
        "S/a FOLLOWED BY NOT S/b FOLLOWED BY S/c",
    ),
    "one or more": (
        "S/a FOLLOWED BY (S/b)+ FOLLOWED BY S/c",
        "S/a FOLLOWED BY (S/b){1,} FOLLOWED BY S/c",
    ),
    "every run of one": (
        "S/a FOLLOWED BY (S/b){1} FOLLOWED BY S/c",
        "S/a FOLLOWED BY (S/b){1} FOLLOWED BY S/c USING SKIP TILL ANY MATCH WITHIN 100",
    ),
    "a partition is an equality": (
        "S/a FOLLOWED BY S/b FOLLOWED BY S/c PARTITION BY ./k",
        "S/a[./k->x] FOLLOWED BY S/b[./k->y] FOLLOWED BY S/c[./k->z] WHERE x = y AND y = z",
    ),
    "an absence in a partition": (
        "S/a FOLLOWED BY NOT S/b FOLLOWED BY S/c PARTITION BY ./k",
        "S/a[./k->x] FOLLOWED BY {x = y} NOT S/b[./k->y] FOLLOWED BY S/c[./k->z] WHERE x = z",
    ),
    "any match of single documents": (
        "S/a FOLLOWED BY S/b FOLLOWED BY S/c WITHIN 5",
        "S/a FOLLOWED BY S/b FOLLOWED BY S/c USING SKIP TILL ANY MATCH WITHIN 5",
    ),
    "the next is one with none before": (
        "S/a NEXT S/b",
        "S/a FOLLOWED BY NOT S/b FOLLOWED BY S/b",
    ),
    "the next that agrees": (
        "S/a[./k->x] NEXT {x = y} S/b[./k->y]",
        "S/a FOLLOWED BY NOT S/b FOLLOWED BY S/b PARTITION BY ./k",
    ),
    "next match of two": (
        "S/a NEXT S/b",
        "S/a FOLLOWED BY S/b USING SKIP TILL NEXT MATCH",
    ),
    "strict contiguity": (
        "S/a FOLLOWED BY S/b USING STRICT CONTIGUITY",
        "S/a FOLLOWED BY NOT (S/a OR S/b) FOLLOWED BY S/b",
    ),
    "a window after": (
        "S/a FOLLOWED BY S/b FOLLOWED BY {2 AFTER} S/c",
        "S/a FOLLOWED BY (S/b FOLLOWED BY {2} S/c)",
    ),
    "an OR in a list": (
        "(S/a OR S/b) FOLLOWED BY S/c",
        "S/a FOLLOWED BY S/c OR S/b FOLLOWED BY S/c",
    ),
    "JOIN in both orders and at once": (
        "S/a JOIN {3} S/b",
        "S/a FOLLOWED BY {3} S/b OR S/b FOLLOWED BY {3} S/a OR S/a JOIN {0} S/b",
    ),
}


@pytest.mark.parametrize(("one", "other"), EQUAL.values(), ids=EQUAL)
def test_two_ways_to_say_it(one: str, other: str) -> None:
    some = 0
    for seed in SEEDS:
        arrivals = documents(Random(seed))
        if one.endswith("CONTIGUITY"):
            arrivals = documents(Random(seed), "ab")
        left, right = flat(found(one, arrivals)), flat(found(other, arrivals))
        assert _sets(left) == _sets(right), seed
        some += len(left)
    assert some, "nothing matched, so nothing was compared"


def _sets(rows: _Rows) -> _Rows:
    """In whatever order a pattern names its documents; a group of one is its document."""
    return sorted(sorted(map(repr, _documents(row))) for row in rows)


def _documents(row: Any) -> _Rows:
    if isinstance(row[0], str):
        return [row]
    return [document for part in row for document in _documents(part)]


def _first_steps(rows: _Rows) -> _Rows:
    return [(left, steps[0]) for left, steps in rows if len(steps) == 1]


IMPLIED: dict[str, tuple[str, str, Callable[[_Rows], _Rows]]] = {
    "the first step of FOLD is the next": (
        "S/a[./k->x] FOLD {x = y, } S/b[./k->y]",
        "S/a[./k->x] NEXT {x = y} S/b[./k->y]",
        _first_steps,
    ),
}


@pytest.mark.parametrize(("one", "other", "part"), IMPLIED.values(), ids=IMPLIED)
def test_what_a_query_implies(one: str, other: str, part: Callable[[_Rows], _Rows]) -> None:
    for seed in SEEDS:
        arrivals = documents(Random(seed))
        assert sorted(part(found(one, arrivals)), key=repr) == found(other, arrivals)


ORDERS = (
    "S/a FOLLOWED BY NOT S/b FOLLOWED BY S/c",
    "S/a FOLLOWED BY {3} NOT S/b",
    "NOT S/b FOLLOWED BY {3} S/a",
    "S/a JOIN {2} NOT S/b",
    "S/a FOLLOWED BY (S/b)+ FOLLOWED BY S/c",
    "S/a FOLLOWED BY {3} (S/b[./v->v])+ WHERE v > prev(v)",
    "(S/a)+ WITHIN 3",
    "S/a NEXT S/b NEXT S/c",
    "S/a FOLD {, } S/b",
    "(S/a)+ FOLLOWED BY S/b USING SKIP TILL NEXT MATCH",
    "S/a FOLLOWED BY S/b USING STRICT CONTIGUITY",
    "S/a FOLLOWED BY S/b PARTITION BY ./k USING PARTITION CONTIGUITY",
    "S/a FOLLOWED BY S/b USING NON OVERLAPPING",
    "S/a FOLLOWED BY S/b USING ONE PER START",
    "SELECT sum(v) AS s FROM S/a[./v->v] OVER 3",
)


@pytest.mark.parametrize("query", ORDERS)
def test_the_order_of_arrival_within_the_lateness_changes_nothing(query: str) -> None:
    some = 0
    for seed in SEEDS:
        random = Random(seed)
        arrivals = documents(random)
        delayed = sorted(
            arrivals, key=lambda d: (d.timestamp + random.randint(0, LATENESS * SECOND), d.id)
        )
        wanted = found(query, arrivals)
        assert found(query, delayed, LATENESS) == wanted, seed
        some += len(wanted)
    assert some

"""What a unit finds is what brute force finds, whatever tree its places are filled by, and when it
is another one at each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random

import pytest

from broker.pattern.choices import Choices
from broker.pattern.setting import Setting
from broker.pattern.standing import Standing
from broker.planner import METHODS, Problem, Shape, is_order, plan
from tests.planner.rows import Event, advance, compiled, cuts, events
from tests.seeds import seeds

_WITHIN = 25_000

_ORDERED = """
    S/a[./k->k0][./v->v0] FOLLOWED BY S/b[./k->k1][./v->v1] FOLLOWED BY S/c[./k->k2][./v->v2]
    FOLLOWED BY S/d[./k->k3][./v->v3]
    USING SKIP TILL ANY MATCH WHERE k1 = k0 AND k3 = k0 AND v2 > v1 AND v3 + v0 > v2
    WITHIN 25 ms
"""
_NESTED = """
    (S/a[./k->k0][./v->v0] JOIN S/b[./k->k1][./v->v1]) FOLLOWED BY
    (S/c[./k->k2][./v->v2] JOIN (S/d[./k->k3][./v->v3] FOLLOWED BY S/b[./k->k4][./v->v4]))
    PARTITION BY ./k USING SKIP TILL ANY MATCH WHERE v1 != v0 AND v4 > v0 WITHIN 25 ms
"""


def _ordered(match: tuple[Event, ...]) -> bool:
    a, b, c, d = match
    return (
        a.time < b.time < c.time < d.time <= a.time + _WITHIN
        and a.key == b.key == d.key
        and c.value > b.value
        and d.value + a.value > c.value
    )


def _nested(match: tuple[Event, ...]) -> bool:
    a, b, c, d, e = match
    times = [each.time for each in match]
    return (
        max(a.time, b.time) < min(c.time, d.time)
        and d.time < e.time
        and max(times) - min(times) <= _WITHIN
        and len({each.key for each in match}) == 1
        and b.number != e.number
        and b.value != a.value
        and e.value > a.value
    )


CASES: list[tuple[str, str, Callable[[tuple[Event, ...]], bool]]] = [
    (_ORDERED, "abcd", _ordered),
    (_NESTED, "abcdb", _nested),
]


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_any_tree_finds_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    made: list[Shape] = []

    def by_chance(_: Setting, problem: Problem) -> Shape:
        places = [*range(len(problem))]
        random.shuffle(places)
        chosen = random.random() < 0.3
        found = plan(problem, random.choice(METHODS)) if chosen else _tree(random, places)
        made.append(found)
        return found

    monkeypatch.setattr(Setting, "shape", by_chance)
    monkeypatch.setattr(Choices, "_look", lambda choices: choices._plans.clear())
    matches = 0
    for text, kinds, holds in CASES:
        found = events(random, {"a": 12, "b": 13, "c": 12, "d": 10}, 26)
        random.shuffle(found)
        by_kind = [[each for each in found if each.kind == kind] for kind in kinds]
        wanted = Counter(
            tuple(each.number for each in match) for match in product(*by_kind) if holds(match)
        )
        standing = Standing(compiled(text), None, 10**9)
        got: Counter[tuple[int, ...]] = Counter()
        for batch in cuts(random, found, 8 if seed % 3 else 40):
            got.update(advance(standing, batch))
        assert got == wanted
        matches += len(wanted)
    assert matches, "cases without matches say nothing"
    assert not all(map(is_order, made)), "some are no orders"


def _tree(random: Random, places: list[int]) -> Shape:
    if len(places) == 1:
        return places[0]
    at = random.randrange(1, len(places))
    return _tree(random, places[:at]), _tree(random, places[at:])

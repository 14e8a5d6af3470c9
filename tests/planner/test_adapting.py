"""Plans follow what streams bring, and say what they expected and found."""

from __future__ import annotations

from random import Random

import pytest

from broker import ArgumentError, Broker
from broker.pattern.setting import Setting
from broker.pattern.standing import Standing
from broker.pattern.trace import Trace
from broker.planner import METHODS, Planning, Problem, Shape, parts_of, plan
from tests.planner.rows import Event, advance, compiled, events

_TEXT = """
    S/a[./k->k0][./v->v0] FOLLOWED BY S/b[./k->k1][./v->v1] FOLLOWED BY S/c[./k->k2][./v->v2]
    USING SKIP TILL ANY MATCH WHERE v1 > v0 AND v2 > v1 AND k2 = k0 WITHIN 40 ms
"""


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    made: list[Shape] = []

    def noted(setting: Setting, problem: Problem) -> Shape:
        made.append(plan(problem, *setting.planning))
        return made[-1]

    monkeypatch.setattr(Setting, "shape", noted)
    return made


def test_the_rarest_is_looked_for_first_when_streams_drift(shapes: list[Shape]) -> None:
    standing, random, first = Standing(compiled(_TEXT), None, 10**9), Random(1), 0
    for kinds, rarest in (({"a": 2, "b": 40, "c": 40}, 0), ({"a": 40, "b": 40, "c": 1}, 2)):
        shapes.clear()
        for _ in range(4):
            found = events(random, kinds, 40, first, first * 1_000)
            first += len(found)
            advance(standing, found)
            standing.expire((first - 1) * 1_000)
        assert any(parts_of(shape)[0] == rarest for shape in shapes)


def test_what_conjuncts_let_pass_changes_the_plan(shapes: list[Shape]) -> None:
    text = "S/a[./v->v0] JOIN S/b[./v->v1] JOIN S/c[./v->v2] USING SKIP TILL ANY MATCH"
    text += " WHERE v2 > v0 AND v2 > v1 WITHIN 1 s"
    standing, number = Standing(compiled(text), None, 10**9), 0
    for a, b in ((0, 9), (9, 0)):
        shapes.clear()
        begin = number * 1_000_000
        for count in range(300):
            kind = "abc"[count % 3 if count < 60 else 2]
            value = {"a": a, "b": b, "c": 5}[kind]
            advance(standing, [Event(number, kind, begin + count, 0, value)])
            number += 1
        standing.expire(number * 1_000_000)
        # Of a new document of c few go together with those of the larger value.
        few = 1 if b > a else 0
        assert parts_of(shapes[-1]) == [2, few, 1 - few]


@pytest.mark.parametrize("method", METHODS)
def test_every_planner_finds_the_same(method: str) -> None:
    found = events(Random(3), {"a": 30, "b": 30, "c": 30}, 60)
    wanted = {*advance(Standing(compiled(_TEXT), None, 10**9), found)}
    planning = Planning(method)  # type: ignore[arg-type]
    standing = Standing(compiled(_TEXT), None, 10**9, planning=planning)
    assert {match for event in found for match in advance(standing, [event])} == wanted
    assert wanted


def test_a_plan_says_what_it_expected_and_found() -> None:
    trace = Trace()
    standing = Standing(compiled(_TEXT), None, 10**9, trace=trace)
    found = events(Random(4), {"a": 3, "b": 20, "c": 20}, 40)
    matches = advance(standing, found)
    (planned,) = trace.plans
    lines = planned.lines(lambda item: f"place {planned.variant.singles.index(item)}")
    assert lines[0] == "  from place 0: 3 expected, 3 found"
    assert lines[-1].endswith(f" expected, {len(matches)} found")
    assert any("found by k" in line for line in lines)


def test_the_library_chooses_a_planner() -> None:
    with pytest.raises(ArgumentError, match="DP-LD"):
        Broker(planner="QUICK")  # type: ignore[arg-type]
    with Broker(planner="EFREQ", planning=None) as broker:
        broker.subscribe("S/a->x FOLLOWED BY {1 h} S/b->y NEXT S/c")

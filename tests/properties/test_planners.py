"""The engine equals the oracle whatever the plans are, and whatever queries share: by every planner,
by trees that chance makes, and with another plan at each call, so that nothing may depend on the one
before; with forms that queries have in common, without them, and without anything in common.
"""

from __future__ import annotations

from random import Random

import pytest

from broker.pattern.choices import Choices
from broker.pattern.setting import Setting
from broker.planner import METHODS, Problem, Shape, plan
from broker.query.canonical import Subscription
from broker.standing import members
from broker.standing.members import Members
from broker.state.pattern_tables import Entry
from tests.oracle.generate_patterns import pattern_case
from tests.properties.harness import disagreement, expected, flat, reduced
from tests.seeds import seeds

CASES = 8

SHARED = ("forms", "patterns", "nothing")
"""What queries have in common: what matches those of one form, or those of one text alone."""


@pytest.mark.parametrize("start", seeds(2, 50))
def test_plans_change_no_match(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Shape] = []
    random = Random(start)

    def by_chance(_: Setting, problem: Problem) -> Shape:
        if random.random() < 0.3:
            found = plan(problem, random.choice(METHODS))
        else:
            places = [*range(len(problem))]
            random.shuffle(places)
            found = _tree(random, places)
        made.append(found)
        return found

    monkeypatch.setattr(Setting, "shape", by_chance)
    monkeypatch.setattr(Choices, "_look", lambda choices: choices._plans.clear())
    matches = 0
    for seed in range(CASES * start, CASES * (start + 1)):
        case = pattern_case(Random(seed + 7_000))
        with monkeypatch.context() as patch:
            _share(SHARED[seed % len(SHARED)], patch)
            assert disagreement(case) is None, reduced(case, 200)
        matches += len(flat(expected(case)))
    assert matches > 0, "cases without matches say nothing"
    assert len(made) > CASES, "plans were made anew"


def _share(what: str, patch: pytest.MonkeyPatch) -> None:
    if what != "forms":
        patch.setattr(Members, "group", lambda self, pattern: None)
    if what == "nothing":
        patch.setattr(members, "kind", _own)


def _own(subscription: Subscription, entry: Entry) -> object:
    """What is the same for no two subscriptions."""
    return entry


def _tree(random: Random, places: list[int]) -> Shape:
    if len(places) == 1:
        return places[0]
    at = random.randrange(1, len(places))
    return _tree(random, places[:at]), _tree(random, places[at:])

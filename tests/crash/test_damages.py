"""Random damages are refused, told or made good; `python -m tests.crash.damages` tries more."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.crash.damages import States, random_damage

COUNT = 25


def test_random_damages_are_refused_told_or_made_good(tmp_path: Path) -> None:
    states = States(tmp_path)
    outcomes = [
        states.outcome(random_damage(Random(number), states.older)) for number in range(COUNT)
    ]
    assert not [what for outcome, what in outcomes if outcome == "LOST"]
    assert {outcome for outcome, _ in outcomes} == {"refused", "told", "whole"}

"""Queries put together with little regard for the rules are refused at a place of their text, or
find what the oracle says.

`python -m tests.properties.deep --level wild` goes on where this stops.
"""

from __future__ import annotations

from random import Random

import pytest

import xscl
from tests.oracle.generate_wild import wild_case, wild_text
from tests.properties.harness import disagreement, expected, flat, reduced
from tests.seeds import seeds

CASES = 60


@pytest.mark.parametrize("start", seeds(2, 40))
def test_what_is_not_refused_is_as_the_oracle_says(start: int) -> None:
    matches = 0
    for seed in range(CASES * start, CASES * (start + 1)):
        case = wild_case(Random(seed))
        assert disagreement(case) is None, reduced(case, 200)
        matches += bool(flat(expected(case)))
    assert matches > CASES // 10, "cases without matches say nothing"


@pytest.mark.parametrize("start", seeds(1, 20))
def test_what_is_refused_is_at_a_place_of_the_text(start: int) -> None:
    refused = 0
    for seed in range(1_000 * start, 1_000 * (start + 1)):
        text = wild_text(Random(seed))
        found = [] if text is None else _found(text)
        assert all(0 <= each.span.start <= each.span.end <= len(text or "") for each in found)
        assert all(each.render() for each in found)
        refused += bool(found)
    assert refused > 100


def _found(text: str) -> list[xscl.Diagnostic]:
    try:
        xscl.check([xscl.parse(text)])
    except xscl.XsclError as error:
        return [*error.diagnostics]
    return []

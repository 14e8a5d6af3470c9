"""The engine equals the oracle for event patterns: random queries on short streams of dense ties.

`python -m tests.properties.deep --level patterns` goes on where this stops.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.oracle.generate_patterns import pattern_case
from tests.properties.harness import disagreement, expected, flat, reduced
from tests.seeds import seeds

CASES = 40


@pytest.mark.parametrize("start", seeds(2, 10))
def test_patterns_are_as_the_oracle_says(start: int) -> None:
    matches = 0
    for seed in range(CASES * start, CASES * (start + 1)):
        case = pattern_case(Random(seed))
        assert disagreement(case) is None, reduced(case, 200)
        matches += len(flat(expected(case)))
    assert matches > CASES // 4, "cases without matches say nothing"

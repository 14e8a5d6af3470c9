"""The engine equals Saxon: random queries over random documents.

Together several hundred queries. What fails is reduced and printed; `python -m tests.saxon.deep`
goes on where this stops.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.saxon.cases import Kind, make
from tests.saxon.harness import compare, reduced
from tests.seeds import seeds

TOGETHER = 10
"""Cases of one test: so many that some queries match, and that Saxon answers nearly all."""
TESTS: dict[Kind, range] = {"flat": seeds(1, 2), "derived": seeds(1, 3), "wild": seeds(1, 3)}


@pytest.mark.parametrize(
    ("kind", "first"),
    [(kind, TOGETHER * number) for kind, numbers in TESTS.items() for number in numbers],
)
def test_engine_equals_saxon(kind: Kind, first: int) -> None:
    answered = matches = left_out = 0
    for seed in range(first, first + TOGETHER):
        case = make(Random(seed), kind)
        found = compare(case)
        if found.kind is not None:
            pytest.fail(f"{kind} {seed}:\n{reduced(case, 100)}")
        answered, matches = answered + found.answered, matches + found.matches
        left_out += len(found.left_out)
    assert matches > answered > 9 * left_out

"""`why` against brute force, which knows the reason for each document and each pair. The long run:
`python -m tests.why.deep`."""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from tests.why.deep import case, difference, told
from xscl import check, parse


@pytest.mark.parametrize("level", ["core", "full"])
@pytest.mark.parametrize("seed", seeds(6, 12))
def test_random_cases(seed: int, level: str) -> None:
    assert difference(*case(seed, level)) is None


def test_random_cases_have_something_to_tell() -> None:
    """Blocks that pass and fail, pairs that agree, miss order and window, and match."""
    seen = {"fell": 0, "agree": 0, "order": 0, "window": 0, "predicate": 0, "matched": 0}
    for seed in range(8, 24):
        text, arrivals = case(seed, "full")
        (resolved,) = check([parse(text)]).queries
        found = told(resolved, arrivals)
        seen["fell"] += sum(len(block.fell) for block in found.blocks)
        seen["matched"] += found.whole.matched
        for join in found.joins:
            seen["agree"] += join.agree
            seen["order"] += join.agree - join.ordered
            seen["window"] += join.ordered - join.within
            seen["predicate"] += join.within - join.passed
    assert all(seen.values()), seen

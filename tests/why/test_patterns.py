"""`why` of event patterns against brute force: what each block takes, what matches, what waits, and
what a NOT has blocked. The long run: `python -m tests.why.patterns`."""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from tests.why.patterns import case, difference, told


@pytest.mark.parametrize("seed", seeds(30, 2_000))
def test_random_cases(seed: int) -> None:
    asked = case(seed)
    assert difference(asked, told(asked)) is None


def test_random_cases_have_something_to_tell() -> None:
    """Matches, what waits, and what is blocked, by documents or for it looks back too far."""
    seen = {"matched": 0, "waiting": 0, "by": 0, "back": 0}
    for seed in range(30):
        why = told(case(seed, absences=True))
        seen["matched"] += bool(why.found)
        seen["waiting"] += bool(why.waiting)
        seen["by"] += any(each.by for each in why.blocked)
        seen["back"] += any(not each.by for each in why.blocked)
    assert all(seen.values()), seen

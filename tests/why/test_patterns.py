"""`why` of event patterns against brute force: what each block takes, what matches, what waits, and
what a NOT has blocked. The long run: `python -m tests.why.patterns`."""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from tests.why.patterns import asked, case, difference, told


@pytest.mark.parametrize("seed", [7720, *seeds(30, 2_000)])
def test_random_cases(seed: int) -> None:
    """Also a document that is a match with one of its nodes and blocked with another (7720)."""
    of = case(seed)
    assert difference(of, told(of)) is None


@pytest.mark.parametrize("seed", [1235, *seeds(10, 500)])
def test_all_that_waits_is_decided_at_the_end_of_an_input(seed: int) -> None:
    """Also an iteration of FOLD that cannot begin before a NOT is decided (1235). What OVER and the
    like choose among matches is not counted."""
    of = case(seed)
    if any(word in of.text for word in (" OVER ", "NON OVERLAPPING", "ONE PER START")):
        return
    with asked(of) as (broker, found):
        assert len(broker.decide()) == found.waiting_count


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

"""The engine equals the oracle for event patterns: random queries on short streams of dense ties.

`python -m tests.properties.deep --level patterns` goes on where this stops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

import xscl
from broker.query.patterns import pattern_query
from tests.oracle.generate import Case, Event, Subscribe
from tests.oracle.generate_patterns import pattern_case
from tests.properties.harness import disagreement, expected, flat, reduced
from tests.seeds import seeds
from xscl.check.patterns import holds_pattern
from xscl.check.program import ResolvedQuery

CASES = 40
WAYS = ("NON OVERLAPPING", "ONE PER START", "OVER")
"""To look at several matches."""


@pytest.mark.parametrize("start", seeds(2, 10))
def test_patterns_are_as_the_oracle_says(start: int) -> None:
    matches = 0
    for seed in range(CASES * start, CASES * (start + 1)):
        case = pattern_case(Random(seed))
        assert disagreement(case) is None, reduced(case, 200)
        matches += len(flat(expected(case)))
    assert matches > CASES // 4, "cases without matches say nothing"


@pytest.mark.parametrize("start", seeds(1, 10))
def test_what_looks_at_several_matches_is_as_the_oracle_says(start: int) -> None:
    """Where it is matched together with others of its shape."""
    matches: Counter[str] = Counter()
    for seed in range(CASES * start, CASES * (start + 1)):
        case = pattern_case(Random(seed), tied=True, several=True)
        assert disagreement(case) is None, reduced(case, 200)
        found = flat(expected(case))
        for way, queries in together(case).items():
            matches[way] += sum(match.query in queries for match in found)
    assert min(matches[way] for way in WAYS) > CASES // 8, matches


def _registered(event: Event) -> Sequence[ResolvedQuery]:
    if isinstance(event, Subscribe):
        return xscl.check([xscl.parse(event.text)]).queries
    return ()


def together(case: Case) -> dict[str, set[str]]:
    """The queries of a case that look at several of their matches, and are matched together with
    others of their shape, by how they look at them."""
    found: dict[str, set[str]] = {way: set() for way in WAYS}
    for event in case.events:
        for query in _registered(event):
            if not holds_pattern(query.query) or pattern_query(query).ordered is None:
                continue
            strategy = query.query.strategy
            ways = (strategy and strategy.choosing, query.query.over and "OVER")
            for way in ways:
                if way:
                    found[way].add(query.id)
    return found

"""The engine equals the oracle where nearly everything joins: hot values, repeated elements, tiny
memory, results that join again, queries that come and go.

About 50 matches per broker. `python -m tests.properties.deep --level hard` goes on where this
stops, and `python -m tests.properties.paths` says which ways through stage 2 the cases take.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest

from tests.oracle.generate import recut
from tests.oracle.generate_hard import hard_case
from tests.properties.harness import disagreement, flat, observed, reduced
from tests.properties.paths import counted
from tests.seeds import seeds

OFTEN = {
    "memory: a block": 40,
    "memory: a pair": 300,
    "memory: several matches of one pair": 40,
    "steps: a match": 40,
    "steps: a template is left to SQL": 1,
    "template: 1 blocks": 40,
    "template: 2 blocks": 300,
    "template: 3 blocks": 100,
    "template: 4 blocks": 20,
    "template: a later block is new": 200,
    "template: a residual": 150,
    "template over all of RL": 50,
    "slice: a pair": 800,
    "slice: reached by a longer pattern": 80,
    "slice: reached and recalled": 10,
    "cold: a pair": 1500,
    "cold: with hot values": 200,
    "hot: a value becomes hot": 150,
    "hot: a list": 1500,
    "hot: a list in common": 200,
    "hot: a short list": 800,
    "hot: only longer lists are long": 5,
    "hot: as left block": 1000,
    "hot: met before": 30,
    "hot: listed together from what was there": 200,
    "history: let go": 200,
    "history: let go, out of order": 15,
    "history: recalled": 800,
    "revised": 30,
    "documents read at a restart": 8,
    "a subscriber's own window refuses": 200,
}
"""How often the first cases take each way, at least: about two thirds of what they do."""


@cache
def eight(start: int) -> tuple[str | None, Counter[str]]:
    """A disagreement in eight cases, and how often they take each way."""
    with counted() as counts:
        for seed in range(start, start + 8):
            of = hard_case(Random(seed))
            if disagreement(of) is not None:
                return f"seed {seed}, level hard:\n{reduced(of, 200)}", counts
    return None, counts


@pytest.mark.parametrize("start", [8 * n for n in seeds(2, 10)])
def test_engine_equals_oracle_where_nearly_everything_joins(start: int) -> None:
    found, _ = eight(start)
    if found is not None:
        pytest.fail(found)


def test_the_cases_take_every_way_often() -> None:
    counts = sum((eight(start)[1] for start in range(0, 48, 8)), Counter[str]())
    assert {way: counts[way] for way, least in OFTEN.items() if counts[way] < least} == {}
    assert counts.keys() == OFTEN.keys()


@pytest.mark.parametrize("seed", seeds(1, 6, start=200))
def test_batch_boundaries_change_nothing(seed: int) -> None:
    one = hard_case(Random(seed))
    other = recut(Random(seed), one)
    assert flat(observed(one)) == flat(observed(other)), f"{one}\nand\n{other}"

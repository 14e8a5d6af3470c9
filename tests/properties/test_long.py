"""The engine equals the oracle for queries of three and four blocks that say nothing but that
values are equal, whoever decides them: steps in memory, SQL, or SQL where steps have given up."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from pathlib import Path
from random import Random

import pytest

from broker import Broker
from tests.oracle.generate import Case
from tests.oracle.generate_hard import LONG, hard_case
from tests.properties.harness import difference, expected, observed, one_machine
from tests.properties.paths import counted
from tests.seeds import seeds

MOST = {"in memory": (5_000, 20), "until they are many": (20, 1), "in SQL": (-1, 0)}
"""Who decides, and how many documents are looked at in memory at most."""

OFTEN = {
    "steps: a match": 150,
    "steps: a template is left to SQL": 30,
    "template: 3 blocks": 100,
    "template: 4 blocks": 20,
}
"""How often the first cases take each way, at least."""


def _opened(most: tuple[int, int], case: Case, state: Path | None) -> Broker:
    broker = one_machine(case, state)
    broker.engine.joiner.long.most = most
    return broker


@cache
def four(start: int) -> tuple[list[str], Counter[str]]:
    """The disagreements in four cases, and how often they take each way."""
    wrong = []
    with counted() as counts:
        for seed in range(start, start + 4):
            of = hard_case(Random(seed), LONG)
            wanted = expected(of)
            for who, most in MOST.items():
                found = observed(of, opening=partial(_opened, most))
                if differs := difference(of, wanted, found):
                    wrong.append(f"seed {seed}, {who}: {differs}")
    return wrong, counts


@pytest.mark.parametrize("start", [4 * n for n in seeds(4, 50)])
def test_long_queries_equal_the_oracle_whoever_decides(start: int) -> None:
    wrong, _ = four(start)
    assert not wrong, wrong[0]


def test_the_cases_take_every_way_often() -> None:
    counts = sum((four(start)[1] for start in range(0, 16, 4)), Counter[str]())
    assert {way: counts[way] for way, least in OFTEN.items() if counts[way] < least} == {}

"""The engine equals the brute-force oracle for random queries, streams and batches.

Every seed is one broker with several queries, which at level "full" also read each other's results;
together about a thousand queries. What fails is
reduced and printed. `python -m tests.properties.deep` goes on where this stops.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.oracle.asking import doc
from tests.oracle.generate import WEEK, Batch, Case, Subscribe, case, recut, reordered, steady
from tests.oracle.generate_documents import Level
from tests.properties.harness import difference, disagreement, expected, flat, observed, reduced
from tests.seeds import seeds

law = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=4,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
randoms = st.randoms(use_true_random=False)


@pytest.mark.parametrize("level", ["core", "full"])
@pytest.mark.parametrize("start", seeds(2, 12))
def test_engine_equals_oracle(level: Level, start: int) -> None:
    for seed in range(10 * start, 10 * start + 10):
        of = case(Random(seed), level)
        if disagreement(of) is not None:
            pytest.fail(f"seed {seed}, level {level}:\n{reduced(of, 200)}")


@pytest.mark.parametrize("level", ["core", "full"])
@law
@given(r=randoms)
def test_batch_boundaries_change_nothing(level: Level, r: Random) -> None:
    one = case(r, level)
    _same_matches(one, recut(r, one))


@pytest.mark.parametrize("level", ["core", "full"])
@law
@given(r=randoms)
def test_order_of_arrival_within_the_lateness_changes_nothing(level: Level, r: Random) -> None:
    one = steady(r, level, derived=level == "full")
    _same_matches(one, reordered(r, one))


def _same_matches(one: Case, other: Case) -> None:
    assert flat(observed(one)) == flat(observed(other)), f"{one}\nand\n{other}"


@pytest.mark.parametrize("level", ["core", "full"])
@pytest.mark.parametrize("seed", range(4))
def test_a_restart_changes_nothing(level: Level, seed: int) -> None:
    of = case(Random(1000 + seed), level)
    coin = Random(seed)
    answer = observed(of, restart_before=lambda number: number > 0 and coin.random() < 0.5)
    assert not (found := difference(of, expected(of), answer)), found


def test_results_of_a_batch_with_a_revision() -> None:
    """What is published before a revision joins with what comes behind it in the same batch."""
    query = Subscribe("q1: S/b PUBLISH p; q2: p/result JOIN S/c", ("q1", "q2"))
    first, revised = doc("d1", 1, "<a/>"), doc("d1", 1, "<a/>", revision=True)
    batch = Batch((doc("d2", 2, "<b/>"), revised, doc("d3", 3, "<c/>")))
    found = disagreement(Case(WEEK, (query, Batch((first,)), batch)))
    assert found is None, found.text

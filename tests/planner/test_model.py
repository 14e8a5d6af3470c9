"""The formulas of the papers, worked out by hand."""

from __future__ import annotations

from random import Random

import pytest

from broker.planner import Attached, Problem, of_order, parts_of, plan

THREE = Problem((100.0, 10.0, 4.0), {(0, 1): 0.1, (0, 2): 0.5})


def test_the_throughput_of_an_order_is_its_partial_matches() -> None:
    # 4, then 4 * 10, then 4 * 10 * 100 * 0.1 * 0.5
    assert THREE.cost_of_order([2, 1, 0]) == pytest.approx(4 + 40 + 200)
    # 100, then 100 * 10 * 0.1, then the same 200
    assert THREE.cost_of_order([0, 1, 2]) == pytest.approx(100 + 100 + 200)


def test_a_tree_pays_for_its_single_parts_too() -> None:
    assert THREE.cost(((0, 1), 2)) == pytest.approx(114 + 100 + 200)
    assert THREE.cost((0, (1, 2))) == pytest.approx(114 + 40 + 200)


def test_order_leaves_one_in_k_factorial() -> None:
    listed = Problem((6.0, 6.0, 6.0), ordered=((1, 2, 4),))
    assert listed.size(0b111) == pytest.approx(216 / 6)
    assert listed.size(0b101) == pytest.approx(36 / 2)
    # (0, 1) before 2, and 0 and 1 in any order: 2 of the 6 orders
    joined = Problem((6.0, 6.0, 6.0), ordered=((0b011, 0b100),))
    assert joined.size(0b111) == pytest.approx(216 / 3)


def test_equal_values_leave_one_in_v_for_each_but_the_first() -> None:
    equal = Problem((10.0, 10.0, 10.0), equal=((0b111, 5.0),))
    assert equal.size(0b111) == pytest.approx(1000 / 25)
    assert equal.size(0b100) == 10


def test_all_that_is_old_comes_before_all_that_is_new() -> None:
    listed = Problem((6.0,) * 4, ordered=((1, 2, 4, 8),), old=0b0011)
    assert listed.size(0b0011) == pytest.approx(36 / 2)
    assert listed.size(0b0110) == pytest.approx(36)
    assert listed.size(0b1111) == pytest.approx(1296 / 4)


@pytest.mark.parametrize("windows", [0.4, 1.0, 3.0])
def test_the_share_within_a_window_is_what_is_counted(windows: float) -> None:
    # Two come within the last window, two over the next ones, in this order.
    random, tries = Random(5), 40_000
    problem = Problem((1.0,) * 4, ordered=((1, 2, 4, 8),), old=0b0011, windows=windows)
    for places in ([0, 1], [1, 2], [2, 3], [0, 1, 2], [1, 2, 3], [0, 1, 2, 3]):
        found = 0
        for _ in range(tries):
            old = [random.random() - 1 for place in places if place < 2]
            times = [*old, *[random.random() * windows for place in places if place >= 2]]
            found += times == sorted(times) and times[-1] - times[0] <= 1
        expected = problem.size(sum(1 << place for place in places))
        assert found / tries == pytest.approx(expected, rel=0.2), places


def test_latency_counts_what_stands_behind_the_last_in_time() -> None:
    late = Problem((100.0, 10.0, 4.0), last=2, latency=2.0)
    assert late.cost_of_order([0, 1, 2]) == pytest.approx(100 + 1000 + 4000)
    assert late.cost_of_order([2, 1, 0]) == pytest.approx(4 + 40 + 4000 + 2 * (10 + 100))
    # in a tree what stands beside the way up from it
    assert late.cost((0, (1, 2))) == pytest.approx(114 + 40 + 2 * 10 + 4000 + 2 * 100)


def test_latency_turns_the_order_round() -> None:
    counts, order = (100.0, 10.0, 4.0), ((1, 2, 4),)
    quick = Problem(counts, ordered=order, last=2, latency=1e6)
    assert plan(Problem(counts, ordered=order), "DP-LD") == of_order([2, 1, 0])
    assert plan(quick, "DP-LD") == of_order([1, 0, 2])


def test_operators_read_pairs_and_make_matches() -> None:
    # ZStream: A;B reads |A||B|Pt pairs, asks their predicate, and makes |A||B|Pt P of them.
    one = Problem((8.0, 5.0), {(0, 1): 0.1}, ((1, 2),), model="operators")
    assert one.node(1, 2) == pytest.approx(20 * 1.25 + 2)
    joined = Problem((8.0, 5.0), model="operators")
    assert joined.node(1, 2) == pytest.approx(40 + 40)


def test_a_search_reads_what_is_near_in_order_and_has_the_value() -> None:
    # It reads 20 of 40 pairs, as they are in order, asks of each, and makes two of them.
    asked = Problem((8.0, 5.0), {(0, 1): 0.1}, ((1, 2),), model="search")
    assert asked.node(1, 2) == pytest.approx(20 * 1.15 + 2 * 0.35)
    free = Problem((8.0, 5.0), model="search")
    assert free.node(1, 2) == pytest.approx(40 * 1.35)
    # An equality finds what it asks for, and so does PARTITION BY.
    tied = Problem((8.0, 5.0), {(0, 1): 0.1}, model="search", found=frozenset([(0, 1)]))
    assert tied.node(1, 2) == pytest.approx(4 * 1.15 + 4 * 0.35)
    near = Problem((8.0, 5.0), equal=((0b11, 4.0),), model="search")
    assert near.node(1, 2) == pytest.approx(10 * 1.35)
    # Of two equalities between the same sets one finds, and the other is asked.
    pairs = {(0, 2): 0.1, (1, 2): 0.5}
    both = Problem((2.0, 3.0, 10.0), pairs, model="search", found=frozenset(pairs))
    assert both.node(0b011, 0b100) == pytest.approx(6 * 1.15 + 3 * 0.35)
    # What needs three parts is asked where the last one comes.
    late = Problem((2.0, 3.0, 10.0), attached=(Attached(0b111, 0.5),), model="search")
    assert late.node(0b001, 0b010) == pytest.approx(6 * 1.35)
    assert late.node(0b011, 0b100) == pytest.approx(60 * 1.15 + 30 * 0.35)


def test_a_search_begins_where_less_is_read_though_more_is_made() -> None:
    # Of the first two the least is left, but all their pairs are read; the last two are found.
    counts, pairs = (100.0, 100.0, 100.0), {(0, 1): 0.001, (1, 2): 0.005}
    assert set(parts_of(plan(Problem(counts, pairs), "DP-LD"))[:2]) == {0, 1}
    search = Problem(counts, pairs, model="search", found=frozenset([(1, 2)]))
    assert set(parts_of(plan(search, "DP-LD"))[:2]) == {1, 2}


def test_an_absence_stands_as_early_as_it_can() -> None:
    # A, NOT B, C, D: nine in ten of the pairs of A and C are forbidden.
    counts = (50.0, 50.0, 20.0)
    early = Problem(counts, attached=(Attached(0b011, 0.1),))
    assert early.size(0b011) == pytest.approx(250)
    assert parts_of(plan(early, "DP-LD"))[-1] == 2
    assert parts_of(plan(Problem(counts), "DP-LD"))[0] == 2


def test_a_group_multiplies_what_it_is_filled_for() -> None:
    grouped = Problem((10.0, 10.0, 10.0), attached=(Attached(0b011, 32.0),))
    assert grouped.size(0b011) == pytest.approx(3200)
    assert grouped.size(0b110) == pytest.approx(100)
    assert parts_of(plan(grouped, "DP-LD"))[-1] in (0, 1)

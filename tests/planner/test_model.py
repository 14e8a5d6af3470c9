"""The formulas of the papers, worked out by hand."""

from __future__ import annotations

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

"""DP-LD, DP-B and the interval programme find the best of all there is, which is tried in full."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from broker.planner import METHODS, Method, Problem, is_order, parts_of, plan
from broker.planner.all_orders import cheapest_order, order_by_columns, plain_order, sizes_of
from broker.planner.deadline import Deadline, OutOfTime
from broker.planner.orders import greedy
from tests.planner.problems import (
    counted,
    order_cost,
    random_problem,
    tree_cost,
    trees_over,
)
from tests.seeds import seeds

NEVER = Deadline(None)


@pytest.mark.parametrize("seed", seeds(12, 40))
def test_dp_ld_is_the_best_order(seed: int) -> None:
    problem = random_problem(Random(seed), 2 + seed % 4, latency=seed % 2 == 1)
    best = min(order_cost(problem, order) for order in permutations(range(len(problem))))
    order = cheapest_order(problem, NEVER)
    assert order_cost(problem, order) == pytest.approx(best)
    assert problem.cost_of_order(order) == pytest.approx(best)


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_columns_are_what_the_plain_programme_says(seed: int) -> None:
    problem = random_problem(Random(seed), 8 + seed % 3, latency=seed % 2 == 1)
    sizes = sizes_of(problem)
    masks = Random(seed).sample(range(1, problem.whole + 1), 60)
    assert [sizes[mask] for mask in masks] == pytest.approx([problem.size(mask) for mask in masks])
    found = problem.cost_of_order(order_by_columns(problem, NEVER))
    assert found == pytest.approx(problem.cost_of_order(plain_order(problem, NEVER)))


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_trees_are_the_best_of_their_space(seed: int) -> None:
    problem = random_problem(Random(seed), 5 if seed == 8 else 2 + seed % 3, latency=seed % 2 == 1)
    number = range(len(problem))
    of_all = min(
        tree_cost(problem, tree) for order in permutations(number) for tree in trees_over(order)
    )
    assert tree_cost(problem, plan(problem, "DP-B", None)) == pytest.approx(of_all)
    spaces: list[tuple[Method, list[int]]] = [
        ("ZSTREAM", [*number]),
        ("ZSTREAM-ORD", greedy(problem)),
    ]
    for method, order in spaces:
        best = min(tree_cost(problem, tree) for tree in trees_over(order))
        found = plan(problem, method, None)
        assert parts_of(found) == order
        assert tree_cost(problem, found) == pytest.approx(best) == problem.cost(found)


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_the_default_is_never_worse_than_any_order(seed: int) -> None:
    problem = random_problem(Random(seed), 6)
    found = tree_cost(problem, plan(problem, seconds=None))
    best = tree_cost(problem, plan(problem, "DP-B", None))
    every = [tree_cost(problem, plan(problem, method, None)) for method in METHODS]
    assert best == pytest.approx(min(every))
    left = [m for m in METHODS if is_order(plan(problem, m, None))]
    assert all(found <= tree_cost(problem, plan(problem, m, None)) * (1 + 1e-9) for m in left)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", [1, 2, 12])
def test_every_method_takes_each_part_once(method: Method, number: int) -> None:
    problem = random_problem(Random(number), number)
    assert sorted(parts_of(plan(problem, method, 0.02))) == [*range(number)]


@pytest.mark.parametrize("method", METHODS)
def test_thirty_parts_are_no_bomb(method: Method) -> None:
    problem = random_problem(Random(3), 30)
    assert sorted(parts_of(plan(problem, method))) == [*range(30)]


def test_planning_stops_with_the_best_so_far() -> None:
    problem = Problem(tuple(float(100 - part) for part in range(14)), {(0, 1): 0.001})
    with pytest.raises(OutOfTime):
        cheapest_order(problem, Deadline(0))
    found = plan(problem, seconds=0)
    assert problem.cost(found) <= problem.cost(plan(problem, "GREEDY")) * (1 + 1e-9)


def test_the_reckoning_by_counting_sees_order() -> None:
    problem = Problem((2.0, 3.0, 5.0), ordered=((1, 2, 4),))
    assert counted(problem, [0, 1, 2]) == pytest.approx(30 / 6)

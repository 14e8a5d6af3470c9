"""Orders of parts without a search of all of them: TRIVIAL, EFREQ, GREEDY, and iterative
improvement (Kolchinsky and Schuster; Swami, Optimization of Large Join Queries, 1989)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from random import Random

from broker.planner.deadline import Deadline
from broker.planner.model import Problem

STARTS = 8
"""From how many random orders II-RANDOM descends."""


def trivial(problem: Problem) -> list[int]:
    """The order of the pattern."""
    return [*range(len(problem))]


def by_frequency(problem: Problem) -> list[int]:
    """EFREQ: the rarest first."""
    return sorted(range(len(problem)), key=lambda part: (problem.counts[part], part))


def greedy(problem: Problem) -> list[int]:
    """GREEDY: at each step the part with which the fewest partial matches are made."""
    order: list[int] = []
    mask = 0
    left = [*range(len(problem))]
    while left:
        part = min(left, key=lambda each: (problem.step(mask, each), each))
        left.remove(part)
        order.append(part)
        mask |= 1 << part
    return order


def improved(problem: Problem, start: Sequence[int], deadline: Deadline) -> list[int]:
    """An order from which no swap of two parts, and no rotation of three, leads to a better one;
    the best so far when the time is over."""
    order = [*start]
    cost = problem.cost_of_order(order)
    better = True
    while better:
        better = False
        for other in _neighbours(order):
            if deadline.passed:
                return order
            found = problem.cost_of_order(other)
            if found < cost:
                order, cost, better = other, found, True
                break
    return order


def _neighbours(order: Sequence[int]) -> list[list[int]]:
    """The orders that a swap makes, then those of rotations of parts that stand together."""
    found = []
    for one, other in combinations(range(len(order)), 2):
        swapped = [*order]
        swapped[one], swapped[other] = order[other], order[one]
        found.append(swapped)
    for place in range(len(order) - 2):
        three = order[place : place + 3]
        for turned in [*permutations(three)][3:5]:  # the two that move all of them
            found.append([*order[:place], *turned, *order[place + 3 :]])
    return found


def improved_from_random(problem: Problem, deadline: Deadline, seed: int = 0) -> list[int]:
    """II-RANDOM: the best of what random orders are improved to."""
    random = Random(seed)
    best: list[int] | None = None
    for _ in range(STARTS):
        if best is not None and deadline.passed:
            break
        order = [*range(len(problem))]
        random.shuffle(order)
        order = improved(problem, order, deadline)
        if best is None or problem.cost_of_order(order) < problem.cost_of_order(best):
            best = order
    assert best is not None
    return best

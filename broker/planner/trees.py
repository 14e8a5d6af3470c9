"""Trees of parts: ZStream's programme over the intervals of an order, and DP-B over all sets."""

from __future__ import annotations

from collections.abc import Sequence

from broker.planner.deadline import Deadline
from broker.planner.model import Problem, Shape


def over_intervals(problem: Problem, order: Sequence[int], deadline: Deadline) -> Shape:
    """The cheapest tree whose parts stand in an order: ZStream's programme. Raises OutOfTime."""
    number = len(order)
    masks = [[0] * (number + 1) for _ in range(number)]
    best: dict[tuple[int, int], tuple[float, Shape]] = {}
    for place, part in enumerate(order):
        best[place, place + 1] = problem.leaf(part), part
        mask = 0
        for end in range(place, number):
            mask |= 1 << order[end]
            masks[place][end + 1] = mask
    for length in range(2, number + 1):
        deadline.check()
        for start in range(number - length + 1):
            end = start + length
            cost, split = min(
                [
                    (
                        best[start, at][0]
                        + best[at, end][0]
                        + problem.node(masks[start][at], masks[at][end]),
                        -at,
                    )
                    for at in range(start + 1, end)
                ]
            )
            best[start, end] = cost, (best[start, -split][1], best[-split, end][1])
    return best[0, number][1]


def over_sets(problem: Problem, deadline: Deadline, bound: float) -> Shape | None:
    """DP-B: the cheapest of all trees; None if none costs less than `bound`, that of a tree that is
    known. Sets that alone cost as much are left out. Raises OutOfTime."""
    best: dict[int, tuple[float, Shape]] = {}
    for part in range(len(problem)):
        best[1 << part] = problem.leaf(part), part
    for mask in range(1, problem.whole + 1):
        if mask in best:
            continue
        if not mask & 63:
            deadline.check()
        if problem.size(mask) < bound:
            found = _cheapest(problem, mask, best, bound)
            if found is not None:
                best[mask] = found
    whole = best.get(problem.whole)
    return None if whole is None else whole[1]


def _cheapest(
    problem: Problem, mask: int, best: dict[int, tuple[float, Shape]], bound: float
) -> tuple[float, Shape] | None:
    """The cheapest tree of a set, with its cost."""
    cost, split = bound, 0
    rest = mask & mask - 1  # the right side has not the lowest part; the left side has it
    right = rest
    while right:
        one, other = best.get(mask ^ right), best.get(right)
        if one is not None and other is not None and one[0] + other[0] < cost:
            found = one[0] + other[0] + problem.node(mask ^ right, right)
            if found < cost:
                cost, split = found, right
        right = right - 1 & rest
    return (cost, (best[mask ^ split][1], best[split][1])) if split else None

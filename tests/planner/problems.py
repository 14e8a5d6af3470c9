"""Random problems, and an independent reckoning of what plans cost: by counting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from random import Random

from broker.planner import Attached, Problem, Shape, parts_of
from broker.planner.model import near


def random_problem(random: Random, number: int, latency: bool = False) -> Problem:
    """A problem with lists, lists in lists, equal values, absences and a group."""
    counts = tuple(10 ** random.uniform(-1, 3) for _ in range(number))
    pairs = {
        pair: 10 ** random.uniform(-2.5, 0)
        for pair in combinations(range(number), 2)
        if random.random() < 0.4
    }
    cut = random.randint(1, number)
    ordered: tuple[tuple[int, ...], ...] = (
        ((*(1 << part for part in range(cut)),),) if cut > 1 else ()
    )
    if cut < number and random.random() < 0.5:
        ordered += (((1 << cut) - 1, sum(1 << part for part in range(cut, number))),)
    equal = ((random.randint(1, (1 << number) - 1), random.uniform(1, 50)),)
    attached = tuple(
        Attached(random.randint(1, (1 << number) - 1), random.choice((0.01, 0.5, 4)))
        for _ in range(random.randint(0, 2))
    )
    last = random.randrange(number) if latency else None
    found = Problem(counts, pairs, ordered, equal, attached, last, 3.0 if latency else 0.0)
    if random.random() < 0.5:
        pivot = random.randrange(number)
        return replace(found, old=(1 << pivot) - 1, windows=random.choice((0, 0.5, 3)))
    return found


def counted(problem: Problem, parts: Sequence[int]) -> float:
    """How many partial matches there are; the share in order is counted among all orders in which
    what is old comes first."""
    mask = sum(1 << part for part in parts)
    found = 1.0
    for part in parts:
        found *= problem.counts[part]
    for one, other in combinations(sorted(parts), 2):
        found *= problem.pairs.get((one, other), 1.0)
    for members, values in problem.equal:
        together = [part for part in parts if members >> part & 1]
        for _ in together[1:]:
            found /= values
    old = sum(problem.old >> part & 1 for part in parts)
    found *= near(old, len(parts) - old, problem.windows)
    for each in problem.attached:
        if not each.needs & ~mask:
            found *= each.factor
    orders = [
        order
        for order in permutations(parts)
        if [*order] == sorted(order, key=lambda part: ~problem.old >> part & 1)
    ]
    return found * sum(_in_order(problem, order) for order in orders) / len(orders)


def _in_order(problem: Problem, order: Sequence[int]) -> bool:
    place = {part: number for number, part in enumerate(order)}
    for items in problem.ordered:
        present = [[p for p in place if item >> p & 1] for item in items]
        for one, other in combinations([each for each in present if each], 2):
            if max(place[p] for p in one) > min(place[p] for p in other):
                return False
    return True


def order_cost(problem: Problem, order: Sequence[int]) -> float:
    """Kolchinsky and Schuster: the beginnings of an order, and what stands behind the
    last part in time."""
    found = sum(counted(problem, order[:length]) for length in range(1, len(order) + 1))
    if problem.last is not None:
        behind = order[order.index(problem.last) + 1 :]
        found += problem.latency * sum(counted(problem, [part]) for part in behind)
    return found


def tree_cost(problem: Problem, shape: Shape) -> float:
    """The same for trees: all nodes, and what stands beside those above the last part in time."""
    found = counted(problem, parts_of(shape))
    if isinstance(shape, int):
        return found
    for own, beside in (shape, shape[::-1]):
        if problem.last is not None and problem.last in parts_of(own):
            found += problem.latency * counted(problem, parts_of(beside))
    return found + tree_cost(problem, shape[0]) + tree_cost(problem, shape[1])


def trees_over(order: Sequence[int]) -> Iterator[Shape]:
    """All trees whose parts stand in an order."""
    if len(order) == 1:
        yield order[0]
    for at in range(1, len(order)):
        for left in trees_over(order[:at]):
            for right in trees_over(order[at:]):
                yield left, right

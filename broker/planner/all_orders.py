"""DP-LD: the cheapest of all orders, by the sets of parts with which they begin (Selinger, 1979).

There are 2**n sets. From eight parts on they are computed as columns: the upper bits of a set are
its row, the lower ones its column, and all rows with equally many bits are done at once.
"""

from __future__ import annotations

from math import factorial

import numpy as np
import numpy.typing as npt

from broker.planner.deadline import Deadline
from broker.planner.model import Problem, near

Floats = npt.NDArray[np.float64]

_COLUMNS_FROM = 8
_LOWER = 3
"""One of so many bits is among the lower ones."""


def cheapest_order(problem: Problem, deadline: Deadline) -> list[int]:
    """The order of the least `cost_of_order`; of many parts for a search that of the fewest partial
    matches. Raises OutOfTime."""
    if len(problem) < _COLUMNS_FROM or problem.model == "operators":
        return plain_order(problem, deadline)
    # What is read goes with what has come of the step before: the columns count that alone.
    return order_by_columns(problem, deadline)


def order_by_columns(problem: Problem, deadline: Deadline) -> list[int]:
    """The same, all sets of parts of a size at once, which pays where there are many."""
    sizes = sizes_of(problem)
    costs = _costs(problem, sizes, deadline)
    order: list[int] = []
    mask = problem.whole
    while mask:
        parts = [part for part in range(len(problem)) if mask >> part & 1]
        best = min(
            parts, key=lambda part: costs[mask ^ 1 << part] + _late(problem, sizes, mask, part)
        )
        order.append(best)
        mask ^= 1 << best
    return order[::-1]


def _late(problem: Problem, sizes: Floats, mask: int, part: int) -> float:
    """What the latency costs where a part is the last one that is added to make a mask."""
    if not problem.latency or problem.last is None or part == problem.last:
        return 0.0
    return problem.latency * float(sizes[1 << part]) if mask >> problem.last & 1 else 0.0


def plain_order(problem: Problem, deadline: Deadline) -> list[int]:
    costs = [0.0] * (problem.whole + 1)
    lasts = [0] * (problem.whole + 1)
    parts = range(len(problem))
    for mask in range(1, problem.whole + 1):
        if not mask & 255:
            deadline.check()
        costs[mask], lasts[mask] = min(
            [
                (costs[mask ^ 1 << part] + problem.step(mask ^ 1 << part, part), part)
                for part in parts
                if mask >> part & 1
            ]
        )
    order: list[int] = []
    mask = problem.whole
    while mask:
        order.append(lasts[mask])
        mask ^= 1 << lasts[mask]
    return order[::-1]


def sizes_of(problem: Problem) -> Floats:
    """`Problem.size` of each mask."""
    number = len(problem)
    found = np.ones(1 << number)
    for part, count in enumerate(problem.counts):
        bit = 1 << part
        own = np.full(1, count)
        for other in range(part):
            selectivity = problem.pairs.get((other, part), 1.0)
            own = np.concatenate([own, own * selectivity if selectivity != 1.0 else own])
        np.multiply(found[:bit], own, out=found[bit : 2 * bit])
    masks = np.arange(1 << number, dtype=np.uint32)
    for members, values in problem.equal:
        powers = float(values) ** -np.maximum(np.arange(-1.0, number), 0.0)
        found *= powers[np.bitwise_count(masks & np.uint32(members))]
    sides = [np.uint32(problem.old), np.uint32(problem.whole & ~problem.old)]
    if problem.windows:
        table = [
            [near(old, new, problem.windows) for new in range(number + 1)]
            for old in range(number + 1)
        ]
        found *= np.array(table)[tuple(np.bitwise_count(masks & side) for side in sides)]
    factorials = np.array([float(factorial(size)) for size in range(number + 1)])
    for items in problem.ordered:
        for side in sides if problem.old else sides[1:]:
            for item in items:
                if (item & side).bit_count() > 1:
                    found *= factorials[np.bitwise_count(masks & np.uint32(item) & side)]
            found /= factorials[np.bitwise_count(masks & np.uint32(sum(items)) & side)]
    for each in problem.attached:
        needs = np.uint32(each.needs)
        found[masks & needs == needs] *= each.factor
    return found


def _costs(problem: Problem, sizes: Floats, deadline: Deadline) -> Floats:
    """By mask the cost of its cheapest order."""
    low = len(problem) // _LOWER
    high = len(problem) - low
    table = np.empty((1 << high, 1 << low))
    rows_of_sizes = sizes.reshape(table.shape)
    every = np.arange(1 << high)
    bits = np.bitwise_count(every)
    for number in range(high + 1):
        deadline.check()
        rows = every[bits == number]
        best = np.full((len(rows), 1 << low), np.inf)
        left = rows.copy()
        for _ in range(number):
            bit = left & -left
            left ^= bit
            before = table[rows ^ bit]
            if problem.latency:
                before += _late_rows(problem, sizes, rows ^ bit, bit << low, low)
            np.minimum(best, before, out=best)
        if number == 0:
            best[0, 0] = 0.0
        _fill(problem, sizes, rows, best, rows_of_sizes[rows], table, low)
    return table.reshape(-1)


def _fill(
    problem: Problem,
    sizes: Floats,
    rows: npt.NDArray[np.int64],
    best: Floats,
    own: Floats,
    table: Floats,
    low: int,
) -> None:
    """The costs of some rows, of which `best` are those by adding one of the upper parts."""
    columns, own = np.ascontiguousarray(best.T), np.ascontiguousarray(own.T)
    if rows[0] == 0:
        own[0, 0] = 0.0  # nothing costs nothing
    for mask in range(1 << low):
        for part in range(low):
            if mask >> part & 1:
                before = columns[mask ^ 1 << part]
                if problem.latency:
                    whole = (rows << low) | (mask ^ 1 << part)
                    before = before + _lateness(problem, whole, sizes[1 << part])
                np.minimum(columns[mask], before, out=columns[mask])
        columns[mask] += own[mask]
    table[rows] = columns.T


def _late_rows(
    problem: Problem,
    sizes: Floats,
    before: npt.NDArray[np.int64],
    bit: npt.NDArray[np.int64],
    low: int,
) -> Floats:
    """What the latency costs where a bit is added to each set of some rows."""
    whole = (before[:, None] << low) | np.arange(1 << low)[None, :]
    return _lateness(problem, whole, sizes[bit][:, None])


def _lateness(problem: Problem, masks: npt.NDArray[np.int64], count: object) -> Floats:
    if problem.last is None:
        return np.zeros(masks.shape)
    late: Floats = (masks >> problem.last & 1) * (problem.latency * np.asarray(count))
    return late

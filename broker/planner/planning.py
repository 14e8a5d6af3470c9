"""A problem to its plan, by one of the methods of the papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

from broker.planner.deadline import Deadline, OutOfTime
from broker.planner.model import Problem, Shape, of_order
from broker.planner.orders import (
    by_frequency,
    greedy,
    improved,
    improved_from_random,
    trivial,
)
from broker.planner.trees import over_intervals, over_sets

Method = Literal[
    "DP-LD+ZSTREAM",
    "TRIVIAL",
    "EFREQ",
    "GREEDY",
    "II-RANDOM",
    "II-GREEDY",
    "DP-LD",
    "DP-B",
    "ZSTREAM",
    "ZSTREAM-ORD",
]
METHODS: tuple[Method, ...] = get_args(Method)
DEFAULT: Method = "DP-LD+ZSTREAM"

SECONDS = 0.05
"""How long planning may take."""

MOST = 22
"""Parts beyond which the sets of them are too many to hold: 64 MB for these."""

_FOR_ORDERS = 0.6
"""The share of it in which all orders are looked at; what is left is for improving GREEDY's."""


class Planning(NamedTuple):
    """How plans are made: by a method, for so many seconds at most; None: to its end."""

    method: Method = DEFAULT
    seconds: float | None = SECONDS


PLANNING = Planning()


def plan(problem: Problem, method: Method = DEFAULT, seconds: float | None = SECONDS) -> Shape:
    """A tree of the parts of a problem. After `seconds` it is the best one so far; with None the
    method goes to its end, but where the sets of its parts would not fit into memory."""
    if len(problem) == 1:
        return 0
    return _METHODS[method](problem, Deadline(seconds))


def _best_order(problem: Problem, deadline: Deadline) -> list[int]:
    """DP-LD, or where it does not come to its end what GREEDY is improved to."""
    # NumPy is loaded where something is planned only: `broker check` does without.
    from broker.planner.all_orders import cheapest_order

    if len(problem) <= MOST:
        try:
            return cheapest_order(problem, deadline.sooner(_FOR_ORDERS))
        except OutOfTime:
            pass
    return improved(problem, greedy(problem), deadline)


def _intervals(problem: Problem, order: list[int], deadline: Deadline) -> Shape:
    """The interval programme over an order; the order if it does not come to its end."""
    try:
        return over_intervals(problem, order, deadline)
    except OutOfTime:
        return of_order(order)


def _default(problem: Problem, deadline: Deadline) -> Shape:
    return _intervals(problem, _best_order(problem, deadline), deadline)


def _all_trees(problem: Problem, deadline: Deadline) -> Shape:
    known = _default(problem, deadline)
    if len(problem) > MOST:
        return known
    try:
        return over_sets(problem, deadline, problem.cost(known)) or known
    except OutOfTime:
        return known


_METHODS: Mapping[str, Callable[[Problem, Deadline], Shape]] = {
    "DP-LD+ZSTREAM": _default,
    "TRIVIAL": lambda problem, _: of_order(trivial(problem)),
    "EFREQ": lambda problem, _: of_order(by_frequency(problem)),
    "GREEDY": lambda problem, _: of_order(greedy(problem)),
    "II-RANDOM": lambda problem, deadline: of_order(improved_from_random(problem, deadline)),
    "II-GREEDY": lambda problem, deadline: of_order(improved(problem, greedy(problem), deadline)),
    "DP-LD": lambda problem, deadline: of_order(_best_order(problem, deadline)),
    "DP-B": _all_trees,
    "ZSTREAM": lambda problem, deadline: _intervals(problem, trivial(problem), deadline),
    "ZSTREAM-ORD": lambda problem, deadline: _intervals(problem, greedy(problem), deadline),
}

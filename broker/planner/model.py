"""What is planned, and what a plan costs.

A *part* is what a pattern combines: the documents of a block, or the matches of what is judged by
itself, each with the number that is expected within the window. A set of parts is a bit mask. The
costs are those of Kolchinsky and Schuster (Join Query Optimization Techniques for Complex Event
Processing Applications, VLDB 2018) and of ZStream (Mei and Madden, SIGMOD 2009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import comb, factorial
from typing import Literal

Shape = int | tuple["Shape", "Shape"]
"""A tree over parts: a part, or two trees that are combined. An order is one in which every right
side is a part."""

Model = Literal["partial matches", "operators", "search"]
"""Kolchinsky and Schuster count the partial matches that are held, ZStream what operators do; the
search of `broker.pattern.extending` reads what it finds by time and by a value, and keeps nothing.
"""

_PREDICATE = 0.25
"""What ZStream adds to reading a pair for each predicate that is asked of it."""

_ASKED, _MADE = 0.15, 0.35
"""What the search takes for asking something of a pair, and for one that passes, beside reading
one: fitted to its times (`bench/notes/planner.md`)."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What is asked of a partial match as soon as it has all parts of the mask `needs`: NOT, which
    leaves the share `factor` of them, or a group, which makes `factor` of each. As nothing in a
    plan waits longer than it has to, a NOT stands as deep as in ZStream's NSEQ."""

    needs: int
    factor: float


@dataclass(frozen=True)
class Problem:
    """`counts` are the expected numbers of each part within the window: its rate times the window.

    `pairs` are the selectivities of the predicates between two parts, the smaller one first.
    `ordered` are the lists of the pattern, each as the masks of its items, of which each comes
    before the next; lists in lists are further entries. `equal` are the masks of parts that agree
    in a value, each with how many values there are; of the pairs `found` one part is found by a
    value of the other. `last` is the part that is last in time, if one is: from it on the latency
    counts, which has the weight `latency` beside the throughput. What there is of the parts `old`
    (a mask) came within the last window, and what there is of the others comes after it, over so
    many `windows`.
    """

    counts: tuple[float, ...]
    pairs: Mapping[tuple[int, int], float] = field(default_factory=dict)
    ordered: tuple[tuple[int, ...], ...] = ()
    equal: tuple[tuple[int, float], ...] = ()
    attached: tuple[Attached, ...] = ()
    last: int | None = None
    latency: float = 0.0
    model: Model = "partial matches"
    found: frozenset[tuple[int, int]] = frozenset()
    old: int = 0
    windows: float = 0.0

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def whole(self) -> int:
        """The mask of all parts."""
        return (1 << len(self.counts)) - 1

    @cached_property
    def _sizes(self) -> dict[int, float]:
        return {0: 1.0}

    @cached_property
    def _selectivities(self) -> list[list[tuple[int, float]]]:
        """By part its pairs with smaller ones: their bits and selectivities."""
        found: list[list[tuple[int, float]]] = [[] for _ in self.counts]
        for (one, other), selectivity in self.pairs.items():
            found[other].append((1 << one, selectivity))
        return found

    def size(self, mask: int) -> float:
        """How many partial matches of these parts are expected within the window: PM(k) of the
        paper. In order are 1/k! of the combinations of a list of k, and an equality of k parts
        leaves one in V^(k-1)."""
        known = self._sizes.get(mask)
        if known is None:
            known = self.combinations(mask) * self.in_order(mask) * self._factor(mask)
            self._sizes[mask] = known
        return known

    def combinations(self, mask: int) -> float:
        """How many combinations of these parts pass the predicates, in any order of time."""
        found = 1.0
        for part, count in enumerate(self.counts):
            if mask >> part & 1:
                found *= count
                for bit, selectivity in self._selectivities[part]:
                    if mask & bit:
                        found *= selectivity
        for members, values in self.equal:
            together = (mask & members).bit_count()
            if together > 1:
                found /= values ** (together - 1)
        return found * self.near(mask)

    def near(self, mask: int) -> float:
        """Which share of the combinations of these parts lies within a window."""
        return near((mask & self.old).bit_count(), (mask & ~self.old).bit_count(), self.windows)

    def in_order(self, mask: int) -> float:
        """Which share of the combinations of these parts is in the order of the lists."""
        return _in_order(self.ordered, self.old, mask)

    def _factor(self, mask: int) -> float:
        found = 1.0
        for each in self.attached:
            if each.needs & mask == each.needs:
                found *= each.factor
        return found

    # -- costs ---------------------------------------------------------------------------------

    def leaf(self, part: int) -> float:
        """What it costs to have a part."""
        return self.size(1 << part)

    def node(self, left: int, right: int) -> float:
        """What it costs to combine what two masks stand for."""
        found = self.output(left, right)
        if self.latency and self.last is not None:
            bit = 1 << self.last
            if left & bit:
                found += self.latency * self.size(right)
            elif right & bit:
                found += self.latency * self.size(left)
        return found

    def output(self, left: int, right: int) -> float:
        """The throughput's part of it: the partial matches that come of it; or the pairs that are
        read, with the predicates that are asked of them, and those that come of it."""
        both = left | right
        made = self.size(both)
        if self.model == "partial matches":
            return made
        if self.model == "search":
            return self._searched(left, right, made)
        in_order = self.in_order(both) / (self.in_order(left) * self.in_order(right))
        read = self.size(left) * self.size(right) * in_order
        return read * (1 + _PREDICATE * self._predicates(left, right)) + made

    def _searched(self, left: int, right: int, made: float) -> float:
        """What the search takes to combine two masks: what it reads is what is made of it by the
        predicates between them, but for one equality, by which it finds."""
        passed, found, asked = 1.0, 1.0, False
        rest = right
        while rest:
            bit = rest & -rest
            rest ^= bit
            for other, selectivity, equality in self._around[bit]:
                if other & left:
                    asked = True
                    passed *= selectivity
                    if equality and selectivity < found:
                        found = selectivity
        for each in self.attached:
            needs = each.needs
            if needs & (left | right) == needs and needs & left != needs and needs & right != needs:
                asked = True
                passed *= each.factor
        return made * (found / passed * (1 + _ASKED if asked else 1) + _MADE)

    @cached_property
    def _around(self) -> dict[int, list[tuple[int, float, bool]]]:
        """By part those with which it has predicates: the selectivity, and whether one is found by
        the other."""
        around: dict[int, list[tuple[int, float, bool]]] = {1 << p: [] for p in range(len(self))}
        for pair, selectivity in self.pairs.items():
            one, other = (1 << part for part in pair)
            equality = pair in self.found
            around[one].append((other, selectivity, equality))
            around[other].append((one, selectivity, equality))
        return around

    def _predicates(self, left: int, right: int) -> int:
        across = sum(
            (left >> one & right >> other | left >> other & right >> one) & 1
            for one, other in self.pairs
        )
        return across + sum(1 for members, _ in self.equal if members & left and members & right)

    def cost(self, shape: Shape) -> float:
        """What a plan costs: the sum over its nodes."""
        return self._cost(shape)[1]

    def _cost(self, shape: Shape) -> tuple[int, float]:
        if isinstance(shape, int):
            return 1 << shape, self.leaf(shape)
        left, right = self._cost(shape[0]), self._cost(shape[1])
        return left[0] | right[0], left[1] + right[1] + self.node(left[0], right[0])

    def cost_of_order(self, order: Sequence[int]) -> float:
        """What an order costs: the sum of the partial matches of its beginnings, as in the paper,
        where the single parts but the first are no nodes; and for the latency the numbers of the
        parts that stand behind the last one in time."""
        mask, found = 0, 0.0
        for part in order:
            found += self.step(mask, part)
            mask |= 1 << part
        return found

    def step(self, mask: int, part: int) -> float:
        """What it costs to add a part to those of a mask."""
        bit = 1 << part
        if not mask:
            return self.size(bit)
        found = self.output(mask, bit)
        if self.latency and self.last is not None and mask >> self.last & 1:
            found += self.latency * self.size(bit)
        return found


@lru_cache(1 << 14)
def _in_order(lists: tuple[tuple[int, ...], ...], old: int, mask: int) -> float:
    """In each list what is old comes first, and either side of it is in any order of its own."""
    found = 1.0
    for items in lists:
        for side in (mask & old, mask & ~old):
            sizes = [(side & item).bit_count() for item in items]
            for size in sizes:
                found *= factorial(size)
            found /= factorial(sum(sizes))
    return found


@lru_cache(1 << 10)
def near(old: int, new: int, windows: float) -> float:
    """Which share of the combinations lies within a window, of so many instances that came at any
    time of the last one and so many that come at any time of the next `windows`."""
    if not new or not windows:
        return 1.0
    if not old:
        return 1.0 if windows <= 1 else (new - (new - 1) / windows) / windows ** (new - 1)
    share = 1 / comb(old + new, old)
    return share / windows**new if windows >= 1 else 1 - windows * (1 - share)


def of_order(order: Sequence[int]) -> Shape:
    """An order as a tree."""
    first, *others = order
    found: Shape = first
    for part in others:
        found = (found, part)
    return found


def parts_of(shape: Shape) -> list[int]:
    """The parts of a tree from left to right."""
    if isinstance(shape, int):
        return [shape]
    return [*parts_of(shape[0]), *parts_of(shape[1])]


def is_order(shape: Shape) -> bool:
    """Whether each right side is a part."""
    return isinstance(shape, int) or (isinstance(shape[1], int) and is_order(shape[0]))

"""In which order the places of a variant are filled: what is known of its items as a problem of the
planner, and the planner's tree as steps.

A plan holds for one call: how many instances there are is known exactly then, only the
selectivities of conjuncts are remembered. Nothing that is made on the way outlives the call, so no
match is lost or doubled when the next one has another plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.pattern.absences import sides
from broker.pattern.extending import Arrivals
from broker.pattern.plan import (
    Conjunct,
    Leaf,
    Ordered,
    Single,
    Together,
    Tree,
    Variant,
    Window,
)
from broker.pattern.pool import PARTITION, Pool
from broker.pattern.statistics import Seen
from broker.pattern.steps import Lookup, Step
from broker.pattern.values import path_text
from broker.planner import Attached, Problem, Shape, parts_of
from xscl import ast


class Tie(NamedTuple):
    """An equality between two places of a variant: the paths of each, and what was seen of it."""

    one: int
    other: int
    left: ast.Path
    right: ast.Path
    seen: Seen


@dataclass(slots=True)
class Ordering:
    """What is asked between the places of a variant, found once. `conjuncts` are those that can be
    asked while they are filled."""

    variant: Variant
    conjuncts: list[Seen]
    ties: list[Tie]
    lists: tuple[tuple[int, ...], ...]
    masks: list[tuple[Seen, int]]
    """Conjuncts that are no ties, each with the mask of the places that it names."""
    partitioned: bool


def ordering_of(variant: Variant, seen: Mapping[int, Seen], partitioned: bool) -> Ordering:
    """`seen` are the unit's conjuncts by identity."""
    places = {name: p for p, item in enumerate(variant.singles) for name in item.variables}
    asked = [each for each in seen.values() if _askable(each.conjunct, places)]
    ties, masks = [], []
    for each in asked:
        found = _tie(each, variant, places)
        if found is not None:
            ties.append(found)
        else:
            masks.append((each, _mask(places[name] for name in each.conjunct.names)))
    return Ordering(variant, asked, ties, (*_lists(variant),), masks, partitioned)


def _askable(each: Conjunct, names: Mapping[str, int]) -> bool:
    return not each.lasts and each.names <= names.keys()


def _tie(each: Seen, variant: Variant, places: Mapping[str, int]) -> Tie | None:
    """The equality of paths of two blocks that a conjunct is."""
    for left, right in sides(each.conjunct):
        one, other = places.get(left.variable or ""), places.get(right.variable or "")
        if one is None or other is None or not one < other:
            continue
        if any(isinstance(variant.singles[place], Leaf) for place in (one, other)):
            return Tie(one, other, left, right, each)
    return None


def _mask(places: Iterable[int]) -> int:
    found = 0
    for place in places:
        found |= 1 << place
    return found


def _lists(variant: Variant) -> list[tuple[int, ...]]:
    """The lists of a variant, as masks of the places in their items."""
    place = {id(item): number for number, item in enumerate(variant.singles)}
    found: list[tuple[int, ...]] = []

    def mask(tree: Tree) -> int:
        if not isinstance(tree, Ordered | Together):
            return 1 << place[id(tree)] if id(tree) in place else 0
        own = [each for each in map(mask, tree.items) if each]
        if isinstance(tree, Ordered) and len(own) > 1:
            found.append((*own,))
        return _union(own)

    mask(variant.tree)
    return found


def _union(masks: Sequence[int]) -> int:
    found = 0
    for each in masks:
        found |= each
    return found


# -- a problem for the planner -------------------------------------------------------------------


def counts_of(variant: Variant, pivot: int, arrivals: Arrivals, extent: Window) -> list[float]:
    """How many instances there are for each place where `pivot` is the first that has a new one."""
    counts = []
    for place, item in enumerate(variant.singles):
        # What came before cannot succeed what is new, unless that is late.
        new = place == pivot or (pivot, place) in variant.before
        old = 0.0 if new else _near(arrivals.old[item], extent)
        counts.append(old + len(arrivals.fresh[item]) if place >= pivot else old)
    return counts


def problem_of(
    ordering: Ordering,
    counts: Sequence[float],
    distinct: Callable[[Single, str], int],
    pivot: int = 0,
    windows: float = 0.0,
) -> Problem:
    """What is to be planned where there are so many instances for each place, of paths so many
    `distinct` values, and what is new, from `pivot` on, comes over so many times the window of a
    match."""
    singles = ordering.variant.singles
    pairs: dict[tuple[int, int], float] = {}
    attached: list[Attached] = []
    for tie in ordering.ties:
        values = max(_distinct(distinct, singles[p], path) for p, path in _ends(tie))
        pair = (tie.one, tie.other)
        pairs[pair] = pairs.get(pair, 1.0) / values
    for seen, mask in ordering.masks:
        if mask.bit_count() == 2:
            low, high = (mask & -mask).bit_length() - 1, mask.bit_length() - 1
            pairs[low, high] = pairs.get((low, high), 1.0) * seen.selectivity
        elif mask:
            attached.append(Attached(mask, seen.selectivity))
    equal: tuple[tuple[int, float], ...] = ()
    if ordering.partitioned:
        values = max([distinct(item, PARTITION) for item in singles])
        equal = (((1 << len(singles)) - 1, float(values)),)
    return Problem(
        *((*counts,), pairs, ordering.lists, equal, (*attached,)),
        model="search",
        found=frozenset([(tie.one, tie.other) for tie in ordering.ties]),
        old=(1 << pivot) - 1,
        windows=windows,
    )


def _ends(tie: Tie) -> tuple[tuple[int, ast.Path], tuple[int, ast.Path]]:
    return (tie.one, tie.left), (tie.other, tie.right)


def _distinct(distinct: Callable[[Single, str], int], item: Single, path: ast.Path) -> int:
    return distinct(item, path_text(path)) if isinstance(item, Leaf) else 1


def _near(pool: Pool, extent: Window) -> float:
    """How many instances of a pool may be in a match with what is new: those of its last window, as
    a pool also has what is kept for documents that come late."""
    span = pool.span
    if extent is None or span <= extent:
        return float(len(pool))
    return len(pool) * extent / span


# -- the planner's tree as steps -----------------------------------------------------------------


def steps_of(ordering: Ordering, problem: Problem, shape: Shape) -> list[Step]:
    """The steps that fill the places as a tree says, of which that is the problem."""
    return _Steps(ordering, problem).chain(shape)


class _Steps:
    def __init__(self, ordering: Ordering, problem: Problem) -> None:
        self._ordering = ordering
        self._problem = problem
        self._asked: set[int] = set()

    def chain(self, shape: Shape) -> list[Step]:
        """The steps down the left side of a tree."""
        if isinstance(shape, int):
            return [self._step((), (shape,), [])]
        steps = self.chain(shape[0])
        right = shape[1]
        inside = [] if isinstance(right, int) else self.chain(right)
        steps.append(self._step(parts_of(shape[0]), (*parts_of(right),), inside))
        return steps

    def _step(self, done: Sequence[int], places: tuple[int, ...], inside: list[Step]) -> Step:
        pairs = self._ordering.variant.before
        after = [p for p in done if all((p, place) in pairs for place in places)]
        before = [p for p in done if all((place, p) in pairs for place in places)]
        order = [(p, q) for p in done for q in places if (p, q) in pairs and p not in after]
        order += [(q, p) for p in done for q in places if (q, p) in pairs and p not in before]
        return Step(
            *(places, inside, after, before, order),
            self._lookups(done, places),
            self._checks({*done, *places}),
            self._problem.size(_mask([*done, *places])),
        )

    def _lookups(self, done: Sequence[int], places: Sequence[int]) -> list[Lookup]:
        found = []
        for tie in self._ordering.ties:
            for (one, path), (other, own) in (_ends(tie), _ends(tie)[::-1]):
                leaf = isinstance(self._ordering.variant.singles[other], Leaf)
                if one in done and other in places and leaf:
                    bound, variable = path.variable or "", own.variable or ""
                    found.append(Lookup(bound, path_text(path), variable, path_text(own)))
        return found

    def _checks(self, bound: set[int]) -> list[Seen]:
        """The conjuncts that name only what is bound, and are not asked before."""
        singles = self._ordering.variant.singles
        names = frozenset().union(*[singles[place].variables for place in bound])
        found = [
            each
            for each in self._ordering.conjuncts
            if id(each) not in self._asked and each.conjunct.names <= names
        ]
        self._asked |= {id(each) for each in found}
        return found

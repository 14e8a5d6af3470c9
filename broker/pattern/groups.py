"""Groups: a choice of single items in, that choice with its groups filled out.

Longest groups take each next element that can be taken, others are skipped; with SKIP TILL ANY
MATCH they are filled with all combinations of elements. Groups are filled from left to right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from broker.pattern.absences import sides
from broker.pattern.instances import Instance, Row, Tuples, common
from broker.pattern.plan import Group, Item, Ordered, Unit, Variant
from broker.pattern.pool import PARTITION, Pool, Wanted
from broker.pattern.setting import Setting
from broker.pattern.timing import Span, Timing, hull_of
from broker.pattern.values import Scope, path_text
from xscl import ast


class Filling(NamedTuple):
    """Groups with their elements, the common values of PARTITION BY, and the keys of all
    documents."""

    filled: Mapping[Group, Sequence[Instance]]
    tuples: Tuples
    keys: frozenset[int]


_order = attrgetter("order")
Chosen = Mapping[Item, Instance]
Pools = Mapping[Group, Pool]


def longest(
    unit: Unit,
    setting: Setting,
    variant: Variant,
    chosen: Chosen,
    pools: Pools,
    start: Filling,
    at: int = 0,
    decided: Collection[int] = (),
) -> Iterator[Filling]:
    """All groups of a variant, filled as far as possible. Of a group that is the only one, runs are
    left out whose first elements are `decided`, by identity."""
    if at == len(variant.groups):
        yield start
        return
    group = variant.groups[at]
    filler = _Filler(unit, setting, variant, chosen, group, pools[group], start)
    for each in filler.longest(decided):
        yield from longest(unit, setting, variant, chosen, pools, each, at + 1)


def combinations(
    unit: Unit,
    setting: Setting,
    variant: Variant,
    chosen: Chosen,
    pools: Pools,
    start: Filling,
    at: int = 0,
) -> Iterator[Filling]:
    """All groups of a variant, filled in every way."""
    if at == len(variant.groups):
        yield start
        return
    group = variant.groups[at]
    filler = _Filler(unit, setting, variant, chosen, group, pools[group], start)
    for each in filler.combinations():
        yield from combinations(unit, setting, variant, chosen, pools, each, at + 1)


def from_first(
    unit: Unit,
    setting: Setting,
    variant: Variant,
    group: Group,
    pool: Pool,
    first: Instance,
    window: tuple[int, int] | None,
) -> Filling | None:
    """A group that is the whole pattern, from its first element on; None if that may not be first,
    or too little follows. All elements start after one time of `window` and end before the other;
    a first element that lasts longer begins none."""
    nothing = Filling({}, None, frozenset())
    filler = _Filler(unit, setting, variant, {}, group, pool, nothing, window)
    keys = [row.key for row in first.rows]
    places = (n for n, same in enumerate(filler.candidates) if same[0].rows[0].key == keys[0])
    own = (n for n in places if [row.key for row in filler.candidates[n][0].rows] == keys)
    place = next(own, None)
    run = None if place is None else filler.run(place)
    return None if run is None or len(run.elements) < group.least else filler.filling(run)


class _Run(NamedTuple):
    elements: list[Instance]
    tuples: Tuples
    keys: frozenset[int]
    hull: Span | None = None


def _hull(one: Span | None, instance: Instance) -> Span:
    own = Span(instance.start, instance.end, instance.first, instance.last)
    return own if one is None else hull_of(one, own)


def ties(group: Group) -> Iterator[tuple[ast.Path, ast.Path]]:
    """The equalities by which elements of a group are found: a path of the element, and one of
    something else."""
    for each in group.conjuncts:
        for path, other in sides(each):
            if path.variable in group.variables and other.variable not in group.variables:
                yield path, other


class _Filler:
    """Fills one group of a choice."""

    def __init__(
        self,
        unit: Unit,
        setting: Setting,
        variant: Variant,
        chosen: Chosen,
        group: Group,
        pool: Pool,
        start: Filling,
        window: tuple[int, int] | None = None,
    ) -> None:
        self.group = group
        self._window = window
        self._unit = unit
        self._setting = setting
        self._variant = variant
        self._chosen = chosen
        self._start = start
        self._single: dict[str, Row] = {}
        self._several: dict[str, Sequence[Row | None]] = {}
        self._computed: dict[str, Any] = {}
        for each in chosen.values():
            self._single.update(each.single)
            self._several.update(each.several)
            self._computed.update(each.computed)
        for other, elements in start.filled.items():
            self._several.update({name: _of(elements, name) for name in other.variables})
        self._earlier = self._before()
        self.candidates = self._candidates(pool)

    def _before(self) -> list[Instance]:
        """What stands before the group in the pattern."""
        order = self._unit.order
        found: list[Instance] = []
        for item in order[: order.index(self.group)]:
            if item in self._chosen:
                found.append(self._chosen[item])
            elif isinstance(item, Group):
                found += self._start.filled.get(item, ())
        return found

    def _candidates(self, pool: Pool) -> list[list[Instance]]:
        """The matches of an element, in order; those of the same documents are together."""
        after, before = self._window or (None, None)
        extent = self._unit.extent
        if extent is not None and self._chosen:
            after = max([each.last for each in self._chosen.values()]) - extent - 1
            before = min([each.first for each in self._chosen.values()]) + extent + 1
        after, before = self._between(after, before)
        found = [
            each
            for each in pool.find(self._wanted(after, before))
            if self._start.keys.isdisjoint(each.keys)
        ]
        return [*_arranged(found)]

    def _between(self, after: int | None, before: int | None) -> tuple[int | None, int | None]:
        """The bounds, and those of what stands beside the group in its list."""
        tree = self._variant.tree
        if not isinstance(tree, Ordered) or self.group not in tree.items:
            return after, before
        place = {id(item): number for number, item in enumerate(tree.items)}
        own = place[id(self.group)]
        ends = [] if after is None else [after]
        starts = [] if before is None else [before]
        for item, instance in self._chosen.items():
            if place.get(id(item), own) < own:
                ends.append(instance.end)
            elif place.get(id(item), own) > own:
                starts.append(instance.start)
        return max(ends, default=None), min(starts, default=None)

    def _wanted(self, after: int | None, before: int | None) -> Wanted:
        for path, other in ties(self.group):
            row = self._single.get(other.variable or "")
            if row is not None:
                return Wanted(after, before, path_text(path), row.values[path_text(other)])
        if self._start.tuples is not None:
            return Wanted(after, before, PARTITION, [*self._start.tuples])
        return Wanted(after, before)

    # -- taking --------------------------------------------------------------------------------

    def _begin(self) -> _Run:
        return _Run([], self._start.tuples, self._start.keys)

    def _taken(self, run: _Run, candidate: Sequence[Instance]) -> _Run | None:
        """The run with the first of the candidate's matches that can be taken behind it."""
        elements = run.elements
        for instance in candidate:
            if elements and not self._behind(elements[-1], instance):
                continue
            if not run.keys.isdisjoint(instance.keys):
                continue
            both = common(run.tuples, instance.tuples)
            if both is not None and not both:
                continue
            hull = _hull(run.hull, instance)
            if self._fits(elements, instance, hull) and self._passes(elements, instance):
                return _Run([*elements, instance], both, run.keys | instance.keys, hull)
        return None

    def _behind(self, last: Instance, instance: Instance) -> bool:
        """Composite elements are each before the next; documents are in order."""
        if self.group.simple:
            return last.order < instance.order
        return last.end < instance.start

    def _fits(self, elements: Sequence[Instance], instance: Instance, hull: Span) -> bool:
        filled = {**self._start.filled, self.group: [*elements, instance]}
        timing = Timing(
            self._variant,
            self._unit.within,
            self._chosen,
            filled,
            filling=self.group,
            free=self._setting.free,
            hull=hull,
        )
        return timing.span() is not None

    def _passes(self, elements: Sequence[Instance], instance: Instance) -> bool:
        group = self.group
        if not group.conjuncts and (elements or not group.first):
            return True
        scope = self._scope(elements, instance)
        if not all(each.holds(scope) for each in group.conjuncts):
            return False
        if elements or not group.first:
            return True
        first = self._scope([instance], instance)
        first.current = None
        return all(each.holds(first) for each in group.first)

    def _scope(self, elements: Sequence[Instance], instance: Instance) -> Scope:
        several = {**self._several}
        for name in self.group.variables:
            several[name] = _of(elements, name)
        every = [*self._earlier, *elements, instance]
        length = max([e.end for e in every]) - min([e.start for e in every])
        return Scope(self._single, several, self._computed, instance.single, length)

    # -- longest -------------------------------------------------------------------------------

    def filling(self, run: _Run) -> Filling:
        return Filling({**self._start.filled, self.group: run.elements}, run.tuples, run.keys)

    def run(self, first: int) -> _Run | None:
        """The run that begins with a candidate, None if it may not be the first."""
        run = self._begin()
        for candidate in self.candidates[first:]:
            if len(run.elements) == self.group.most:
                break
            self._setting.spend()
            longer = self._taken(run, candidate)
            if longer is not None:
                run = longer
            elif not run.elements:
                return None
        return run

    def longest(self, decided: Collection[int] = ()) -> Iterator[Filling]:
        group = self.group
        begun = False
        for first, same in enumerate(self.candidates):
            if decided and any(id(each) in decided for each in same):
                begun = True
                continue
            run = self.run(first)
            if run is None:
                continue
            if len(run.elements) == group.most or (not begun and len(run.elements) >= group.least):
                yield self.filling(run)
            begun = True
            if group.most is None:
                break
        if not begun and group.least == 0:
            yield self.filling(self._begin())

    # -- all combinations ----------------------------------------------------------------------

    def combinations(self) -> Iterator[Filling]:
        for run in self._combined(0, self._begin()):
            yield self.filling(run)

    def _combined(self, at: int, run: _Run) -> Iterator[_Run]:
        group = self.group
        if len(run.elements) >= group.least:
            yield run
        if len(run.elements) == group.most:
            return
        for number in range(at, len(self.candidates)):
            self._setting.spend()
            longer = self._taken(run, self.candidates[number])
            if longer is not None:
                yield from self._combined(number + 1, longer)


def _arranged(found: list[Instance]) -> Iterator[list[Instance]]:
    """Matches in order, those of the same documents together."""
    found.sort(key=_order)
    for _, simultaneous in groupby(found, key=_order):
        same = list(simultaneous)
        if len(same) == 1:
            yield same
            continue
        same.sort(key=rank)
        for _, together in groupby(same, key=lambda each: [row.key for row in each.rows]):
            yield list(together)


def _of(elements: Sequence[Instance], name: str) -> list[Row | None]:
    """The documents that a variable of elements stands for. None of an element that does not bind
    it."""
    return [each.single.get(name) for each in elements]


def rank(instance: Instance) -> list[tuple[int, ...]]:
    """The order of the matches of the same documents: by branches, then by nodes."""
    found: list[tuple[int, ...]] = []
    for slot in sorted(instance.parts):
        part = instance.parts[slot]
        if isinstance(part, Row):
            found.append((0, part.node, *[part.nodes[name] for name in sorted(part.nodes)]))
        else:
            found.append((1,))
    return found

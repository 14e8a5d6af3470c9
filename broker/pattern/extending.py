"""A plan's tree, run: partial choices that are extended by a place, or by what a subtree chose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from broker.pattern.instances import Instance, Row, Tuples, common, together
from broker.pattern.plan import Single, Variant, Window
from broker.pattern.pool import PARTITION, Pool, Wanted
from broker.pattern.setting import Setting
from broker.pattern.statistics import Seen
from broker.pattern.steps import Step
from broker.pattern.values import Scope

Chosen = Mapping[int, Instance]
"""Instances by the places of a variant."""


@dataclass(slots=True)
class Arrivals:
    """What is new for the items of a unit, and what there was before, by item."""

    old: Mapping[Single, Pool]
    fresh: Mapping[Single, list[Instance]]
    _pools: dict[Single, Pool] = field(default_factory=dict)

    @property
    def spread(self) -> int:
        """The time over which what is new began."""
        starts = [each.start for new in self.fresh.values() for each in new]
        return max(starts) - min(starts)

    def distinct(self, item: Single, path: str) -> int:
        """How many values of a path there are, at least one."""
        old, fresh = self.old[item], self.fresh[item]
        found = self.new(item).distinct(path) if len(fresh) > len(old) else old.distinct(path)
        return max(found, 1)

    def new(self, item: Single) -> Pool:
        """What is new for an item, as a pool that finds by the same."""
        pool = self._pools.get(item)
        if pool is None:
            pool = self._pools[item] = self.old[item].alike()
            pool.add(self.fresh[item])
        return pool


class Search:
    """The choices of a variant of which `pivot` is the first place, in the order of the pattern,
    with a new instance: places before it have older ones, places behind it any."""

    def __init__(
        self, variant: Variant, extent: Window, pivot: int, arrivals: Arrivals, setting: Setting
    ) -> None:
        self._variant = variant
        self._extent = extent
        self._pivot = pivot
        self._arrivals = arrivals
        self._setting = setting
        self._inner: dict[int, tuple[Pool, dict[int, Chosen]]] = {}

    def choices(self, steps: Sequence[Step]) -> Iterator[tuple[Chosen, frozenset[int], Tuples]]:
        """The choices, each with the documents that it has and the partitions that it may have."""
        return self._extended(steps, 0, {}, frozenset(), None)

    def _extended(
        self,
        steps: Sequence[Step],
        at: int,
        chosen: Chosen,
        keys: frozenset[int],
        tuples: Tuples,
    ) -> Iterator[tuple[Chosen, frozenset[int], Tuples]]:
        if at == len(steps):
            yield chosen, keys, tuples
            return
        step = steps[at]
        spend = self._setting.spend
        inner = self._chosen_inside(step)[1] if step.inside else None
        place = step.places[0]
        for instance in self._found(step, chosen, tuples):
            spend()
            if not keys.isdisjoint(instance.keys):
                continue
            both = tuples
            if instance.tuples is not None:
                both = common(tuples, instance.tuples)
                if both is not None and not both:
                    continue
            taken = {**chosen}
            if inner is None:
                taken[place] = instance
            else:
                taken |= inner[id(instance)]
            if step.order and any(taken[p].end >= taken[q].start for p, q in step.order):
                continue
            if step.checks and not _hold(step.checks, taken):
                continue
            step.made += 1
            yield from self._extended(steps, at + 1, taken, keys | instance.keys, both)

    def _found(self, step: Step, chosen: Chosen, tuples: Tuples) -> Iterable[Instance]:
        """The instances for a step; of a subtree hulls of what it chose."""
        wanted = self._wanted(step, chosen, tuples)
        if step.inside:
            return self._chosen_inside(step)[0].find(wanted)
        (place,) = step.places
        item = self._variant.singles[place]
        fresh = self._arrivals.fresh[item] if place >= self._pivot else ()
        if place == self._pivot:
            return self._arrivals.new(item).find(wanted) if chosen else fresh
        old = self._arrivals.old[item].find(wanted)
        return [*old, *self._arrivals.new(item).find(wanted)] if fresh else old

    def _wanted(self, step: Step, chosen: Chosen, tuples: Tuples) -> Wanted:
        if not chosen:
            return self._near_new(step)
        after = max([chosen[p].end for p in step.after], default=None)
        before = min([chosen[p].start for p in step.before], default=None)
        extent = self._extent
        if extent is not None:
            low = max([each.last for each in chosen.values()]) - extent - 1
            high = min([each.first for each in chosen.values()]) + extent + 1
            after = low if after is None else max(after, low)
            before = high if before is None else min(before, high)
        for lookup in step.lookups:
            # Of a branch that was not taken there is no document, and nothing is asked.
            row = _row(chosen.values(), lookup.bound)
            if row is not None:
                return Wanted(after, before, lookup.path, row.values[lookup.text])
        if tuples is not None:
            return Wanted(after, before, PARTITION, [*tuples])
        return Wanted(after, before)

    def _near_new(self, step: Step) -> Wanted:
        """Where the first instances of a choice can be, to be with a new one of the pivot."""
        if step.places == (self._pivot,):
            return Wanted()
        new = self._arrivals.fresh[self._variant.singles[self._pivot]]
        after = before = None
        if self._extent is not None:
            after = min([each.last for each in new]) - self._extent - 1
            before = max([each.first for each in new]) + self._extent + 1
        pairs = self._variant.before
        if all((place, self._pivot) in pairs for place in step.places):
            latest = max([each.start for each in new])
            before = latest if before is None else min(before, latest)
        if all((self._pivot, place) in pairs for place in step.places):
            earliest = min([each.end for each in new])
            after = earliest if after is None else max(after, earliest)
        return Wanted(after, before)

    def _chosen_inside(self, step: Step) -> tuple[Pool, dict[int, Chosen]]:
        """What a subtree chooses, once for all that is extended by it."""
        known = self._inner.get(id(step))
        if known is None:
            pool, choices = Pool(), dict[int, Chosen]()
            for lookup in step.lookups:
                pool.index(lookup.path, lookup.variable)
            if self._setting.plan.query.partition:
                pool.index(PARTITION, "")
            for chosen, _, tuples in self._extended(step.inside, 0, {}, frozenset(), None):
                parts = [*chosen.values()]
                instance = together(parts, tuples, parts[0].due)
                choices[id(instance)] = chosen
                pool.add([instance])
            known = self._inner[id(step)] = pool, choices
        return known


def _row(instances: Iterable[Instance], variable: str) -> Row | None:
    for each in instances:
        row = each.single.get(variable)
        if row is not None:
            return row
    return None


def _hold(checks: Sequence[Seen], chosen: Chosen) -> bool:
    scope = _scope(chosen.values())
    for each in checks:
        each.asked += 1
        if not each.holds(scope):
            return False
        each.held += 1
    return True


def _scope(instances: Iterable[Instance]) -> Scope:
    single: dict[str, Row] = {}
    several: dict[str, Sequence[Row | None]] = {}
    computed: dict[str, object] = {}
    for each in instances:
        single.update(each.single)
        # Most have no elements, and nothing computed of them.
        if each.several:
            several.update(each.several)
        if each.computed:
            computed.update(each.computed)
    return Scope(single, several, computed)

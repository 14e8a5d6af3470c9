"""Choices of single items: found once, when the last of them arrives.

A choice has one new item in the first place where it has any, its pivot. From which place it is
begun, and in which order the others are filled, is planned: from the rarest, bound by what is most
selective.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from broker.pattern.absences import sides
from broker.pattern.candidates import Candidate
from broker.pattern.extending import Arrivals, Search
from broker.pattern.instances import Instance
from broker.pattern.ordering import Ordering, counts_of, ordering_of, problem_of, steps_of
from broker.pattern.plan import Conjunct, Item, Leaf, Single, Unit, Variant
from broker.pattern.pool import PARTITION, Pool
from broker.pattern.setting import Setting
from broker.pattern.statistics import Seen
from broker.pattern.steps import Planned, Step
from broker.pattern.values import path_text
from broker.planner import Shape

_LOOK = 64
"""Calls after which it is asked whether the selectivities have changed."""

_CHANGED = 2.0
"""The factor by which a selectivity has to change for plans to be made anew."""

_PLANS = 256
"""Plans that are remembered: one for each order of magnitude of what there is."""


class Choices:
    """The choices of a unit, from pools of what has come for each single item. `rests` are, for
    each variant, the conjuncts that are not asked while single items are chosen."""

    def __init__(self, unit: Unit, setting: Setting) -> None:
        self.unit = unit
        self.setting = setting
        singles = [item for item in unit.order if isinstance(item, Single)]
        self._pools: dict[Single, Pool] = {item: Pool() for item in singles}
        self._seen = {id(each): Seen(each) for each in unit.conjuncts}
        partitioned = bool(setting.plan.query.partition)
        self._orderings = [ordering_of(v, self._seen, partitioned) for v in unit.variants]
        self._plans: dict[tuple[int, ...], list[Step]] = {}
        self._shapes: dict[tuple[int, Shape], list[Step]] = {}
        self._calls = 0
        self._planned_for: list[float] = []
        """The selectivities of the conjuncts when the plans were last forgotten."""
        self.rests: list[list[Conjunct]] = [self._rest(each) for each in self._orderings]
        self._index(singles, partitioned)

    def _rest(self, ordering: Ordering) -> list[Conjunct]:
        asked = {id(each.conjunct) for each in ordering.conjuncts}
        return [each for each in self.unit.conjuncts if id(each) not in asked]

    def _index(self, singles: Iterable[Single], partitioned: bool) -> None:
        for item in singles:
            if partitioned:
                self._pools[item].index(PARTITION, "")
            if isinstance(item, Leaf):
                for each in self.unit.conjuncts:
                    for path, other in sides(each):
                        if path.variable in item.variables and other.variable not in item.variables:
                            self._pools[item].index(path_text(path), path.variable or "")

    def add(self, item: Single, instances: Iterable[Instance]) -> None:
        """Note what has come for an item, after the choices in which it is new."""
        self._pools[item].add(instances)

    def expire(self, horizon: int) -> None:
        for pool in self._pools.values():
            pool.expire(horizon)

    # -- choosing --------------------------------------------------------------------------------

    def new(
        self, number: int, variant: Variant, fresh: Mapping[Single, list[Instance]]
    ) -> Iterator[Candidate]:
        """The choices of single items of a variant, given with its number, that have a new one."""
        arrivals = Arrivals(self._pools, fresh)
        singles = variant.singles
        for pivot, item in enumerate(singles):
            if not fresh[item]:
                continue
            steps = self._steps(number, pivot, arrivals)
            if steps is None:
                continue
            search = Search(variant, self.unit.extent, pivot, arrivals, self.setting)
            for chosen, keys, tuples in search.choices(steps):
                own: dict[Item, Instance] = {singles[p]: chosen[p] for p in sorted(chosen)}
                yield Candidate(variant, self.rests[number], own, keys, tuples)

    def _steps(self, number: int, pivot: int, arrivals: Arrivals) -> list[Step] | None:
        """The plan of a call; None if there is nothing for some place."""
        singles, fresh = self.unit.variants[number].singles, arrivals.fresh
        sizes = []
        for place, item in enumerate(singles):
            size = 0 if place == pivot else len(self._pools[item])
            sizes.append(size + len(fresh[item]) if place >= pivot else size)
            if not sizes[-1]:
                return None
        self._look()
        key = (number, pivot, *[(size.bit_length() + 1) >> 1 for size in sizes])
        steps = self._plans.get(key)
        if steps is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            steps = self._plans[key] = self._planned(number, pivot, arrivals)
        return steps

    def _planned(self, number: int, pivot: int, arrivals: Arrivals) -> list[Step]:
        ordering, extent = self._orderings[number], self.unit.extent
        counts = counts_of(ordering.variant, pivot, arrivals, extent)
        windows = 0.0 if extent is None else arrivals.spread / max(extent, 1)
        problem = problem_of(ordering, counts, arrivals.distinct, pivot, windows)
        shape = self.setting.shape(problem)
        trace = self.setting.trace
        if trace is not None:  # which tells of each plan how many were expected
            steps = steps_of(ordering, problem, shape)
            trace.plan(Planned(ordering.variant, steps))
            return steps
        known = self._shapes.get((number, shape))
        if known is None:
            if len(self._shapes) >= _PLANS:
                self._shapes.clear()
            known = self._shapes[number, shape] = steps_of(ordering, problem, shape)
        return known

    def _look(self) -> None:
        """Forget the plans when selectivities have changed."""
        self._calls += 1
        if self._calls % _LOOK:
            return
        for each in self._seen.values():
            each.forget()
        now = [each.selectivity for each in self._seen.values()]
        if not self._planned_for or any(
            not one / _CHANGED < other < one * _CHANGED
            for one, other in zip(self._planned_for, now, strict=True)
        ):
            self._planned_for = now
            self._plans.clear()

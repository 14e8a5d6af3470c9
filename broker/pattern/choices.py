"""Choices of single items: found once, when the last of them arrives.

A choice has one new item in the first place where it has any, its pivot. From there the other
places are filled, those first that an equality ties to what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from broker.pattern.absences import sides
from broker.pattern.candidates import Candidate
from broker.pattern.instances import Instance, Row, Tuples, common
from broker.pattern.plan import Conjunct, Item, Leaf, Single, Unit, Variant
from broker.pattern.pool import PARTITION, Pool, Wanted
from broker.pattern.setting import Setting
from broker.pattern.values import Scope, path_text


@dataclass(slots=True)
class _Extension:
    """A place to be filled next. `after` and `before` are places that must end before it begins, or
    begin after it has ended; `lookups` are pairs of a path of a variable that is bound, with that
    variable, and a path of this item; `checks` are what can be asked then."""

    place: int
    after: list[int]
    before: list[int]
    lookups: list[tuple[str, str, str]]
    checks: list[Conjunct]


class Choices:
    """The choices of a unit, from pools of what has come for each single item. `rests` are, for
    each variant, the conjuncts that are not asked while single items are chosen."""

    def __init__(self, unit: Unit, setting: Setting) -> None:
        self.unit = unit
        self.setting = setting
        singles = [item for item in unit.order if isinstance(item, Single)]
        self._pools: dict[Single, Pool] = {item: Pool() for item in singles}
        self._orders: dict[tuple[int, int], list[_Extension]] = {}
        self.rests: list[list[Conjunct]] = []
        for number, variant in enumerate(unit.variants):
            asked: set[int] = set()
            for pivot in range(len(variant.singles)):
                order = self._order(variant, pivot)
                self._orders[number, pivot] = order
                asked = {id(each) for step in order for each in step.checks}
            self.rests.append([each for each in unit.conjuncts if id(each) not in asked])

    def add(self, item: Single, instances: Iterable[Instance]) -> None:
        """Note what has come for an item, after the choices in which it is new."""
        self._pools[item].add(instances)

    def expire(self, horizon: int) -> None:
        for pool in self._pools.values():
            pool.expire(horizon)

    # -- in which order places are filled --------------------------------------------------------

    def _order(self, variant: Variant, pivot: int) -> list[_Extension]:
        """The places in the order in which they are filled: first the pivot, then what an equality
        ties to what is there."""
        singles = variant.singles
        left = [place for place in range(len(singles)) if place != pivot]
        done = [pivot]
        bound = set(singles[pivot].variables)
        asked: set[int] = set()
        found = [_Extension(pivot, [], [], [], self._askable(bound, asked))]
        while left:
            ranked = [(not self._lookups(singles[p], bound), abs(p - pivot), p) for p in left]
            place = min(ranked)[-1]
            left.remove(place)
            lookups = self._lookups(singles[place], bound)
            for _, _, path in lookups:
                variable = next(
                    p.variable
                    for each in self.unit.conjuncts
                    for p, _ in sides(each)
                    if path_text(p) == path
                )
                self._pools[singles[place]].index(path, variable or "")
            if self.setting.plan.query.partition:
                self._pools[singles[place]].index(PARTITION, "")
            after = [p for p in done if (p, place) in variant.before]
            before = [p for p in done if (place, p) in variant.before]
            bound |= singles[place].variables
            found.append(_Extension(place, after, before, lookups, self._askable(bound, asked)))
            done.append(place)
        return found

    def _lookups(self, item: Single, bound: set[str]) -> list[tuple[str, str, str]]:
        found = []
        if isinstance(item, Leaf):
            for each in self.unit.conjuncts:
                for path, other in sides(each):
                    outside = other.variable in bound and other.variable not in item.variables
                    if outside and path.variable in item.variables:
                        found.append((other.variable or "", path_text(other), path_text(path)))
        return found

    def _askable(self, bound: set[str], asked: set[int]) -> list[Conjunct]:
        """The conjuncts that name only what is bound, and were not asked before."""
        found = [
            each
            for each in self.unit.conjuncts
            if id(each) not in asked and not each.lasts and each.names <= bound
        ]
        asked |= {id(each) for each in found}
        return found

    # -- filling them --------------------------------------------------------------------------

    def new(
        self, number: int, variant: Variant, fresh: Mapping[Single, list[Instance]]
    ) -> Iterator[Candidate]:
        """The choices of single items of a variant, given with its number, that have a new one."""
        for pivot, item in enumerate(variant.singles):
            if fresh[item]:
                order = self._orders[number, pivot]
                yield from self._extended(number, order, 0, pivot, {}, frozenset(), None, fresh)

    def _extended(
        self,
        number: int,
        order: Sequence[_Extension],
        at: int,
        pivot: int,
        chosen: dict[int, Instance],
        keys: frozenset[int],
        tuples: Tuples,
        fresh: Mapping[Single, list[Instance]],
    ) -> Iterator[Candidate]:
        variant = self.unit.variants[number]
        if at == len(order):
            singles = variant.singles
            own: dict[Item, Instance] = {singles[p]: chosen[p] for p in sorted(chosen)}
            yield Candidate(variant, self.rests[number], own, keys, tuples)
            return
        step = order[at]
        for instance in self._found(variant, step, pivot, chosen, tuples, fresh):
            self.setting.spend()
            if not keys.isdisjoint(instance.keys):
                continue
            both = common(tuples, instance.tuples)
            if both is not None and not both:
                continue
            taken = {**chosen, step.place: instance}
            if step.checks and not self._holds(step.checks, taken):
                continue
            yield from self._extended(
                number, order, at + 1, pivot, taken, keys | instance.keys, both, fresh
            )

    def _found(
        self,
        variant: Variant,
        step: _Extension,
        pivot: int,
        chosen: Mapping[int, Instance],
        tuples: Tuples,
        fresh: Mapping[Single, list[Instance]],
    ) -> Iterator[Instance]:
        """The instances for a place: at the pivot new ones, before it old ones, behind it all."""
        item = variant.singles[step.place]
        if step.place == pivot:
            yield from fresh[item]
            return
        after = max([chosen[p].end for p in step.after], default=None)
        before = min([chosen[p].start for p in step.before], default=None)
        extent = self.unit.extent
        if extent is not None:
            low = max([each.last for each in chosen.values()]) - extent - 1
            high = min([each.first for each in chosen.values()]) + extent + 1
            after = low if after is None else max(after, low)
            before = high if before is None else min(before, high)
        wanted = Wanted(after, before)
        if tuples is not None:
            wanted = Wanted(after, before, PARTITION, [*tuples])
        for variable, text, path in step.lookups:
            # Of a branch that was not taken there is no document, and nothing is asked.
            row = next((i.single[variable] for i in chosen.values() if variable in i.single), None)
            if row is not None:
                wanted = Wanted(after, before, path, row.values[text])
                break
        yield from self._pools[item].find(wanted)
        if step.place > pivot:
            for instance in fresh[item]:
                if (after is None or instance.start > after) and (
                    before is None or instance.end < before
                ):
                    yield instance

    def _holds(self, checks: Sequence[Conjunct], chosen: Mapping[int, Instance]) -> bool:
        scope = _scope(chosen.values(), 0)
        return all(each.holds(scope) for each in checks)


def _scope(instances: Iterable[Instance], length: int) -> Scope:
    single: dict[str, Row] = {}
    several: dict[str, Sequence[Row | None]] = {}
    computed: dict[str, object] = {}
    for each in instances:
        single.update(each.single)
        several.update(each.several)
        computed.update(each.computed)
    return Scope(single, several, computed, length=length)

"""The matches of a unit: single items are chosen on arrival, and what has to wait is settled when
the watermark has come far enough.

A choice of single items (`choices.py`) is a match as soon as it is found, unless there are groups
or absences: then it is deferred until these are decided (`deferred.py`). Groups that are free, or
that are the whole pattern, have ways of their own (`free_groups.py`, `alone.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.pattern.absences import Absences
from broker.pattern.alone import AloneGroups
from broker.pattern.candidates import Candidate
from broker.pattern.choices import Choices
from broker.pattern.deadlines import earliest
from broker.pattern.deferred import Deferred
from broker.pattern.free_groups import FreeGroups
from broker.pattern.groups import ties
from broker.pattern.instances import AT_ONCE, Arrived, Instance
from broker.pattern.plan import Group, Single, Unit
from broker.pattern.pool import PARTITION, Pool
from broker.pattern.setting import Setting, Source
from broker.pattern.timing import Timing
from broker.pattern.values import path_text


class UnitRunner:
    """The matches of one unit. With `after` all its documents must begin after that time, and with
    `taken` be others than these."""

    def __init__(
        self,
        unit: Unit,
        setting: Setting,
        after: int | None = None,
        taken: frozenset[int] = frozenset(),
    ) -> None:
        self.unit = unit
        self.setting = setting
        self._after = after
        self._taken = taken
        self._sources: dict[Single, Source] = {
            item: setting.source(item) for item in unit.order if not isinstance(item, Group)
        }
        self._groups = {group: (setting.unit(group.unit), Pool()) for group in unit.groups}
        pools = {group: pool for group, (_, pool) in self._groups.items()}
        self._absences = Absences(unit, setting, self._allowed)
        self._choices = Choices(unit, setting)
        self._deferred = Deferred(unit, setting, pools, self._absences)
        self._free = FreeGroups(unit, setting, pools, self._absences)
        self._alone: list[AloneGroups] = []
        for variant, rest in zip(unit.variants, self._choices.rests, strict=True):
            nothing = Candidate(variant, rest, {}, frozenset(), None)
            if variant.alone and not setting.free:
                self._alone.append(AloneGroups(unit, setting, nothing, pools))
            if not variant.singles:
                self._free.open([nothing])
        self._index()

    def _index(self) -> None:
        for group, (_, pool) in self._groups.items():
            for path, _ in ties(group):
                pool.index(path_text(path), path.variable or "")
            if self.setting.plan.query.partition:
                pool.index(PARTITION, "")

    # -- advancing -----------------------------------------------------------------------------

    def advance(self, arrived: Arrived, watermark: int | None) -> list[Instance]:
        """The matches that are decided now and were not before, or whose last document has just
        come."""
        fresh: dict[Single, list[Instance]] = {}
        for item, source in self._sources.items():
            fresh[item] = [*filter(self._allowed, source.advance(arrived, watermark))]
        fresh_elements: dict[Group, list[Instance]] = {}
        for group, (runner, pool) in self._groups.items():
            new = [*filter(self._allowed, runner.advance(arrived, watermark))]
            pool.add(new)
            fresh_elements[group] = new
        elements = {id(each) for new in fresh_elements.values() for each in new}
        self._absences.advance(arrived, watermark)
        found: list[Instance] = []
        opened: list[Candidate] = []
        for number, variant in enumerate(self.unit.variants):
            if not any(fresh[item] for item in variant.singles):
                continue
            for candidate in self._choices.new(number, variant, fresh):
                self._enter(candidate, found, opened)
        for item, new in fresh.items():
            self._choices.add(item, new)
        if self.setting.free and self._groups:
            found += self._free.combine(opened, elements)
        for alone in self._alone:
            alone.enter(fresh_elements[alone.group])
            found += alone.settle(watermark)
        if watermark is not None:
            found += self._deferred.settle(watermark)
            found += self._free.settle(watermark)
        return found

    def _allowed(self, instance: Instance) -> bool:
        return (self._after is None or instance.start > self._after) and (
            not self._taken or self._taken.isdisjoint(instance.keys)
        )

    def _enter(self, candidate: Candidate, found: list[Instance], opened: list[Candidate]) -> None:
        variant = candidate.variant
        if variant.groups and self.setting.free:
            opened.append(candidate)
            return
        whole = bool(variant.groups)
        timing = Timing(variant, self.unit.within, candidate.chosen, {}, whole=whole)
        span = timing.span()
        if variant.groups:
            self._deferred.add(candidate, min(timing.soonest, earliest(candidate)))
            return
        if span is None:
            return
        instance = candidate.alone(span, timing.due)
        if candidate.passes(instance):
            if variant.absences:
                self._deferred.add(candidate, instance.due)
            else:
                found.append(instance)

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        found = [alone.due() for alone in self._alone]
        found += [source.due() for source in self._sources.values()]
        found += [runner.due() for runner, _ in self._groups.values()]
        return min([*found, self._deferred.due(), self._free.due()])

    def _would_be(
        self, coming: Mapping[Single, list[tuple[int, Instance]]]
    ) -> Iterator[tuple[int, Instance]]:
        fresh = {item: [each for _, each in found] for item, found in coming.items()}
        dues = {id(each): due for found in coming.values() for due, each in found}
        for number, variant in enumerate(self.unit.variants):
            if not any(fresh[item] for item in variant.singles):
                continue
            for candidate in self._choices.new(number, variant, fresh):
                soonest = max([dues.get(id(each), AT_ONCE) for each in candidate.chosen.values()])
                for due, made in self._made(candidate):
                    yield max(due, soonest), made

    def _made(self, candidate: Candidate) -> Iterator[tuple[int, Instance]]:
        """What a choice of single items would be now."""
        variant = candidate.variant
        if variant.groups or variant.absences:
            yield from self._deferred.would_be(candidate)
            return
        timing = Timing(variant, self.unit.within, candidate.chosen, {})
        span = timing.span()
        if span is not None:
            instance = candidate.alone(span, timing.due)
            if candidate.passes(instance):
                yield instance.due, instance

    def expire(self, horizon: int) -> None:
        for source in self._sources.values():
            source.expire(horizon)
        self._choices.expire(horizon)
        self._absences.expire(horizon)
        for runner, pool in self._groups.values():
            runner.expire(horizon)
            pool.expire(horizon)
        self._free.expire(horizon)
        for alone in self._alone:
            alone.expire(horizon)

    def waiting(self) -> Iterator[tuple[int, Instance]]:
        """What is not decided, with its `due`; what an item waits for by itself counts with what
        it would be together with the others, if nothing else came."""
        coming = {
            item: [(due, each) for due, each in source.waiting() if self._allowed(each)]
            for item, source in self._sources.items()
        }
        if any(coming.values()):
            yield from self._would_be(coming)
        yield from self._deferred.waiting()
        yield from self._free.waiting()
        for alone in self._alone:
            yield from alone.waiting()

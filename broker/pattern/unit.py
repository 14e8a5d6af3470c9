"""The matches of a unit: single items are chosen on arrival, and what has to wait is settled when
the watermark has come far enough.

A choice of single items is found once, when the last of them arrives: it has one new item in the
first place where it has any. Where there are groups or absences it is a `Candidate`, which waits
until these are decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count

from broker.pattern.absences import Absences, sides
from broker.pattern.alone import AloneGroups
from broker.pattern.groups import Filling, combinations, longest, ties
from broker.pattern.instances import (
    AT_ONCE,
    NEVER,
    Arrived,
    Instance,
    Part,
    Row,
    Tuples,
    common,
    due_beyond,
    due_from,
    several_of,
)
from broker.pattern.plan import (
    Conjunct,
    Group,
    Item,
    Leaf,
    Ordered,
    Single,
    Together,
    Tree,
    Unit,
    Variant,
    leaves,
)
from broker.pattern.pool import PARTITION, Pool, Wanted
from broker.pattern.setting import Setting, Source
from broker.pattern.timing import Span, Timing
from broker.pattern.values import Scope, path_text


@dataclass(slots=True, eq=False)
class Candidate:
    """A choice of single items. `told` are the fillings of its groups that were decided."""

    variant: Variant
    chosen: dict[Item, Instance]
    keys: frozenset[int]
    tuples: Tuples
    told: set[tuple[int, ...]] = field(default_factory=set)


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
        singles = [item for item in unit.order if not isinstance(item, Group)]
        self._sources: dict[Single, Source] = {item: setting.source(item) for item in singles}
        self._pools: dict[Single, Pool] = {item: Pool() for item in singles}
        self._groups = {group: (setting.unit(group.unit), Pool()) for group in unit.groups}
        self._absences = Absences(unit, setting, self._allowed)
        self._orders: dict[tuple[int, int], list[_Extension]] = {}
        self._rests: list[list[Conjunct]] = []
        self._number = count()
        self._waiting: list[tuple[int, int, Candidate]] = []
        self._finished: list[tuple[int, int, Candidate, Instance]] = []
        """Instances whose absences are not decided, where groups are free."""
        self._open: list[Candidate] = []
        """Choices to which groups that are free may add elements."""
        self._alone = (
            []
            if setting.free
            else [self._group_alone(variant) for variant in unit.variants if variant.alone]
        )
        self._prepare()

    def _prepare(self) -> None:
        for number, variant in enumerate(self.unit.variants):
            asked: set[int] = set()
            for pivot in range(len(variant.singles)):
                order = self._order(variant, pivot)
                self._orders[number, pivot] = order
                asked = {id(each) for step in order for each in step.checks}
            self._rests.append([each for each in self.unit.conjuncts if id(each) not in asked])
            if not variant.singles:
                self._open.append(Candidate(variant, {}, frozenset(), None))

        for group, (_, pool) in self._groups.items():
            for path, _ in ties(group):
                pool.index(path_text(path), path.variable or "")
            if self.setting.plan.query.partition:
                pool.index(PARTITION, "")

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
            for candidate in self._choices(number, variant, fresh):
                self._enter(number, candidate, found, opened)
        for item, new in fresh.items():
            self._pools[item].add(new)
        if self.setting.free and self._groups:
            self._combine(opened, elements, watermark, found)
        for alone in self._alone:
            alone.enter(fresh_elements[alone.group])
            found += alone.settle(watermark)
        found += self._settle(watermark)
        return found

    def _allowed(self, instance: Instance) -> bool:
        return (self._after is None or instance.start > self._after) and (
            not self._taken or self._taken.isdisjoint(instance.keys)
        )

    def _enter(
        self, number: int, candidate: Candidate, found: list[Instance], opened: list[Candidate]
    ) -> None:
        variant = candidate.variant
        if variant.groups and self.setting.free:
            opened.append(candidate)
            return
        timing = Timing(variant, self.unit.within, candidate.chosen, {})
        span = timing.span()
        if not variant.groups:
            if span is None:
                return
            instance = self._instance(candidate, {}, candidate.tuples, span, timing.due)
            if not self._passes(number, instance):
                return
            if not variant.absences:
                found.append(instance)
                return
            due = instance.due
        else:
            due = min(timing.soonest, _earliest(variant, candidate))
        heappush(self._waiting, (due, next(self._number), candidate))
        self.setting.hold(len(self._waiting))

    # -- single items --------------------------------------------------------------------------

    def _choices(
        self, number: int, variant: Variant, fresh: Mapping[Single, list[Instance]]
    ) -> Iterator[Candidate]:
        """The choices of single items that have a new one."""
        for pivot, item in enumerate(variant.singles):
            if fresh[item]:
                order = self._orders[number, pivot]
                yield from self._extended(variant, order, 0, pivot, {}, frozenset(), None, fresh)

    def _extended(
        self,
        variant: Variant,
        order: Sequence[_Extension],
        at: int,
        pivot: int,
        chosen: dict[int, Instance],
        keys: frozenset[int],
        tuples: Tuples,
        fresh: Mapping[Single, list[Instance]],
    ) -> Iterator[Candidate]:
        if at == len(order):
            singles = variant.singles
            own: dict[Item, Instance] = {singles[p]: chosen[p] for p in sorted(chosen)}
            yield Candidate(variant, own, keys, tuples)
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
                variant, order, at + 1, pivot, taken, keys | instance.keys, both, fresh
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

    # -- instances -----------------------------------------------------------------------------

    def _instance(
        self,
        candidate: Candidate,
        filled: Mapping[Group, Sequence[Instance]],
        tuples: Tuples,
        span: Span,
        due: int,
    ) -> Instance:
        parts: dict[int, Part] = dict.fromkeys(candidate.variant.absent)
        single: dict[str, Row] = {}
        several: dict[str, Sequence[Row | None]] = {}
        computed: dict[str, object] = {}
        keys = candidate.keys
        for each in candidate.chosen.values():
            parts.update(each.parts)
            single.update(each.single)
            several.update(each.several)
            computed.update(each.computed)
            due = max(due, each.due)
        for group, elements in filled.items():
            parts[group.slot] = tuple(elements)
            several.update(dict.fromkeys(group.variables, ()))
            several.update(several_of(elements))
            for each in elements:
                keys = keys | each.keys
                due = max(due, each.due)
        return Instance(*span, due, parts, keys, tuples, single, several, computed)

    def _passes(self, number: int, instance: Instance) -> bool:
        rest = self._rests[number]
        if not rest:
            return True
        scope = scope_of(instance)
        return all(each.holds(scope) for each in rest)

    # -- what had to wait ----------------------------------------------------------------------

    def _settle(self, watermark: int | None) -> list[Instance]:
        if watermark is None:
            return []
        found: list[Instance] = []
        again: list[tuple[int, Candidate]] = []
        while self._waiting and self._waiting[0][0] <= 2 * watermark:
            _, _, candidate = heappop(self._waiting)
            later = self._judge(candidate, watermark, found)
            if later is not None:
                again.append((later, candidate))
        for due, candidate in again:
            heappush(self._waiting, (due, next(self._number), candidate))
        while self._finished and self._finished[0][0] <= 2 * watermark:
            _, _, candidate, instance = heappop(self._finished)
            filled = self._filled(candidate.variant, instance)
            if self._unblocked(candidate, filled, instance):
                found.append(instance)
        return found

    def _judge(self, candidate: Candidate, watermark: int, found: list[Instance]) -> int | None:
        """Adds what a candidate is decided to be; returns when it has to be looked at again."""
        variant = candidate.variant
        number = self._number_of(variant)
        last, again = AT_ONCE, NEVER
        for filling in self._fillings(candidate):
            self.setting.spend()
            timing = Timing(variant, self.unit.within, candidate.chosen, filling.filled)
            span = timing.span()
            if span is None:
                continue
            last = max(last, timing.due)
            told = tuple([id(e) for each in filling.filled.values() for e in each])
            instance = self._instance(candidate, filling.filled, filling.tuples, span, timing.due)
            if instance.due > 2 * watermark or told in candidate.told:
                last = max(last, instance.due)
                if instance.due > 2 * watermark:
                    again = min(again, instance.due)
                continue
            candidate.told.add(told)
            if self._passes(number, instance) and self._unblocked(
                candidate, filling.filled, instance
            ):
                found.append(instance)
        if not variant.groups:
            return None
        # As long as a group may still grow, the candidate may still become something else.
        whole = Timing(variant, self.unit.within, candidate.chosen, {}, whole=True)
        if whole.span() is not None:
            last = max(last, whole.due)
        if last <= 2 * watermark:
            return None
        return 2 * watermark + 1 if _restless(variant) else min(again, last)

    def _fillings(self, candidate: Candidate) -> Iterator[Filling]:
        pools = {group: pool for group, (_, pool) in self._groups.items()}
        start = Filling({}, candidate.tuples, candidate.keys)
        yield from longest(
            self.unit, self.setting, candidate.variant, candidate.chosen, pools, start
        )

    def _unblocked(
        self,
        candidate: Candidate,
        filled: Mapping[Group, Sequence[Instance]],
        instance: Instance,
    ) -> bool:
        return self._absences.unblocked(candidate.variant, candidate.chosen, filled, instance)

    def _filled(self, variant: Variant, instance: Instance) -> dict[Group, Sequence[Instance]]:
        filled: dict[Group, Sequence[Instance]] = {}
        for group in variant.groups:
            part = instance.parts[group.slot]
            assert isinstance(part, tuple)
            filled[group] = part
        return filled

    # -- groups without singles, and groups that are free ----------------------------------------

    def _group_alone(self, variant: Variant) -> AloneGroups:
        (group,) = variant.groups
        number, nothing = self._number_of(variant), Candidate(variant, {}, frozenset(), None)

        def made(filling: Filling, timing: Timing) -> Instance | None:
            span = timing.span()
            if span is None:
                return None
            return self._instance(nothing, filling.filled, filling.tuples, span, timing.due)

        pool = self._groups[group][1]
        passes = partial(self._passes, number)
        return AloneGroups(self.unit, self.setting, variant, pool, made, passes)

    def _number_of(self, variant: Variant) -> int:
        return next(n for n, each in enumerate(self.unit.variants) if each is variant)

    def _combine(
        self,
        opened: list[Candidate],
        elements: set[int],
        watermark: int | None,
        found: list[Instance],
    ) -> None:
        """All combinations that have a new element, or are of a new choice of single items."""
        pools = {group: pool for group, (_, pool) in self._groups.items()}
        new = {id(candidate) for candidate in opened}
        for candidate in [*self._open, *opened] if elements else opened:
            variant = candidate.variant
            number = self._number_of(variant)
            start = Filling({}, candidate.tuples, candidate.keys)
            for filling in combinations(
                self.unit, self.setting, variant, candidate.chosen, pools, start
            ):
                self.setting.spend()
                own = [id(e) for each in filling.filled.values() for e in each]
                if id(candidate) not in new and elements.isdisjoint(own):
                    continue
                timing = Timing(
                    variant, self.unit.within, candidate.chosen, filling.filled, free=True
                )
                span = timing.span()
                if span is None:
                    continue
                instance = self._instance(
                    candidate, filling.filled, filling.tuples, span, timing.due
                )
                if not self._passes(number, instance):
                    continue
                if not variant.absences:
                    found.append(instance)
                else:
                    item = (instance.due, next(self._number), candidate, instance)
                    heappush(self._finished, item)
                    self.setting.hold(len(self._finished))
        self._open += [each for each in opened if each.variant.groups]

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        found = [alone.due() for alone in self._alone]
        found += [source.due() for source in self._sources.values()]
        found += [runner.due() for runner, _ in self._groups.values()]
        found += [heap[0][0] for heap in (self._waiting, self._finished) if heap]
        return min(found, default=NEVER)

    def expire(self, horizon: int) -> None:
        for item, source in self._sources.items():
            source.expire(horizon)
            self._pools[item].expire(horizon)
        self._absences.expire(horizon)
        for runner, pool in self._groups.values():
            runner.expire(horizon)
            pool.expire(horizon)
        self._open = [
            each
            for each in self._open
            if not each.chosen or max([i.end for i in each.chosen.values()]) >= horizon
        ]
        for alone in self._alone:
            alone.expire(horizon)

    def waiting(self) -> Iterator[tuple[int, Instance]]:
        for source in self._sources.values():
            yield from source.waiting()
        for due, _, candidate in self._waiting:
            yield from self._undecided(due, candidate)
        for due, _, candidate, instance in self._finished:
            if self._unblocked(candidate, self._filled(candidate.variant, instance), instance):
                yield due, instance
        for alone in self._alone:
            yield from alone.waiting()

    def _undecided(self, due: int, candidate: Candidate) -> Iterator[tuple[int, Instance]]:
        number = self._number_of(candidate.variant)
        for filling in self._fillings(candidate):
            timing = Timing(candidate.variant, self.unit.within, candidate.chosen, filling.filled)
            span = timing.span()
            told = tuple([id(e) for each in filling.filled.values() for e in each])
            if span is None or told in candidate.told:
                continue
            made = self._instance(candidate, filling.filled, filling.tuples, span, timing.due)
            if self._passes(number, made) and self._unblocked(candidate, filling.filled, made):
                yield made.due, made


# -- small questions ---------------------------------------------------------------------------


def _scope(instances: Iterable[Instance], length: int) -> Scope:
    single: dict[str, Row] = {}
    several: dict[str, Sequence[Row | None]] = {}
    computed: dict[str, object] = {}
    for each in instances:
        single.update(each.single)
        several.update(each.several)
        computed.update(each.computed)
    return Scope(single, several, computed, length=length)


def scope_of(instance: Instance) -> Scope:
    """The scope of a whole match."""
    return Scope(instance.single, instance.several, instance.computed, length=instance.span)


def _earliest(variant: Variant, candidate: Candidate) -> int:
    """A time before which no filling of a candidate's groups is decided."""
    if not _in_join(variant.tree):
        return due_from(max([each.start for each in candidate.chosen.values()]))
    if any(group.most is not None for group in variant.groups):
        return AT_ONCE
    return min(_earliest_joined(variant.tree, candidate.chosen))


def _earliest_joined(tree: Tree, chosen: Mapping[Item, Instance]) -> Iterator[int]:
    """For each group in a JOIN a time before its deadline, which is not before the end of anything
    up to it in its JOIN."""
    if not isinstance(tree, Ordered | Together):
        return
    for place, item in enumerate(tree.items):
        yield from _earliest_joined(item, chosen)
        if isinstance(tree, Together) and _has_group(item):
            inside = [leaf for each in tree.items[:place] for leaf in leaves(each)]
            ends = [chosen[leaf].last for leaf in inside if leaf in chosen]
            yield due_beyond(max(ends)) if ends else AT_ONCE


def _in_join(tree: Tree) -> bool:
    """Whether a group stands in a JOIN."""
    if isinstance(tree, Together):
        return any(_has_group(item) for item in tree.items)
    return isinstance(tree, Ordered) and any(map(_in_join, tree.items))


def _has_group(tree: Tree) -> bool:
    if isinstance(tree, Ordered | Together):
        return any(map(_has_group, tree.items))
    return isinstance(tree, Group)


def _restless(variant: Variant) -> bool:
    """Whether a candidate may become a match at any time before its deadline."""
    return _in_join(variant.tree) or any(group.most is not None for group in variant.groups)

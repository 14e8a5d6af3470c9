"""NEXT and FOLD, Cayuga's `;` and μ: the soonest that satisfies the braces, and iterations of it.

A *seeker* looks for its successor: it is a match of the left operand, or an iteration so far. What
is soonest is known when the watermark is at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count, groupby

from broker.pattern.groups import rank
from broker.pattern.instances import (
    END,
    Arrived,
    Instance,
    Row,
    Tuples,
    common,
    due_beyond,
    several_of,
    together,
)
from broker.pattern.plan import Conjunct, Fold, Next, Unit
from broker.pattern.pool import Pool, Wanted
from broker.pattern.seekers import Seeker, Seekers, Successor, tie_of
from broker.pattern.setting import Setting
from broker.pattern.values import Scope


class _Soonest:
    """What NEXT and FOLD have in common: seekers, and what may succeed them. `conjuncts` are those
    that a successor must satisfy."""

    def __init__(
        self, left: Unit, right: Unit, conjuncts: Sequence[Conjunct], setting: Setting
    ) -> None:
        self._left = setting.unit(left)
        self._unit = right
        self._right = None if right.depends else setting.unit(right)
        self._pool = Pool()
        partitioned = bool(setting.plan.query.partition)
        self._seekers = Seekers(tie_of(left, right, conjuncts), partitioned)
        if self._seekers.path is not None:
            self._pool.index(self._seekers.path, self._seekers.variable)
        self._setting = setting
        self._number = count()
        self._due: list[tuple[int, int, Seeker]] = []
        """Seekers by when something of them is decided, or they are over."""
        self._rows: dict[int, list[Row]] = {}
        """All rows, where successors depend on where they may begin."""

    def advance(self, arrived: Arrived, watermark: int | None) -> list[Instance]:
        begun = [self._begin(left) for left in self._left.advance(arrived, watermark)]
        if self._right is None:
            for tap, rows in arrived.items():
                self._rows.setdefault(tap, []).extend(rows)
            for seeker in self._seekers:
                assert seeker.own is not None
                self._offer(seeker, seeker.own.advance(arrived, watermark))
        else:
            new = self._right.advance(arrived, watermark)
            for seeker, instances in self._seekers.sought(new):
                self._offer(seeker, instances)
            self._pool.add(new)
        for seeker in begun:
            self._seek(seeker, watermark)
        found: list[Instance] = []
        while watermark is not None and self._due and self._due[0][0] <= 2 * watermark:
            _, _, seeker = heappop(self._due)
            if seeker not in self._seekers:
                continue
            for each in self._settled(seeker, watermark, found):
                self._seek(each, watermark)
            if self._is_over(seeker, watermark):
                self._seekers.remove(seeker)
        return found

    def _begin(self, left: Instance) -> Seeker:
        raise NotImplementedError

    def _last(self, seeker: Seeker) -> int | None:
        """The latest end of what may succeed a seeker, None for no bound."""
        return None

    def _seek(self, seeker: Seeker, watermark: int | None) -> None:
        """Offer a new seeker what is there."""
        self._seekers.add(seeker)
        last = self._last(seeker)
        if last is not None:
            self._look_again(seeker, due_beyond(last))
        self._offer(seeker, self._known(seeker, watermark))

    def _known(self, seeker: Seeker, watermark: int | None) -> Iterable[Instance]:
        """What is there that may succeed a new seeker."""
        if self._right is None:
            seeker.own = self._setting.unit(self._unit, seeker.end, seeker.keys)
            return seeker.own.advance(self._rows, watermark)
        values = self._seekers.values(seeker)
        if values is None:
            return self._pool.find(Wanted(seeker.end))
        return self._pool.find(Wanted(seeker.end, None, self._seekers.path, values))

    def _look_again(self, seeker: Seeker, due: int) -> None:
        heappush(self._due, (due, next(self._number), seeker))

    def _offer(self, seeker: Seeker, instances: Iterable[Instance]) -> None:
        """Keep those of the instances that are the soonest so far."""
        for each in self._sooner(seeker, instances):
            end = each.instance.end
            if seeker.soonest_end is None or end < seeker.soonest_end:
                self._seekers.found(seeker, end)
                self._look_again(seeker, due_beyond(end))
            if end == seeker.soonest_end:
                seeker.soonest.append(each)
                self._look_again(seeker, each.due(seeker))

    def _sooner(self, seeker: Seeker, instances: Iterable[Instance]) -> Iterator[Successor]:
        """What may succeed a seeker among instances, unless it has a sooner one meanwhile."""
        soonest = seeker.soonest_end
        ordered = [
            each
            for each in instances
            if each.start > seeker.end and (soonest is None or each.end <= soonest)
        ]
        if len(ordered) > 1:
            ordered.sort(key=lambda each: (each.order, rank(each)))
        for _, group in groupby(ordered, key=lambda each: [row.key for row in each.rows]):
            same = list(group)
            if seeker.soonest_end is not None and same[0].last > seeker.soonest_end:
                break  # they come in the order of their last documents, and none ends before it
            yield from self._passing(seeker, same)

    def _passing(self, seeker: Seeker, same: Sequence[Instance]) -> list[Successor]:
        raise NotImplementedError

    def _common(self, seeker: Seeker, instance: Instance) -> tuple[bool, Tuples]:
        self._setting.spend()
        if not seeker.keys.isdisjoint(instance.keys):
            return False, None
        both = common(seeker.tuples, instance.tuples)
        return both is None or bool(both), both

    def _settled(
        self, seeker: Seeker, watermark: int | None, found: list[Instance]
    ) -> list[Seeker]:
        """Adds the matches of a seeker that are decided; returns the seekers that they are."""
        following: list[Seeker] = []
        if watermark is None or seeker.soonest_end is None:
            return following
        for each in seeker.soonest:
            if id(each) in seeker.given or each.due(seeker) > 2 * watermark:
                continue
            seeker.given.add(id(each))
            if each.goes:
                instance, after = self._made(seeker, each)
                found.append(instance)
                if after is not None:
                    following.append(after)
        return following

    def _made(self, seeker: Seeker, successor: Successor) -> tuple[Instance, Seeker | None]:
        raise NotImplementedError

    def _is_over(self, seeker: Seeker, watermark: int | None) -> bool:
        """Whether nothing can succeed it any more."""
        if watermark is None:
            return False
        if seeker.soonest_end is None:
            last = self._last(seeker)
            return last is not None and watermark > last
        return watermark > seeker.soonest_end and len(seeker.given) == len(seeker.soonest)

    def due(self) -> int:
        sources = [self._left]
        if self._right is None:  # only then do seekers have sources of their own
            sources += [seeker.own for seeker in self._seekers if seeker.own is not None]
        else:
            sources.append(self._right)
        found = min([source.due() for source in sources])
        return min(found, self._due[0][0]) if self._due else found

    def expire(self, horizon: int) -> None:
        self._left.expire(horizon)
        if self._right is not None:
            self._right.expire(horizon)
        self._pool.expire(horizon)
        for seeker in [*self._seekers]:
            if seeker.end < horizon:
                self._seekers.remove(seeker)
            elif seeker.own is not None:
                seeker.own.expire(horizon)
        self._rows = {
            tap: [row for row in rows if row.end >= horizon] for tap, rows in self._rows.items()
        }

    def waiting(self) -> Iterator[tuple[int, Instance]]:
        """Also what an operand waits for by itself, where there is something to go with it."""
        for seeker in self._seekers:
            for each in seeker.soonest:
                if id(each) not in seeker.given and each.goes:
                    instance, after = self._made(seeker, each)
                    yield instance.due, instance
                    if after is not None:
                        yield from self._ahead(after)
            if seeker.own is not None:
                yield from seeker.own.waiting()
        for due, left in self._left.waiting():
            if self._right is None or any(self._pool.find(Wanted(left.end))):
                yield from self._would_be(due, left)

    def _would_be(self, due: int, left: Instance) -> Iterator[tuple[int, Instance]]:
        """What something that the left operand waits for would be, when it is decided."""
        yield due, left

    def _ahead(self, seeker: Seeker) -> Iterator[tuple[int, Instance]]:
        """What a seeker that may be one would find, and what that would, if nothing else came."""
        seekers = [seeker]
        while seekers:
            seeker = seekers.pop()
            for each in self._sooner(seeker, self._known(seeker, END)):
                if seeker.soonest_end != each.instance.end:
                    seeker.soonest_end, seeker.soonest = each.instance.end, []
                seeker.soonest.append(each)
            for each in seeker.soonest:
                if each.goes:
                    instance, after = self._made(seeker, each)
                    yield instance.due, instance
                    if after is not None:
                        seekers.append(after)


class NextRunner(_Soonest):
    """`left NEXT {p, T} right`."""

    def __init__(self, item: Next, setting: Setting) -> None:
        super().__init__(item.left, item.right, item.conjuncts, setting)
        self._item = item

    def _begin(self, left: Instance) -> Seeker:
        return Seeker(left, (), left.end, left.keys, left.tuples, left.computed)

    def _last(self, seeker: Seeker) -> int | None:
        window = self._item.window
        if window is None:
            return None
        return (seeker.left.end if self._item.after else seeker.left.start) + window

    def _passing(self, seeker: Seeker, same: Sequence[Instance]) -> list[Successor]:
        item, left = self._item, seeker.left
        found = []
        for right in same:
            agrees, both = self._common(seeker, right)
            if not agrees:
                continue
            length = max(left.end, right.end) - min(left.start, right.start)
            bound = right.end - left.end if item.after else length
            if item.window is not None and bound > item.window:
                continue
            scope = Scope(
                {**left.single, **right.single},
                {**left.several, **right.several},
                {**left.computed, **right.computed},
                length=length,
            )
            if _all(item.conjuncts, scope):
                found.append(Successor(right, both, scope))
        return found

    def _made(self, seeker: Seeker, successor: Successor) -> tuple[Instance, Seeker | None]:
        instances = [seeker.left, successor.instance]
        return together(instances, successor.tuples, successor.due(seeker)), None

    def _would_be(self, due: int, left: Instance) -> Iterator[tuple[int, Instance]]:
        if self._right is None:
            yield due, left
            return
        seeker = self._begin(left)
        known = sorted(self._pool.find(Wanted(left.end)), key=_end)
        for _, same in groupby(known, key=_end):
            passing = self._passing(seeker, [*same])
            for each in passing:
                yield max(due, each.due(seeker)), self._made(seeker, each)[0]
            if passing:
                return


class FoldRunner(_Soonest):
    """`left FOLD {filter, proceed, …} right`."""

    def __init__(self, item: Fold, setting: Setting) -> None:
        super().__init__(item.left, item.right, item.filter, setting)
        self._item = item

    def _begin(self, left: Instance) -> Seeker:
        scope = Scope(left.single, left.several, left.computed, length=left.span)
        computed = {step.variable: step.initial(scope) for step in self._item.steps}
        return Seeker(left, (), left.end, left.keys, left.tuples, computed)

    def _last(self, seeker: Seeker) -> int | None:
        within = self._item.within
        return None if within is None else seeker.left.start + within

    def _would_be(self, due: int, left: Instance) -> Iterator[tuple[int, Instance]]:
        for own, instance in self._ahead(self._begin(left)):
            yield max(due, own), instance

    def _scope(self, seeker: Seeker, instance: Instance) -> Scope:
        left = seeker.left
        several: dict[str, Sequence[Row | None]] = dict.fromkeys(instance.single, ())
        several.update(several_of(seeker.taken))
        start = min([left.start, *[each.start for each in seeker.taken], instance.start])
        end = max([left.end, *[each.end for each in seeker.taken], instance.end])
        return Scope(
            left.single,
            {**left.several, **several},
            {**left.computed, **seeker.computed},
            instance.single,
            end - start,
        )

    def _passing(self, seeker: Seeker, same: Sequence[Instance]) -> list[Successor]:
        passing: list[Successor] = []
        last = self._last(seeker)
        for each in same:
            if last is not None and each.end > last:
                continue
            agrees, both = self._common(seeker, each)
            if not agrees:
                continue
            scope = self._scope(seeker, each)
            if not _all(self._item.filter, scope):
                continue
            successor = Successor(each, both, scope, _all(self._item.proceed, scope))
            if successor.goes:
                return [successor]
            passing.append(successor)
        return passing[:1]

    def _made(self, seeker: Seeker, successor: Successor) -> tuple[Instance, Seeker | None]:
        left, steps = seeker.left, (*seeker.taken, successor.instance)
        values = {step.variable: step.value(successor.scope) for step in self._item.steps}
        due = successor.due(seeker)
        instance = Instance(
            min([left.start, *[each.start for each in steps]]),
            max([left.end, *[each.end for each in steps]]),
            min([left.first, *[each.first for each in steps]]),
            max([left.last, *[each.last for each in steps]]),
            due,
            {**left.parts, self._item.slot: steps},
            seeker.keys | successor.instance.keys,
            successor.tuples,
            left.single,
            {**left.several, **several_of(steps)},
            {**left.computed, **values},
        )
        following = Seeker(
            left, steps, successor.instance.end, instance.keys, successor.tuples, values
        )
        return instance, following


def _end(instance: Instance) -> int:
    return instance.end


def _all(conjuncts: Sequence[Conjunct], scope: Scope) -> bool:
    return all(each.holds(scope) for each in conjuncts)

"""FOLD in the order of time: what comes next is what all iterations go on with, or end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import count

from broker.pattern.in_order.asking import all_hold, beyond
from broker.pattern.in_order.following import Made
from broker.pattern.in_order.forms import Iterated
from broker.pattern.in_order.held import Held
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, Row, due_from, of_row
from broker.pattern.values import Scope


class Iterates:
    """FOLD for one query. Rows come in the order of their ends; those of one document in the order
    of their nodes."""

    def __init__(self, form: Iterated, spending: Spending, once: bool = False) -> None:
        self._form = form
        self._spending = spending
        self._once = once
        """Whether no iteration goes on from what is made here."""
        self._buckets: dict[object, _Running] = {}
        self._number = count()

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def take(self, place: int, row: Row, found: list[Made], asks: bool = True) -> None:
        if place:
            self._follow(row, found, asks)
        else:
            self._begin(row)

    def _begin(self, row: Row) -> None:
        form = self._form
        tie = form.asked.tie
        single = dict.fromkeys(row.nodes, row)
        scope = Scope(single, length=row.end - row.start)
        computed = {step.variable: step.initial(scope) for step in form.steps}
        held = self._held(row, (), row.end, computed, frozenset([row.key]))
        key = tie and row.values[tie.waits][0]
        running = self._buckets.get(key)
        if running is None:
            running = self._buckets[key] = _Running()
        running.add(held)

    def _held(
        self,
        row: Row,
        taken: tuple[Instance, ...],
        end: int,
        computed: Mapping[str, object],
        keys: frozenset[int],
    ) -> Held:
        form = self._form
        bounds: tuple[float | None, ...] = ()
        if form.going:
            scope = self._scope(row, taken, computed, {}, 0)
            bounds = tuple([going.state(scope) for going in form.going])
        return Held(
            *(row, end, form.last(row), next(self._number), 0.0),
            *(bounds, taken, computed, keys),
        )

    def _scope(
        self,
        row: Row,
        taken: Sequence[Instance],
        computed: Mapping[str, object],
        current: Mapping[str, Row],
        length: int,
    ) -> Scope:
        rows = _rows(taken)
        several = dict.fromkeys(self._form.right.variables, rows)
        single = dict.fromkeys(row.nodes, row)
        return Scope(single, several, computed, current, length)

    def _follow(self, row: Row, found: list[Made], asks: bool) -> None:
        form = self._form
        key = form.asked.tie and row.values[form.asked.tie.comes][0]
        running = self._buckets.get(key)
        if running is None:
            return
        running.forget(row.end)
        asked = form.asked
        filters = [bound.comes(row) for bound in asked.bounds]
        numbers = [going.comes(row) for going in form.going]
        for held in running.may_seek():
            if held.end >= row.start or held.by == row.doc:
                continue
            if held.last < row.end:
                running.remove(held)
                continue
            self._spending.spend()
            if row.key in held.keys:
                continue
            if asked.bounds and not self._filtered(held, filters):
                continue
            if asked.rest and not all_hold(asked.rest, self._new(held, row)):
                continue
            running.feed(held, row.end)
            if not beyond(form.going, numbers, held.bounds):
                continue
            if form.proceed and not all_hold(form.proceed, self._new(held, row)):
                continue
            held.by = row.doc
            self._go(held, row, running, found, asks)
        if not running:
            del self._buckets[key]

    def _filtered(self, held: Held, numbers: Sequence[float]) -> bool:
        own = [bound(held.row) for bound in self._form.asked.held]
        return beyond(self._form.asked.bounds, numbers, own)

    def _new(self, held: Held, row: Row) -> Scope:
        current = dict.fromkeys(row.nodes, row)
        length = max(held.end, row.end) - min(held.row.start, row.start, *_starts(held))
        return self._scope(held.row, held.taken, held.computed, current, length)

    def _go(self, held: Held, row: Row, running: _Running, found: list[Made], asks: bool) -> None:
        form, left = self._form, held.row
        computed: Mapping[str, object] = {}
        if form.steps:
            scope = self._new(held, row)
            computed = {step.variable: step.value(scope) for step in form.steps}
        taken = (*held.taken, of_row(form.right.slot, row))
        keys = held.keys | {row.key}
        if not self._once:
            running.add(self._held(left, taken, row.end, computed, keys))
        start = min(left.start, row.start, *_starts(held))
        if form.within is not None and row.end - start > form.within:
            return
        rows = _rows(taken)
        several = dict.fromkeys(row.nodes, rows)
        single = dict.fromkeys(left.nodes, left)
        if asks and form.where:
            scope = Scope(single, several, computed, length=row.end - start)
            if not all_hold(form.where, scope):
                return
        made = Instance(
            *(start, row.end, start, row.end, due_from(row.end)),
            {form.left.slot: left, form.slot: taken},
            keys,
            *(None, single, several, computed),
        )
        found.append((held.number, made))

    def expire(self, watermark: int) -> None:
        for key, running in [*self._buckets.items()]:
            running.forget(watermark)
            for held in [*running.hungry.values()]:
                if held.last < watermark:
                    running.remove(held)
            if not running:
                del self._buckets[key]

    def trial(self, spending: Spending) -> Iterates:
        found = Iterates(self._form, spending, once=True)
        found._number = copy(self._number)
        for key, running in self._buckets.items():
            own = found._buckets[key] = _Running()
            own.at = running.at
            own.fed = {held.number: copy(held) for held in running.fed.values()}
            own.hungry = {held.number: copy(held) for held in running.hungry.values()}
        return found

    def due(self) -> int | None:
        return None

    def settle(self, watermark: int, found: list[Made]) -> None:
        """Nothing is decided by time alone."""


class _Running:
    """Iterations by one value of the tie, by their numbers: those that wait for what comes next,
    and those that came to it at the time `at`."""

    __slots__ = ("at", "fed", "hungry")

    def __init__(self) -> None:
        self.hungry: dict[int, Held] = {}
        self.fed: dict[int, Held] = {}
        self.at = 0

    def __bool__(self) -> bool:
        return bool(self.hungry or self.fed)

    def add(self, held: Held) -> None:
        self.hungry[held.number] = held

    def remove(self, held: Held) -> None:
        self.hungry.pop(held.number, None)
        self.fed.pop(held.number, None)

    def feed(self, held: Held, time: int) -> None:
        if self.hungry.pop(held.number, None) is not None:
            self.at = time
            self.fed[held.number] = held

    def forget(self, time: int) -> None:
        if self.fed and self.at < time:
            self.fed = {}

    def may_seek(self) -> list[Held]:
        return [*self.fed.values(), *self.hungry.values()]


def _starts(held: Held) -> list[int]:
    return [each.start for each in held.taken]


def _rows(taken: Sequence[Instance]) -> list[Row | None]:
    """The documents of what was taken, each of one block."""
    return [row for each in taken for row in each.rows]

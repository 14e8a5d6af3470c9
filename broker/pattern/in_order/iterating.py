"""FOLD in the order of time: what comes next is what all iterations go on with, or end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import count
from math import ceil
from typing import Any

from broker.pattern.in_order.asking import all_hold, beyond
from broker.pattern.in_order.common import Begun, Runs
from broker.pattern.in_order.events import Candidate, Event, Key
from broker.pattern.in_order.forms import Iterated
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.partitions import agreed, keys_in
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, Row, Tuples, common, due_from, of_row
from broker.pattern.trying import TooMuch
from broker.pattern.values import Scope
from xscl.interruption import PENDING, check


class Iterates(Owned["Runs | Apart"]):
    """FOLD for all queries of a form. Rows come in the order of their ends; those of one document
    in the order of their nodes."""

    def __init__(self, form: Iterated, spending: Spending) -> None:
        super().__init__(spending)
        self._form = form
        self._number = count(FOR_EVER)
        self._least = 1
        """So many documents are taken in a match, or more, where iterations share them."""
        if form.common is not None and form.common.counts is not None:
            self._least = ceil(min(form.common.counts[0], FOR_EVER))

    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in the order of time. Adds the matches that they complete."""
        parts, over, within, least = self.parts, self.over, self._form.within, self._least
        partitioned = self._form.partitioned
        for _, arrival, place, owner, key, number, row in events:
            if PENDING:
                check()
            own = key
            if partitioned:
                keys = keys_in(key, row.tuples)
                if len(keys) != 1:
                    self._take_several(place, owner, keys, row, found)
                    continue
                own = keys[0]
            part = parts.get(own)
            if not place:
                if type(part) is Runs:
                    last = FOR_EVER if within is None else row.start + within
                    part.fresh.append((arrival, row, number, last))
                else:
                    self._begin(part, owner, own, arrival, number, row)
            elif part is not None and not (over and owner in over):
                count = part.follow(row, number) if type(part) is Runs else None
                if count is None or count >= least:
                    self._go_on(part, own, owner, count, row, found)

    def _go_on(
        self,
        part: Runs | Apart,
        key: Key,
        owner: int,
        count: int | None,
        row: Row,
        found: list[Candidate],
    ) -> None:
        """A document has come that iterations of a part may take. Those that share what they take
        may have taken `count` of them; None: they share nothing, or no more."""
        spending = self._spending
        try:
            if count is not None:
                assert type(part) is Runs
                spending.renew()
                for (number, left, _, _), taken in part.matches():
                    spending.spend()
                    found.append((owner, number, left, taken, {}))
                return
            if type(part) is Runs:
                self.parts[key] = self._apart(part)
            self._follow(key, owner, row, found)
        except TooMuch:
            self.over.add(owner)

    def _take_several(
        self, place: int, owner: int, keys: Sequence[Key], row: Row, found: list[Candidate]
    ) -> None:
        """A row of several partitions, or of none: what iterates there is common no more."""
        for key in keys:
            part = self.parts.get(key)
            if type(part) is Runs:
                self.parts[key] = self._apart(part)
            elif part is None and not place:
                self.open(owner, key, Apart())
        if not place:
            held = self._held(
                row, (), row.end, self._initial(row), frozenset([row.key]), row.tuples
            )
            for key in keys:
                self._apart_in(key).add(held)
            return
        try:
            for key in keys:
                if key in self.parts and owner not in self.over:
                    self._follow(key, owner, row, found)
        except TooMuch:
            self.over.add(owner)

    def _apart_in(self, key: Key) -> Apart:
        part = self.parts[key]
        assert isinstance(part, Apart)
        return part

    def _apart_of(self, key: Key, held: Held) -> list[Apart]:
        """Where an iteration of a part waits: there, and in its other partitions."""
        if held.tuples is None or len(held.tuples) == 1:
            return [self._apart_in(key)]
        return [self._apart_in(own) for own in keys_in(key[0], held.tuples)]

    def _begin(
        self,
        part: Runs | Apart | None,
        owner: int,
        key: Key,
        arrival: int,
        number: float,
        row: Row,
    ) -> None:
        """An iteration begins, of a key whose iterations share nothing yet."""
        if not part and self._form.common is not None:
            runs = Runs(self._form.common)
            runs.fresh.append((arrival, row, number, self._form.last(row)))
            if part is None:
                self.open(owner, key, runs)
            else:
                self.parts[key] = runs
            return
        apart = self.open(owner, key, Apart()) if part is None else part
        assert isinstance(apart, Apart)
        keys = frozenset([row.key])
        apart.add(self._held(row, (), row.end, self._initial(row), keys, row.tuples))

    # -- those that share nothing ------------------------------------------------------------------

    def _apart(self, runs: Runs) -> Apart:
        """The same iterations, each by itself."""
        found = Apart()
        found.at = runs.at
        for begun, taken, saw, by in runs.states():
            held = self._of(begun, taken)
            if saw:
                held.by = by
                found.fed[held.number] = held
            else:
                found.add(held)
        return found

    def _of(self, begun: Begun, taken: Sequence[Row]) -> Held:
        left = begun[1]
        instances = tuple([of_row(self._form.right.slot, row) for row in taken])
        keys = frozenset([left.key, *[row.key for row in taken]])
        end = (taken[-1] if taken else left).end
        return self._held(left, instances, end, {}, keys, left.tuples)

    def _initial(self, row: Row) -> Mapping[str, object]:
        if not self._form.steps:
            return {}
        scope = Scope(dict.fromkeys(row.nodes, row), length=row.end - row.start)
        return {step.variable: step.initial(scope) for step in self._form.steps}

    def _held(
        self,
        row: Row,
        taken: tuple[Instance, ...],
        end: int,
        computed: Mapping[str, object],
        keys: frozenset[int],
        tuples: Tuples,
    ) -> Held:
        form = self._form
        bounds: tuple[float | None, ...] = ()
        if form.going:
            scope = self._scope(row, taken, computed, {}, 0)
            bounds = tuple([going.state(scope) for going in form.going])
        last, number = form.last(row), next(self._number)
        return Held(row, end, last, number, bounds, taken, computed, keys, tuples)

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

    def _follow(self, key: Key, owner: int, row: Row, found: list[Candidate]) -> None:
        """Feed a document to all of a part that seek one."""
        form, spending, part = self._form, self._spending, self._apart_in(key)
        part.forget(row.end)
        spending.renew()
        asked = form.asked
        filters = [bound.comes(row) for bound in asked.bounds]
        numbers = [going.comes(row) for going in form.going]
        for held in part.may_seek():
            if held.end >= row.start or held.by == row.doc:
                continue
            if held.last < row.end:
                part.remove(held)
                continue
            spending.spend()
            if row.key in held.keys:
                continue
            if asked.bounds and not self._filtered(held, filters):
                continue
            if asked.rest and not all_hold(asked.rest, self._new(held, row)):
                continue
            for each in self._apart_of(key, held):
                each.feed(held, row.end)
            if not beyond(form.going, numbers, held.bounds):
                continue
            if form.proceed and not all_hold(form.proceed, self._new(held, row)):
                continue
            held.by = row.doc
            self._go(key, held, owner, row, found)

    def _filtered(self, held: Held, numbers: Sequence[float]) -> bool:
        own = [bound(held.row) for bound in self._form.asked.held]
        return beyond(self._form.asked.bounds, numbers, own)

    def _new(self, held: Held, row: Row) -> Scope:
        current = dict.fromkeys(row.nodes, row)
        length = max(held.end, row.end) - min(held.row.start, row.start, *_starts(held.taken))
        return self._scope(held.row, held.taken, held.computed, current, length)

    def _go(self, key: Key, held: Held, owner: int, row: Row, found: list[Candidate]) -> None:
        form, left = self._form, held.row
        computed: Mapping[str, object] = {}
        if form.steps:
            scope = self._new(held, row)
            computed = {step.variable: step.value(scope) for step in form.steps}
        taken = (*held.taken, of_row(form.right.slot, row))
        keys, tuples = held.keys | {row.key}, common(held.tuples, row.tuples)
        longer = self._held(left, taken, row.end, computed, keys, tuples)
        for each in self._apart_of(key, longer):
            each.add(longer)
        rows = [each.parts[form.right.slot] for each in taken]
        found.append((owner, held.number, left, rows, computed))

    # -- matches -----------------------------------------------------------------------------------

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is, if it is one."""
        form = self._form
        left: Row = candidate[2]
        rows: list[Row] = candidate[3]
        computed: Mapping[str, object] = candidate[4]
        start, end = min(left.start, *[row.start for row in rows]), rows[-1].end
        if form.within is not None and end - start > form.within:
            return None
        several: dict[str, Sequence[Row | None]] = dict.fromkeys(rows[-1].nodes, rows)
        single = dict.fromkeys(left.nodes, left)
        counts = None if form.common is None else form.common.counts
        if counts is not None:
            if not counts[0] <= len(rows) <= counts[1]:
                return None
        elif form.where:
            scope = Scope(single, several, computed, length=end - start)
            if not all_hold(form.where, scope):
                return None
        return Instance(
            *(start, end, start, end, due_from(end)),
            {form.left.slot: left, form.slot: tuple([of_row(form.right.slot, r) for r in rows])},
            frozenset([left.key, *[row.key for row in rows]]),
            *(agreed((left, *rows)) if form.partitioned else None, single, several, computed),
        )

    def expire(self, watermark: int) -> None:
        for part in self.parts.values():
            part.expire(watermark)
        self.sweep()

    def borrow(self, other: Owned[Any], owner: int) -> None:
        assert isinstance(other, Iterates)
        super().borrow(other, owner)
        self._number = copy(other._number)

    def copied(self, part: Runs | Apart) -> Runs | Apart:
        if isinstance(part, Runs):
            part = self._apart(part)
        found = Apart()
        found.at = part.at
        found.fed = {held.number: copy(held) for held in part.fed.values()}
        found.hungry = {held.number: copy(held) for held in part.hungry.values()}
        return found


@dataclass(slots=True, eq=False)
class Held:
    """An iteration that shares nothing with others: the document `row`, the `taken` ones, and its
    `computed` values. It ends at `end`; nothing that ends after `last` concerns it.

    `number` is its place in the order of arrival, `bounds` are the numbers that what comes is
    compared with, None for one that is not asked. `keys` are those of its documents, `tuples` what
    these have in PARTITION BY; `by` is the last document that it went on with.
    """

    row: Row
    end: int
    last: int
    number: int
    bounds: tuple[float | None, ...]
    taken: tuple[Instance, ...]
    computed: Mapping[str, Any]
    keys: frozenset[int]
    tuples: Tuples
    by: int | None = None


class Apart:
    """Iterations of one key by their numbers: those that wait for what comes next, and those that
    came to it at the time `at`."""

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
        self.forget(time)
        if self.hungry.pop(held.number, None) is not None:
            self.at = time
            self.fed[held.number] = held

    def forget(self, time: int) -> None:
        if self.fed and self.at < time:
            self.fed = {}

    def may_seek(self) -> list[Held]:
        return [*self.fed.values(), *self.hungry.values()]

    def expire(self, watermark: int) -> None:
        """Drop the iterations that can take nothing any more."""
        self.forget(watermark)
        for held in [*self.hungry.values()]:
            if held.last < watermark:
                self.remove(held)


def _starts(taken: Sequence[Instance]) -> list[int]:
    return [each.start for each in taken]


def _rows(taken: Sequence[Instance]) -> list[Row | None]:
    """The documents of what was taken, each of one block."""
    return [row for each in taken for row in each.rows]

"""Groups in the order of time: what stands between two documents, as much as can be taken, or each
run of so many.

Which elements follow a document does not depend on what ends the group, so they are taken once for
all that does: as far as it stands behind them, and not before anything comes that needs them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from broker.pattern.in_order.asking import all_hold, beyond
from broker.pattern.in_order.events import SECOND, Candidate, Event, Key
from broker.pattern.in_order.group_forms import Grouping
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.partitions import agreed, first_in, keys_in
from broker.pattern.in_order.run_checks import NOTHING, Checks, Sums, added
from broker.pattern.in_order.run_forms import slots_of
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import (
    Instance,
    OfGroups,
    Row,
    Tuples,
    common,
    due_beyond,
    due_from,
)
from broker.pattern.trying import TooMuch
from broker.pattern.values import Scope
from xscl.interruption import PENDING, check

_ELEMENT = 1
"""The place of elements in the form, and their item."""


class _Begun:
    """A document and the elements that it has taken, of those before the place `at`; `keys` are
    those of its documents, `last` is the latest end of a match, `of` where it stands. `tuples` are
    those of PARTITION BY that all of them have, where these are several."""

    __slots__ = ("at", "keys", "last", "number", "of", "row", "sums", "taken", "tuples")

    def __init__(self, of: _Between, row: Row, number: int, last: int, sums: Sums) -> None:
        self.of = of
        self.row = row
        self.number = number
        self.last = last
        self.at = 0
        self.taken: tuple[Row, ...] = ()
        self.sums = sums
        self.keys = {row.key}
        self.tuples: Tuples = None


class _Between:
    """What began, in order of its end, and what may be elements, in the order of documents."""

    __slots__ = ("begun", "rows")

    def __init__(self) -> None:
        self.begun: list[_Begun] = []
        self.rows: list[Row] = []

    def __bool__(self) -> bool:
        return bool(self.begun)

    def add(self, row: Row) -> None:
        rows = self.rows
        if not rows or rows[-1].end < row.end:
            rows.append(row)
        else:
            rows.insert(bisect_right(rows, _rank(row), key=_rank), row)

    def shrink(self, watermark: int) -> None:
        """Drop what nothing can stand behind any more, and elements that are before the rest."""
        self.begun = [each for each in self.begun if each.last >= watermark]
        if not self.begun:
            self.rows = []
            return
        first = self.begun[0].row.end
        gone = bisect_right(self.rows, first, key=_end)
        if gone:
            del self.rows[:gone]
            for each in self.begun:
                each.at = max(0, each.at - gone)


def _end(row: Row) -> int:
    return row.end


def _rank(row: Row) -> tuple[Any, ...]:
    """The order of documents, and of the rows of one."""
    nodes = [row.nodes[name] for name in sorted(row.nodes)]
    return (row.end, row.start, row.id, row.node, *nodes)


_Deadline = tuple[int, int, int, Key, _Begun]
"""Twice the watermark that decides it, its number, its query, its key and what began."""


def _is_there(begun: _Begun, row: Row) -> bool:
    """Whether no run can contain a document, as it is that before the group, or the last one that
    was taken. A run that begins behind one may contain another version of it."""
    if row.key == begun.row.key:
        return True
    return bool(begun.taken) and begun.taken[-1].doc == row.doc


def _runs(rows: Sequence[Row], least: int, most: int, tuples: Tuples) -> Iterator[tuple[Row, ...]]:
    """Each run of `most` of these documents, all of them others, that have some of these tuples in
    common; and that from the first one, if it has at least `least`."""
    if not rows and not least:
        yield ()
    for first in range(len(rows)):
        if first and len(rows) - first < most:
            return
        run: list[Row] = []
        keys: set[int] = set()
        agreed_on = tuples
        for row in rows[first:]:
            both = None if agreed_on is None else common(agreed_on, row.tuples)
            if row.key in keys or (both is not None and not both):
                continue
            run.append(row)
            keys.add(row.key)
            agreed_on = both
            if len(run) == most:
                break
        if len(run) == most or (not first and len(run) >= least):
            yield tuple(run)


class Groups(Owned[_Between]):
    """Longest groups for all queries of a form. Rows of what comes behind come in the order of
    their starts, all others in that of their ends."""

    def __init__(self, form: Grouping, spending: Spending) -> None:
        super().__init__(spending)
        self._form = form
        checks = Checks(form.places)
        self._each = [checks.element(_ELEMENT, each) for each in form.elements]
        self._first = [checks.first(each) for each in form.first]
        self._texts = checks.texts[_ELEMENT]
        self._nothing = (NOTHING,) * len(self._texts)
        self._whole = (*form.paired.rest, *form.whole)
        """What is asked of a match."""
        self._slots = slots_of(form.places)
        self._deadlines: list[_Deadline] = []
        """Where the group stands at the end."""

    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in the order of time. Adds the matches that they complete."""
        parts, over, spending = self.parts, self.over, self._spending
        partitioned = self._form.partitioned
        for _, arrival, place, owner, key, _, row in events:
            if PENDING:
                check()
            for own in keys_in(key, row.tuples) if partitioned else (key,):
                if not place:
                    self._begin(owner, own, arrival, row)
                    continue
                part = parts.get(own)
                if part is None:
                    continue
                if place != SECOND:
                    if part.begun:
                        part.add(row)
                elif not (over and self.is_over(owner, key)):
                    spending.renew()
                    try:
                        self._complete(own, owner, row, found)
                    except TooMuch:
                        over.add(owner)

    def _begin(self, owner: int, key: Key, arrival: int, row: Row) -> None:
        form = self._form
        if row.end - row.start > form.window:
            return
        part = self.parts.get(key)
        if part is None:
            part = self.open(owner, key, _Between())
        begun = _Begun(part, row, arrival, form.last(row), self._nothing)
        begun.at = len(part.rows)  # what comes later does not end before it
        part.begun.append(begun)
        if form.right is None:
            heappush(self._deadlines, (due_beyond(begun.last), arrival, owner, key, begun))

    def _complete(self, key: Key, owner: int, row: Row, found: list[Candidate]) -> None:
        """A document comes that ends groups of a part."""
        form, spending, part = self._form, self._spending, self.parts[key]
        several = form.partitioned and len(row.tuples or ()) > 1
        paired, least, most = form.paired, form.group.least, form.group.most
        numbers = [bound.comes(row) for bound in paired.bounds]
        start, end = row.start, row.end
        tie = paired.tie
        for begun in part.begun:
            left = begun.row
            if left.end >= start:
                break
            if begun.last < end or left.key == row.key:
                continue
            if several and not first_in(key, left.tuples, row.tuples):
                continue
            spending.spend()
            if tie is not None and left.values[tie.waits][0] != row.values[tie.comes][0]:
                continue
            if numbers:
                held = [bound(left) for bound in paired.held]
                if not beyond(paired.bounds, numbers, held):
                    continue
            taken = self._before(key, begun, row, several).taken
            if taken and taken[-1].end >= start:
                taken = taken[: bisect_left(taken, start, key=_end)]
            if most is not None:
                both = common(left.tuples, row.tuples) if several else None
                others = [each for each in taken if each.key != row.key]
                for run in _runs(others, least, most, both):
                    spending.spend()
                    found.append((owner, begun.number, left, run, row, end))
            elif len(taken) >= least:
                found.append((owner, begun.number, left, taken, row, end))

    def _before(self, key: Key, begun: _Begun, row: Row, several: bool) -> _Begun:
        """What began, with what it takes before a document, which is of `several` partitions."""
        both = common(begun.row.tuples, row.tuples) if several else None
        if both is not None and len(both) > 1:
            return self._apart(key, begun, both, row)
        if not self._form.dependent:
            self._extend(begun.of.rows, begun, row)
        if self._form.dependent or row.key in begun.keys:
            return self._apart(key, begun, None, row)
        return begun

    def _apart(self, key: Key, begun: _Begun, tuples: Tuples, behind: Row | None) -> _Begun:
        """What a document takes that is not what it takes for others: for what comes behind it, and
        of several partitions with those tuples."""
        rows = begun.of.rows
        if tuples is not None:
            found = [self.parts.get(own) for own in keys_in(key[0], tuples)]
            several = {id(row): row for part in found if part is not None for row in part.rows}
            rows = sorted(several.values(), key=_rank)
        own = _Begun(begun.of, begun.row, begun.number, begun.last, self._nothing)
        own.tuples = tuples
        if behind is not None:
            own.keys.add(behind.key)
        own.at = bisect_right(rows, begun.row.end, key=_end)
        self._extend(rows, own, behind)
        return own

    def _extend(self, rows: list[Row], begun: _Begun, behind: Row | None) -> None:
        """Take the elements that end before a document starts; None: all of them."""
        at, stop = begun.at, len(rows)
        if behind is not None and stop and rows[-1].end >= behind.start:
            stop = bisect_left(rows, behind.start, key=_end)
        if at >= stop:
            return
        self._spending.spend(stop - at)
        begun.at = stop
        form, each, texts = self._form, self._each, self._texts
        left, keys, taken, sums = begun.row, begun.keys, begun.taken, begun.sums
        end, last = left.end, left.start + form.window
        runs = form.group.most is not None
        for row in rows[at:stop]:
            if row.start <= end or row.end > last:
                continue
            if _is_there(begun, row) if runs else row.key in keys:
                continue
            both = None if begun.tuples is None else common(begun.tuples, row.tuples)
            if both is not None and not both:
                continue
            filled = (left, taken, behind)
            for holds in each:
                if not holds(filled, sums, row):
                    break
            else:
                if taken or self._begins(left, row, behind):
                    taken = begun.taken = (*taken, row)
                    keys.add(row.key)
                    sums = begun.sums = added(sums, texts, row) if texts else sums
                    begun.tuples = begun.tuples if runs else both

    def _begins(self, left: Row, row: Row, behind: Row | None) -> bool:
        """Whether a group may begin with an element."""
        filled = (left, (row,), behind)
        return not self._first or all(holds(filled, (), row) for holds in self._first)

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is, if it is one."""
        form = self._form
        left: Row = candidate[2]
        taken: tuple[Row, ...] = candidate[3]
        right: Row | None = candidate[4]
        start, end = left.start, candidate[5]
        tuples = agreed((left, *taken)) if form.partitioned else None
        if right is None:
            last = (taken[-1] if taken else left).end
            filled: tuple[Row | tuple[Row, ...], ...] = (left, taken)
            made = OfGroups(self._slots, filled, due_beyond(end), tuples, (start, end, last))
        else:
            tuples = common(tuples, right.tuples)
            times = (start, end, right.end)
            made = OfGroups(self._slots, (left, taken, right), due_from(right.start), tuples, times)
        if self._whole:
            scope = Scope(made.single, made.several, length=end - start)
            if not all_hold(self._whole, scope):
                return None
        return made

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int | None:
        """Twice the watermark that decides the first of the groups that stand at the end."""
        while self._deadlines and self._is_gone(self._deadlines[0]):
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _is_gone(self, deadline: _Deadline) -> bool:
        """Whether the query of what had this deadline has gone, or was made again."""
        _, _, _, key, begun = deadline
        part = self.parts.get(key)
        return part is None or begun.of is not part

    def settle(self, watermark: int, found: list[Candidate]) -> None:
        """Add the matches whose deadline is over."""
        while (due := self.due()) is not None and due <= 2 * watermark:
            _, number, owner, key, begun = heappop(self._deadlines)
            if owner in self.over:
                continue
            self._spending.renew()
            tuples = begun.row.tuples if self._form.partitioned else None
            several = tuples is not None and len(tuples) > 1
            if several and not first_in(key, tuples, tuples):
                continue
            try:
                if several:
                    begun = self._apart(key, begun, tuples, None)
                else:
                    self._extend(self.parts[key].rows, begun, None)
            except TooMuch:
                self.over.add(owner)
                continue
            if len(begun.taken) >= self._form.group.least:
                found.append((owner, number, begun.row, begun.taken, None, begun.last))

    def expire(self, watermark: int) -> None:
        """Drop what nothing can stand behind any more."""
        for part in self.parts.values():
            part.shrink(watermark)
        self.sweep()

    def borrow(self, other: Owned[Any], owner: int) -> None:
        assert isinstance(other, Groups)
        super().borrow(other, owner)
        own = self.of(owner)
        twins = {(key, begun.number): begun for key, part in own for begun in part.begun}
        for deadline in other._deadlines:
            due, number, of, key, _ = deadline
            if of == owner and not other._is_gone(deadline):
                heappush(self._deadlines, (due, number, of, key, twins[key, number]))

    def copied(self, part: _Between) -> _Between:
        found = _Between()
        found.rows = [*part.rows]
        for each in part.begun:
            own = _Begun(found, each.row, each.number, each.last, each.sums)
            own.at, own.taken, own.keys = each.at, each.taken, {*each.keys}
            found.begun.append(own)
        return found

"""NOT in the order of time: what waits is forbidden by what comes, or is a match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from heapq import heappop, heappush
from math import inf
from typing import Any

from broker.pattern.in_order.asking import Tie, all_hold, beyond
from broker.pattern.in_order.events import Candidate, Event, Key, tie_of
from broker.pattern.in_order.forms import Lacking
from broker.pattern.in_order.held import Held, Waiting, key_of
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.partitions import keys_in
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, Row, common, due_from, of_blocks
from broker.pattern.trying import TooMuch
from broker.pattern.values import Scope
from xscl.interruption import PENDING, check

ABSENT, SECOND = 1, 2
"""The places of what must not come, and of what must."""


_ALL = (inf, inf)
"""Behind all entries."""


class _Bucket:
    """What waits by one value of the tie. `gone` are those that one document has forbidden, `dead`
    those that more have: they still are matches with what began before, and with the document that
    forbids it itself, in another version. `by` are the keys of documents that forbade, `latest` is
    when the last one did."""

    __slots__ = ("by", "dead", "gone", "latest", "waiting")

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.gone = Waiting()
        self.dead: list[Held] = []
        self.by: set[int | None] = set()
        self.latest = 0

    def __bool__(self) -> bool:
        return bool(self.waiting or self.gone or self.dead)

    def forbid(self, held: Held, row: Row) -> None:
        """Note that a document forbids one."""
        if held.over is None:
            self.waiting.remove(held.entry)
            held.over, held.by = row.end, row.key
            self.gone.add(held.entry)
            self.by.add(row.key)
            self.latest = max(self.latest, row.end)
        elif held.by != row.key:
            self.gone.remove(held.entry)
            held.again = row.end
            self.dead.append(held)

    def stands(self, row: Row) -> Iterator[Held]:
        """Those that nothing forbids with a document at the end."""
        if self.latest >= row.start or row.key in self.by:
            for held in (*self.dead, *[entry[2] for entry in self.gone]):
                over = held.again if held.by == row.key else held.over
                if over is None or over >= row.start:
                    yield held
        yield from [entry[2] for entry in self.waiting]

    def expire(self, watermark: int) -> None:
        """Drop those that are over."""
        for waiting in (self.waiting, self.gone):
            for entry in [*waiting]:
                if entry[2].until < watermark:
                    waiting.remove(entry)
        self.dead = [held for held in self.dead if held.until >= watermark]
        self.by = {held.by for held in (*[entry[2] for entry in self.gone], *self.dead)}

    def copy(self) -> _Bucket:
        found = _Bucket()
        found.by, found.latest = {*self.by}, self.latest
        for own, waiting in ((found.waiting, self.waiting), (found.gone, self.gone)):
            for entry in waiting:
                held = copy(entry[2])
                held.of = found
                own.add(held.entry)
        found.dead = [*self.dead]
        return found

    def find(self, held: Held) -> Held:
        """The copy of what waits in another bucket."""
        (found,) = self._twins(held)
        return found

    def has(self, held: Held) -> bool:
        """Whether the same waits here, and nothing has forbidden it."""
        return any(self._twins(held))

    def _twins(self, held: Held) -> list[Held]:
        key, number, _ = held.entry
        return [each[2] for each in self.waiting.below((key, inf)) if each[1] == number]


_Deadline = tuple[int, int, int, Key, Held]
"""Twice the watermark that decides it, its number, its query, its key and what waits."""


class Lacks(Owned[_Bucket]):
    """NOT for all queries of a form. Rows of what must come at the end come in the order of their
    starts, all others in that of their ends."""

    def __init__(self, form: Lacking, spending: Spending) -> None:
        super().__init__(spending)
        self._form = form
        self._deadlines: list[_Deadline] = []
        """Where the NOT stands at the end."""
        self._tied = tie_of(form, form.asked) is not None
        """Whether one value is that of all three documents."""

    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in the order of time. Adds the matches that they complete."""
        parts, over, spending = self.parts, self.over, self._spending
        partitioned = self._form.partitioned
        for _, arrival, place, owner, key, number, row in events:
            if PENDING:
                check()
            keys = keys_in(key, row.tuples) if partitioned else (key,)
            if not place:
                for own in keys:
                    self._begin(parts.get(own), owner, own, arrival, row)
                continue
            several: list[Candidate] = []
            for own in keys:
                part = parts.get(own)
                if part is None or (over and self.is_over(owner, key)):
                    continue
                spending.renew()
                try:
                    if place == ABSENT:
                        self._forbid(part, row, number)
                    else:
                        self._complete(part, owner, row, found if len(keys) == 1 else several)
                except TooMuch:
                    over.add(owner)
            if several:
                found += _in_all(several)

    def _begin(self, part: _Bucket | None, owner: int, key: Key, arrival: int, row: Row) -> None:
        form = self._form
        window, after = form.windows[1]
        if window is not None and not after and row.end - row.start > window:
            return
        bounds = tuple([bound(row) for bound in form.asked.held])
        held = Held(row, row.end, 0, arrival, key_of(bounds), bounds)
        if form.right is None:
            timing = form.timing(row)
            span = timing.span()
            if span is None:
                return
            held.last = span.end
            heappush(self._deadlines, (timing.due, arrival, owner, key, held))
        else:
            held.last, held.until = form.last(row), form.until(row)
        if part is None:
            part = self.open(owner, key, _Bucket())
        held.of = part
        part.waiting.add(held.entry)

    def _forbid(self, bucket: _Bucket, row: Row, number: float) -> None:
        form, asked = self._form, self._form.asked
        bounds = asked.bounds
        several = [bound.comes(row) for bound in bounds] if len(bounds) > 1 else [number]
        most = (number, inf if bounds[0].inclusive else -1) if bounds else _ALL
        numbers = several if bounds else []
        end, lasts = row.end, form.right is None
        for _, _, held in bucket.waiting.below(most):
            if self._forbids(held, row, numbers):
                bucket.forbid(held, row)
            elif held.until < end and not lasts:
                bucket.waiting.remove(held.entry)  # no match of it can end any more
        if form.right is None:
            bucket.gone = Waiting()
            return
        for _, _, held in bucket.gone.below(most):
            if held.by != row.key and self._forbids(held, row, numbers):
                bucket.forbid(held, row)
            elif held.until < end:
                bucket.gone.remove(held.entry)

    def _forbids(self, held: Held, row: Row, numbers: Sequence[float]) -> bool:
        asked = self._form.asked
        if held.end >= row.start or held.last < row.end or held.row.key == row.key:
            return False
        self._spending.spend()
        return beyond(asked.bounds, numbers, held.bounds) and self._tied_by(
            asked.tie, held.row, row
        )

    def _tied_by(self, tie: Tie | None, one: Row, other: Row) -> bool:
        """Whether two documents have the same value where that is not what finds them."""
        if tie is None or self._tied:
            return True
        return bool(one.values[tie.waits][0] == other.values[tie.comes][0])

    def _complete(self, bucket: _Bucket, owner: int, row: Row, found: list[Candidate]) -> None:
        paired, spending = self._form.paired, self._spending
        numbers = [bound.comes(row) for bound in paired.bounds]
        start, end = row.start, row.end
        for held in bucket.stands(row):
            if held.end >= start or held.until < end:
                continue
            spending.spend()
            if held.row.key == row.key or not self._tied_by(paired.tie, held.row, row):
                continue
            if paired.bounds:
                own = [bound(held.row) for bound in paired.held]
                if not beyond(paired.bounds, numbers, own):
                    continue
            found.append((owner, held.number, held.row, row, 0, 0))

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is, whether it is asked what waits or not."""
        form = self._form
        left: Row = candidate[2]
        right: Row | None = candidate[3]
        last, due = candidate[4:]
        if right is None:
            alone = of_blocks((form.left.slot,), (left,), due, left.tuples, last)
            if form.where and not all_hold(form.where, Scope(alone.single, length=alone.span)):
                return None
            return alone
        assert form.right is not None
        slots, tuples = (form.left.slot, form.right.slot), common(left.tuples, right.tuples)
        made = of_blocks(slots, (left, right), due_from(right.start), tuples)
        rest = form.paired.rest
        if rest and not all_hold(rest, Scope(made.single, length=made.span)):
            return None
        return made

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int | None:
        """Twice the watermark that decides the first of those whose NOT stands at the end."""
        while self._deadlines and self._is_over(self._deadlines[0]):
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _is_over(self, deadline: _Deadline) -> bool:
        """Whether what had this deadline is forbidden, or its query has gone."""
        _, _, _, key, held = deadline
        return held.over is not None or self.parts.get(key) is not held.of

    def settle(self, watermark: int, found: list[Candidate]) -> None:
        """Add the matches whose deadline is over."""
        while (due := self.due()) is not None and due <= 2 * watermark:
            _, number, owner, key, held = heappop(self._deadlines)
            stands = self._stands_in_all(key, held)
            self.parts[key].waiting.remove(held.entry)
            if stands and owner not in self.over:
                found.append((owner, number, held.row, None, held.last, due))

    def _stands_in_all(self, key: Key, held: Held) -> bool:
        """Whether a match is to be made of what stands: that of several partitions stands in all of
        them when it is decided in the first one."""
        if not self._form.partitioned or len(held.row.tuples or ()) == 1:
            return True
        first, *others = keys_in(key[0], held.row.tuples)
        buckets = [self.parts.get(own) for own in others]
        return key == first and all(each is not None and each.has(held) for each in buckets)

    def expire(self, watermark: int) -> None:
        """Drop what nothing can follow any more."""
        if self._form.right is not None:
            for bucket in self.parts.values():
                bucket.expire(watermark)
        self.sweep()

    def borrow(self, other: Owned[Any], owner: int) -> None:
        assert isinstance(other, Lacks)
        super().borrow(other, owner)
        for due, number, of, key, held in other._deadlines:
            if of == owner and not other._is_over((due, number, of, key, held)):
                own = self.parts[key].find(held)
                heappush(self._deadlines, (due, number, of, key, own))

    def copied(self, part: _Bucket) -> _Bucket:
        return part.copy()


def _in_all(several: Sequence[Candidate]) -> Iterator[Candidate]:
    """Of what nothing forbids in some of the partitions of a document, what nothing forbids in any
    that it has in common with it."""
    times = Counter([each[1] for each in several])
    seen: set[int] = set()
    for each in several:
        _, number, left, right, *_ = each
        if number not in seen and times[number] == len(common(left.tuples, right.tuples) or ()):
            yield each
        seen.add(number)

"""NOT in the order of time: what waits is forbidden by what comes, or is a match."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from math import inf
from typing import Any

from broker.pattern.in_order.asking import Tie, all_hold, beyond
from broker.pattern.in_order.events import Candidate, Event, Key, tie_of
from broker.pattern.in_order.forms import Lacking
from broker.pattern.in_order.held import FOR_EVER, Entry, Waiting, key_of, least
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.partitions import keys_in
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, OfRows, Row, common, due_from
from broker.pattern.trying import TooMuch
from broker.pattern.values import Scope
from xscl.interruption import PENDING, check

ABSENT, SECOND = 1, 2
"""The places of what must not come, and of what must."""


_ALL = (inf, inf)
"""Behind all entries."""

_UNTIL = 4
"""The place of the latest end of a match in what waits."""


class _Bucket:
    """What waits by one value of the tie: its bound, its number, the document, the latest end of
    what is forbidden, that of a match, and all bounds.

    `gone` are those that were forbidden, in the order of these times and with the key of what
    forbade them: they still are matches with what began by then, and with a later version of that
    document, for which `by` has them by these keys. `rows` are what came since the first of these
    times, as other documents may forbid them too."""

    __slots__ = ("by", "gone", "rows", "waiting")

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.gone: list[tuple[int, int, Sequence[Entry]]] = []
        self.by: dict[int, Sequence[Entry]] = {}
        self.rows: list[Row] = []

    def __bool__(self) -> bool:
        return bool(self.waiting.blocks or self.gone)

    def note(self, fed: Sequence[Entry], row: Row) -> None:
        """Note which ones a document forbade, if any, and that it came."""
        if fed:
            self.gone.append((row.end, row.key, fed))
            self._know(row.key, fed)
        if self.gone:
            self.rows.append(row)

    def _know(self, key: int, fed: Sequence[Entry]) -> None:
        known = self.by.get(key)
        self.by[key] = fed if known is None else [*known, *fed]

    def expire(self, watermark: int) -> None:
        """Drop those that are over."""
        gone, over = self.gone, 0
        if self.waiting.blocks:
            self.waiting.expire(watermark, _UNTIL)
        for _, _, fed in gone:
            if max([entry[_UNTIL] for entry in fed]) >= watermark:
                break
            over += 1
        if not over:
            return
        del gone[:over]
        self.by = {}
        for _, key, fed in gone:
            self._know(key, fed)
        del self.rows[: bisect_left(self.rows, gone[0][0], key=_end) if gone else None]

    def copy(self) -> _Bucket:
        found = _Bucket()
        found.waiting.keep([*self.waiting])
        found.gone, found.by, found.rows = [*self.gone], {**self.by}, [*self.rows]
        return found


def _end(row: Row) -> int:
    return row.end


_Deadline = tuple[int, int, int, Key, Entry]
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
        self._lasts = form.right is None
        window, after = form.windows[1]
        self._first = FOR_EVER if window is None or after else window
        """How long a document may last."""
        self._after = window if window is not None and after else FOR_EVER
        """How long after its end something may be forbidden; and after its start:"""
        self._last = least(form.within, *[each for each, after in form.windows[1:] if not after])
        self._until = FOR_EVER
        """How long after its start a match may end."""
        if form.right is not None:
            self._until = least(form.within, form.windows[2][0])

    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in the order of time. Adds the matches that they complete."""
        parts, over, spending = self.parts, self.over, self._spending
        partitioned = self._form.partitioned
        for _, arrival, place, owner, key, number, row in events:
            if PENDING:
                check()
            keys: Sequence[Key] = keys_in(key, row.tuples) if partitioned else (key,)
            several: list[Candidate] = []
            for own in keys:
                part = parts.get(own)
                if not place:
                    self._begin(part, owner, own, arrival, row)
                    continue
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
        start, end, held = row.start, row.end, self._form.asked.held
        if end - start > self._first:
            return
        bounds = tuple([bound(row) for bound in held]) if held else ()
        bound = key_of(bounds[0]) if bounds else -inf
        if part is None:
            part = self.open(owner, key, _Bucket())
        if not self._lasts:
            last = start + self._last
            if end + self._after < last:
                last = end + self._after
            part.waiting.add((bound, arrival, row, last, start + self._until, bounds))
            return
        timing = self._form.timing(row)
        span = timing.span()
        if span is not None:
            entry = (bound, arrival, row, span.end, FOR_EVER, bounds)
            part.waiting.add(entry)
            heappush(self._deadlines, (timing.due, arrival, owner, key, entry))

    def _forbid(self, bucket: _Bucket, row: Row, number: float) -> None:
        """A document comes that may not come between."""
        bounds, waiting, end = self._form.asked.bounds, bucket.waiting, row.end
        fed: list[Entry] = []
        if waiting.blocks:
            most = (number, inf if bounds[0].inclusive else -1) if bounds else _ALL
            numbers = [bound.comes(row) for bound in bounds] if len(bounds) > 1 else (number,)
            over: list[Entry] = []
            below = waiting.below(most)
            for entry in below:
                if entry[_UNTIL] < end:
                    over.append(entry)  # no match can end any more
                elif self._forbids(entry, row, numbers):
                    fed.append(entry)
            self._spending.spend(len(below) - len(over))
            if below and len(fed) + len(over) == len(below):
                waiting.take_below(most)
            else:
                for entry in chain(over, fed):
                    waiting.remove(entry)
        if not self._lasts:
            bucket.note(fed, row)

    def _forbids(self, entry: Entry, row: Row, numbers: Sequence[float]) -> bool:
        left: Row = entry[2]
        if left.end >= row.start or entry[3] < row.end or left.key == row.key:
            return False
        asked = self._form.asked
        if asked.bounds and not beyond(asked.bounds, numbers, entry[5]):
            return False
        return self._tied or self._tied_by(asked.tie, left, row)

    def _tied_by(self, tie: Tie | None, one: Row, other: Row) -> bool:
        """Whether two documents have the same value where that is not what finds them."""
        if tie is None or self._tied:
            return True
        return bool(one.values[tie.waits][0] == other.values[tie.comes][0])

    def _standing(self, bucket: _Bucket, row: Row) -> Iterable[Entry]:
        """Those that nothing forbids with a document at the end."""
        found: list[Entry] = []
        start = row.start
        for end, _, fed in reversed(bucket.gone):
            if end < start:
                break
            found += fed
        by = bucket.by.get(row.key)
        if by is not None:
            known = {entry[1] for entry in found}
            others = [entry for entry in by if entry[1] not in known]
            found += [each for each in others if not self._is_forbidden(bucket, each, row)]
        return [*found, *bucket.waiting] if found else bucket.waiting

    def _is_forbidden(self, bucket: _Bucket, entry: Entry, row: Row) -> bool:
        """Whether other documents forbid what a version of this one forbade."""
        bounds = self._form.asked.bounds
        for each in bucket.rows:
            if each.key != row.key and each.end < row.start:
                self._spending.spend()
                if self._forbids(entry, each, [bound.comes(each) for bound in bounds]):
                    return True
        return False

    def _complete(self, bucket: _Bucket, owner: int, row: Row, found: list[Candidate]) -> None:
        paired, tried = self._form.paired, 0
        numbers = [bound.comes(row) for bound in paired.bounds]
        start, end, key = row.start, row.end, row.key
        for entry in self._standing(bucket, row):
            left: Row = entry[2]
            if left.end >= start or entry[4] < end:
                continue
            tried += 1
            if left.key == key or not self._tied_by(paired.tie, left, row):
                continue
            if numbers and not beyond(paired.bounds, numbers, [of(left) for of in paired.held]):
                continue
            found.append((owner, entry[1], left, row, 0, 0))
        self._spending.spend(tried)

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is, whether it is asked what waits or not."""
        form = self._form
        left: Row = candidate[2]
        right: Row | None = candidate[3]
        last, due = candidate[4:]
        if right is None:
            alone = OfRows((form.left.slot,), (left,), due, left.tuples, last)
            if form.where and not all_hold(form.where, Scope(alone.single, length=alone.span)):
                return None
            return alone
        assert form.right is not None
        slots, tuples = (form.left.slot, form.right.slot), common(left.tuples, right.tuples)
        made = OfRows(slots, (left, right), due_from(right.start), tuples)
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
        _, _, _, key, entry = deadline
        part = self.parts.get(key)
        return part is None or not part.waiting.has(entry)

    def settle(self, watermark: int, found: list[Candidate]) -> None:
        """Add the matches whose deadline is over."""
        while (due := self.due()) is not None and due <= 2 * watermark:
            _, number, owner, key, entry = heappop(self._deadlines)
            stands = self._stands_in_all(key, entry)
            self.parts[key].waiting.remove(entry)
            if stands and owner not in self.over:
                found.append((owner, number, entry[2], None, entry[3], due))

    def _stands_in_all(self, key: Key, entry: Entry) -> bool:
        """Whether a match is to be made of what stands: that of several partitions stands in all of
        them when it is decided in the first one."""
        tuples = entry[2].tuples
        if not self._form.partitioned or len(tuples or ()) == 1:
            return True
        first, *others = keys_in(key[0], tuples)
        buckets = [self.parts.get(own) for own in others]
        return key == first and all(
            each is not None and each.waiting.has(entry) for each in buckets
        )

    def expire(self, watermark: int) -> None:
        """Drop what nothing can follow any more."""
        if not self._lasts:
            for bucket in self.parts.values():
                bucket.expire(watermark)
        self.sweep()

    def borrow(self, other: Owned[Any], owner: int) -> None:
        assert isinstance(other, Lacks)
        super().borrow(other, owner)
        for deadline in other._deadlines:
            if deadline[2] == owner and not other._is_over(deadline):
                heappush(self._deadlines, deadline)

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

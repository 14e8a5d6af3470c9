"""NOT in the order of time: what waits is forbidden by what comes, or is a match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from heapq import heapify, heappop, heappush
from itertools import count

from broker.pattern.in_order.asking import Tie, all_hold, beyond
from broker.pattern.in_order.following import Made
from broker.pattern.in_order.forms import Lacking
from broker.pattern.in_order.held import Held, Waiting, key_of
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, Row, due_from
from broker.pattern.values import Scope

ABSENT, SECOND = 1, 2
"""The places of what must not come, and of what must."""


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
            self.waiting.remove(held)
            held.over, held.by = row.end, row.key
            self.gone.add(held)
            self.by.add(row.key)
            self.latest = max(self.latest, row.end)
        elif held.by != row.key:
            self.gone.remove(held)
            held.again = row.end
            self.dead.append(held)

    def stands(self, row: Row) -> Iterator[Held]:
        """Those that nothing forbids with a document at the end."""
        if self.latest >= row.start or row.key in self.by:
            for held in (*self.dead, *self.gone):
                over = held.again if held.by == row.key else held.over
                if over is None or over >= row.start:
                    yield held
        yield from [*self.waiting]

    def expire(self, until: Callable[[Row], int], watermark: int) -> None:
        """Drop those that are over."""
        for waiting in (self.waiting, self.gone):
            for held in [*waiting]:
                if until(held.row) < watermark:
                    waiting.remove(held)
        self.dead = [held for held in self.dead if until(held.row) >= watermark]
        self.by = {held.by for held in (*self.gone, *self.dead)}

    def copy(self, copies: dict[int, Held]) -> _Bucket:
        found = _Bucket()
        found.by, found.latest = {*self.by}, self.latest
        for own, waiting in ((found.waiting, self.waiting), (found.gone, self.gone)):
            for held in waiting:
                copies[held.number] = copy(held)
                own.add(copies[held.number])
        found.dead = [*self.dead]
        return found


class Lacks:
    """NOT for one query. Rows of what must come at the end come in the order of their starts, all
    others in that of their ends."""

    def __init__(self, form: Lacking, spending: Spending) -> None:
        self._form = form
        self._spending = spending
        self._buckets: dict[object, _Bucket] = {}
        self._number = count()
        self._deadlines: list[tuple[int, int, Held]] = []
        """Where the NOT stands at the end."""
        tie, paired = form.asked.tie, form.paired.tie
        self._tied = tie is not None and (
            form.right is None or (paired is not None and paired.waits == tie.waits)
        )
        """Whether one value is that of all three documents."""

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def take(self, place: int, row: Row, found: list[Made], asks: bool = True) -> None:
        if place == ABSENT:
            self._forbid(row)
        elif place == SECOND:
            self._complete(row, found)
        else:
            self._begin(row)

    def _key(self, row: Row, path: str) -> object:
        return row.values[path][0] if self._tied else None

    def _begin(self, row: Row) -> None:
        form = self._form
        window, after = form.windows[1]
        if window is not None and not after and row.end - row.start > window:
            return
        tie = form.asked.tie
        key = None if tie is None else self._key(row, tie.waits)
        bounds = tuple([bound(row) for bound in form.asked.held])
        held = Held(row, row.end, form.last(row), next(self._number), key_of(bounds), bounds)
        if form.right is None:
            timing = form.timing(row)
            span = timing.span()
            if span is None:
                return
            held.last = span.end
            heappush(self._deadlines, (timing.due, held.number, held))
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket()
        bucket.waiting.add(held)

    def _forbid(self, row: Row) -> None:
        form, asked = self._form, self._form.asked
        key = None if asked.tie is None else self._key(row, asked.tie.comes)
        bucket = self._buckets.get(key)
        if bucket is None:
            return
        numbers = [bound.comes(row) for bound in asked.bounds]
        number = numbers[0] if numbers else None
        inclusive = bool(numbers) and asked.bounds[0].inclusive
        for held in bucket.waiting.below(number, inclusive):
            if self._forbids(held, row, numbers):
                bucket.forbid(held, row)
        if form.right is None:
            bucket.gone = Waiting()
            if not bucket:
                del self._buckets[key]
            return
        for held in bucket.gone.below(number, inclusive):
            if held.by != row.key and self._forbids(held, row, numbers):
                bucket.forbid(held, row)

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

    def _complete(self, row: Row, found: list[Made]) -> None:
        form, paired = self._form, self._form.paired
        key = None if paired.tie is None else self._key(row, paired.tie.comes)
        bucket = self._buckets.get(key)
        if bucket is None:
            return
        numbers = [bound.comes(row) for bound in paired.bounds]
        for held in bucket.stands(row):
            if held.end >= row.start or form.until(held.row) < row.end:
                continue
            self._spending.spend()
            if held.row.key == row.key or not self._tied_by(paired.tie, held.row, row):
                continue
            if paired.bounds:
                own = [bound(held.row) for bound in paired.held]
                if not beyond(paired.bounds, numbers, own):
                    continue
            made = self._made(held.row, row)
            if made is not None:
                found.append((held.number, made))

    def _made(self, left: Row, right: Row) -> Instance | None:
        form = self._form
        assert form.right is not None
        single = {**dict.fromkeys(left.nodes, left), **dict.fromkeys(right.nodes, right)}
        length = right.end - left.start
        if form.paired.rest and not all_hold(form.paired.rest, Scope(single, length=length)):
            return None
        return Instance(
            *(left.start, right.end, left.start, right.end, due_from(right.start)),
            {form.left.slot: left, form.right.slot: right},
            frozenset((left.key, right.key)),
            None,
            single,
        )

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int | None:
        """Twice the watermark that decides the first of those whose NOT stands at the end."""
        while self._deadlines and self._deadlines[0][2].over is not None:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def settle(self, watermark: int, found: list[Made]) -> None:
        """Add the matches whose deadline is over."""
        while (due := self.due()) is not None and due <= 2 * watermark:
            _, _, held = heappop(self._deadlines)
            row = held.row
            tie = self._form.asked.tie
            key = None if tie is None else self._key(row, tie.waits)
            bucket = self._buckets[key]
            bucket.waiting.remove(held)
            if not bucket:
                del self._buckets[key]
            made = Instance(
                *(row.start, held.last, row.start, row.end, due),
                {self._form.left.slot: row},
                frozenset([row.key]),
                None,
                dict.fromkeys(row.nodes, row),
            )
            where = self._form.where
            if not where or all_hold(where, Scope(made.single, length=made.span)):
                found.append((held.number, made))

    def expire(self, watermark: int) -> None:
        """Drop what nothing can follow any more."""
        if self._form.right is None:
            return
        for key, bucket in [*self._buckets.items()]:
            bucket.expire(self._form.until, watermark)
            if not bucket:
                del self._buckets[key]

    def trial(self, spending: Spending) -> Lacks:
        found = Lacks(self._form, spending)
        found._number = copy(self._number)
        copies: dict[int, Held] = {}
        for key, bucket in self._buckets.items():
            found._buckets[key] = bucket.copy(copies)
        found._deadlines = [
            (due, number, copies[number]) for due, number, h in self._deadlines if h.over is None
        ]
        heapify(found._deadlines)
        return found

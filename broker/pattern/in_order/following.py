"""NEXT in the order of time: what comes is what those seek that were there before."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from itertools import count

from broker.pattern.in_order.asking import all_hold, beyond
from broker.pattern.in_order.forms import Following
from broker.pattern.in_order.held import Held, Waiting, key_of
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, Row, due_from
from broker.pattern.values import Scope

Made = tuple[int, Instance]
"""A match, with the number of what waited for its end."""


class _Bucket:
    """What waits by one value of the tie. `fed` are those that found what they seek at `at`."""

    __slots__ = ("at", "fed", "waiting")

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.fed: list[Held] = []
        self.at = 0

    def __bool__(self) -> bool:
        return bool(self.waiting or self.fed)

    def forget(self, time: int) -> None:
        """Forget those that found what they seek before a time."""
        if self.fed and self.at < time:
            self.fed = []


class Follows:
    """NEXT for one query. Rows come in the order of their ends."""

    def __init__(self, form: Following, spending: Spending) -> None:
        self._form = form
        self._spending = spending
        self._buckets: dict[object, _Bucket] = {}
        self._number = count()

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def take(self, place: int, row: Row, found: list[Made], asks: bool = True) -> None:
        """A row of the block in a place. Adds the matches that it completes; without `asks` WHERE
        is left out."""
        if place:
            self._follow(row, found, asks)
        else:
            self._begin(row)

    def _begin(self, row: Row) -> None:
        form = self._form
        tie = form.asked.tie
        bounds = tuple([bound(row) for bound in form.asked.held])
        if any(bound != bound for bound in bounds):
            return  # nothing is beyond what is no number
        key = tie and row.values[tie.waits][0]
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket()
        bucket.waiting.add(
            Held(row, row.end, form.last(row), next(self._number), key_of(bounds), bounds)
        )

    def _follow(self, row: Row, found: list[Made], asks: bool) -> None:
        asked = self._form.asked
        key = asked.tie and row.values[asked.tie.comes][0]
        bucket = self._buckets.get(key)
        if bucket is None:
            return
        end = row.end
        bucket.forget(end)
        numbers = [bound.comes(row) for bound in asked.bounds]
        first = asked.bounds[0] if numbers else None
        hungry = bucket.waiting.below(
            numbers[0] if numbers else None, first is not None and first.inclusive
        )
        for held in [*bucket.fed, *hungry]:
            if held.end >= row.start or not beyond(asked.bounds, numbers, held.bounds):
                continue
            if held.last < end:
                if held.over is None:
                    bucket.waiting.remove(held)  # nothing that comes is in its window
                continue
            self._spending.spend()
            single = self._pair(held.row, row)
            if single is None:
                continue
            if held.over is None:
                bucket.waiting.remove(held)
                held.over = end
                bucket.at = end
                bucket.fed.append(held)
            made = self._made(held, row, single, asks)
            if made is not None:
                found.append((held.number, made))
        if not bucket:
            del self._buckets[key]

    def _pair(self, left: Row, right: Row) -> Mapping[str, Row] | None:
        """The variables of two documents, if the braces hold for them."""
        if left.key == right.key:
            return None
        form = self._form
        if form.window is not None:
            length = right.end - left.end if form.after else right.end - left.start
            # What begins before the first one makes the match longer, but is never behind it.
            if length > form.window:
                return None
        single = {**dict.fromkeys(left.nodes, left), **dict.fromkeys(right.nodes, right)}
        if form.asked.rest:
            scope = Scope(single, length=right.end - left.start)
            if not all_hold(form.asked.rest, scope):
                return None
        return single

    def _made(self, held: Held, row: Row, single: Mapping[str, Row], asks: bool) -> Instance | None:
        form, left = self._form, held.row
        length = row.end - left.start
        if form.within is not None and length > form.within:
            return None
        if asks and form.where and not all_hold(form.where, Scope(single, length=length)):
            return None
        return Instance(
            *(left.start, row.end, left.start, row.end, due_from(row.end)),
            {form.left.slot: left, form.right.slot: row},
            frozenset((left.key, row.key)),
            None,
            single,
        )

    def expire(self, watermark: int) -> None:
        """Drop what nothing can follow any more."""
        for key, bucket in [*self._buckets.items()]:
            bucket.forget(watermark)
            for held in [*bucket.waiting]:
                if held.last < watermark:
                    bucket.waiting.remove(held)
            if not bucket:
                del self._buckets[key]

    def trial(self, spending: Spending) -> Follows:
        """The same, of which nothing is kept."""
        found = Follows(self._form, spending)
        found._number = copy(self._number)
        for key, bucket in self._buckets.items():
            own = found._buckets[key] = _Bucket()
            own.at, own.fed = bucket.at, [*bucket.fed]
            for held in bucket.waiting:
                own.waiting.add(copy(held))
        return found

    def due(self) -> int | None:
        return None

    def settle(self, watermark: int, found: list[Made]) -> None:
        """Nothing is decided by time alone."""

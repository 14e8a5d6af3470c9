"""Lists of blocks, for all queries of a form: a choice is found when its last document comes.

That one is nearly always for the last place: any other one is only added to its place, as nothing
is there that begins later. Documents that come late look both ways. Of the places that are open the
one is filled next that has the fewest documents within order and windows, found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from broker.pattern.in_order.asking import all_hold
from broker.pattern.in_order.events import Candidate, Event
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.list_forms import Listed
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.partitions import agreed, keys_in
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import AT_ONCE, Instance, OfRows, Row
from broker.pattern.plan import Window
from broker.pattern.trying import TooMuch
from broker.pattern.values import Scope
from xscl.interruption import PENDING, check


class _Part:
    """The documents of one key by their places, each in order of their starts, which stand beside
    them."""

    __slots__ = ("rows", "starts")

    def __init__(self, places: int) -> None:
        self.starts: list[list[int]] = [[] for _ in range(places)]
        self.rows: list[list[Row]] = [[] for _ in range(places)]

    def __bool__(self) -> bool:
        return any(self.starts)

    def add(self, place: int, row: Row) -> None:
        starts, start = self.starts[place], row.start
        if not starts or starts[-1] <= start:
            starts.append(start)
            self.rows[place].append(row)
        else:
            at = bisect_right(starts, start)
            starts.insert(at, start)
            self.rows[place].insert(at, row)

    def drop(self, place: int, high: int, horizon: int | None) -> None:
        """Drop those that started before a time and ended before another; None: at any time."""
        starts, rows = self.starts[place], self.rows[place]
        count = bisect_left(starts, high)
        left = [] if horizon is None else [row for row in rows[:count] if row.end >= horizon]
        del starts[:count], rows[:count]
        if left:
            starts[:0], rows[:0] = [row.start for row in left], left


@dataclass(frozen=True, slots=True)
class _Step:
    """How a place is filled where others are: between those at `left` and `right`, `first` being
    the first of them. `within`: it ends so long after the start of that one. Those `behind` it let
    it start so long before their ends. By AFTER it ends at most `after` behind the one at its left,
    and `before` the end of the one at its right. `checks` are asked when it is filled."""

    place: int
    left: int
    right: int
    first: int
    within: Window
    behind: tuple[tuple[int, int], ...]
    after: Window
    before: Window
    checks: tuple[Callable[[Sequence[Row]], bool], ...]

    def bounds(self, chosen: Sequence[Row]) -> tuple[int, int]:
        """A time behind which it starts, and the latest one at which it ends."""
        low = -FOR_EVER if self.left == _NONE else chosen[self.left].end
        most = FOR_EVER if self.right == _NONE else chosen[self.right].start - 1
        for place, reach in self.behind:
            least = chosen[place].end - reach
            if least > low:
                low = least
        if self.within is not None:
            most = min(most, chosen[self.first].start + self.within)
        if self.after is not None:
            most = min(most, chosen[self.left].end + self.after)
        return low, most


_NONE = -1
"""The place of none."""


def _step(form: Listed, filled: frozenset[int], place: int) -> _Step:
    left = max([p for p in filled if p < place], default=_NONE)
    right = min([p for p in filled if p > place], default=_NONE)
    hulls = [(p, form.reach[p]) for p in filled if p > place and 0 not in filled]
    return _Step(
        *(place, left, right, min(filled)),
        None if left == _NONE else form.reach[place],
        # Behind the first place it starts later than what stands there, which is all that is known.
        tuple([(p, reach if place else reach + 1) for p, reach in hulls if reach is not None]),
        form.after[place] if place and left == place - 1 else None,
        form.after[right] if right == place + 1 else None,
        tuple([c.holds for c in form.checks if place in c.places <= filled | {place}]),
    )


class Lists(Owned[_Part]):
    """Lists of blocks for all queries of a form. Rows come in any order."""

    def __init__(self, form: Listed, spending: Spending) -> None:
        super().__init__(spending)
        self._form = form
        self._slots = [leaf.slot for leaf in form.leaves]
        self._all = (1 << len(form.leaves)) - 1
        self._steps: dict[int, list[_Step]] = {}
        """Those for the places that are open, by what is filled, as bits."""

    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in the order in which they come. Adds the matches that they complete."""
        parts, over, last = self.parts, self.over, len(self._form.leaves) - 1
        partitioned = self._form.partitioned
        for _, arrival, place, owner, key, _, row in events:
            if PENDING:
                check()
            for own in keys_in(key, row.tuples) if partitioned else (key,):
                part = parts.get(own)
                if part is None:
                    part = self.open(owner, own, _Part(last + 1))
                starts = part.starts
                before = starts[place - 1] if place else _BEFORE
                after = starts[place + 1] if place < last else _AFTER
                some = before and after and before[0] < row.start and row.end < after[-1]
                if some and owner not in over:
                    self._spending.renew()
                    try:
                        self._choose(part, place, row, (owner, arrival), found)
                    except TooMuch:
                        over.add(owner)
                part.add(place, row)

    def remember(self, events: Iterable[Event]) -> None:
        """Rows of which all matches are known."""
        for _, _, place, owner, key, _, row in events:
            for own in keys_in(key, row.tuples) if self._form.partitioned else (key,):
                part = self.parts.get(own)
                if part is None:
                    part = self.open(owner, own, _Part(len(self._form.leaves)))
                part.add(place, row)

    def _choose(
        self, part: _Part, place: int, row: Row, of: tuple[int, int], found: list[Candidate]
    ) -> None:
        """Find the choices of a row with those that were there before."""
        chosen: list[Any] = [None] * len(self._form.leaves)
        chosen[place] = row
        self._fill(part, chosen, 1 << place, (row.key,), of, found)

    def _fill(
        self,
        part: _Part,
        chosen: list[Row],
        filled: int,
        keys: tuple[int, ...],
        of: tuple[int, int],
        found: list[Candidate],
    ) -> None:
        """Fill the place that has the fewest documents, and those that are still open then."""
        if PENDING:
            check()
        fewest, slot = FOR_EVER, (0, 0, 0)
        for step in self._steps.get(filled) or self._steps_of(filled):
            starts = part.starts[step.place]
            low, most = step.bounds(chosen)
            begin = bisect_right(starts, low)
            count = bisect_right(starts, most, begin) - begin
            if not count:
                return
            if count < fewest:
                fewest, best, slot = count, step, (begin, begin + count, most)
        self._spending.spend(fewest)
        place, checks = best.place, best.checks
        begin, stop, most = slot
        least = -FOR_EVER if best.before is None else chosen[best.right].end - best.before
        filled |= 1 << place
        for row in part.rows[place][begin:stop]:
            if not least <= row.end <= most or row.key in keys:
                continue
            chosen[place] = row
            for holds in checks:
                if not holds(chosen):
                    break
            else:
                if filled == self._all:
                    found.append((*of, (*chosen,)))
                else:
                    self._fill(part, chosen, filled, (*keys, row.key), of, found)

    def _steps_of(self, filled: int) -> list[_Step]:
        places = range(len(self._form.leaves))
        known = frozenset([place for place in places if filled >> place & 1])
        steps = [_step(self._form, known, place) for place in places if place not in known]
        self._steps[filled] = steps
        return steps

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is, if it is one."""
        form, rows = self._form, candidate[2]
        tuples = agreed(rows) if form.partitioned else None
        made = OfRows(self._slots, rows, AT_ONCE, tuples)
        if form.whole and not all_hold(form.whole, Scope(made.single, length=made.span)):
            return None
        return made

    def expire(self, watermark: int) -> None:
        """Drop what no match can contain any more. What begins by now can only be the last document
        of a match that is known."""
        kept, last = self._form.kept, len(self._form.leaves) - 1
        horizon = -FOR_EVER if kept is None else watermark - kept
        for part in self.parts.values():
            for place, starts in enumerate(part.starts):
                if place == last:
                    if starts and starts[0] <= watermark:
                        part.drop(last, watermark + 1, None)
                elif starts and starts[0] < horizon:
                    part.drop(place, horizon, horizon)
        self.sweep()

    def borrow(self, other: Owned[Any], owner: int) -> None:
        """Nothing of a query waits."""

    def copied(self, part: _Part) -> _Part:
        return part


_BEFORE, _AFTER = [-FOR_EVER], [FOR_EVER]
"""What stands before the first place, and behind the last one."""

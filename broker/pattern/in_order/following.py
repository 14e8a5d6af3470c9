"""NEXT in the order of time: what comes is what those seek that were there before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from broker.pattern.in_order.asking import all_hold, beyond
from broker.pattern.in_order.events import Candidate, Event
from broker.pattern.in_order.forms import Following
from broker.pattern.in_order.held import Entry, Waiting
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, Row, due_from
from broker.pattern.trying import TooMuch
from broker.pattern.values import Scope
from xscl.interruption import PENDING, check

_ALL = (inf,)
"""Behind all entries."""


class _Part:
    """What waits by one key: the first bound, a number, the document, the latest end of what may
    follow, and all bounds where there are several. `fed` are those that found what they seek at
    the time `at`."""

    __slots__ = ("at", "fed", "waiting")

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.fed: list[Entry] = []
        self.at = 0

    def __bool__(self) -> bool:
        return bool(self.waiting or self.fed)


class Follows(Owned[_Part]):
    """NEXT for all queries of a form. Rows come in the order of their ends."""

    def __init__(self, form: Following, spending: Spending) -> None:
        super().__init__(spending)
        self._form = form
        bounds = form.asked.bounds
        self._several = len(bounds) > 1
        self._plain = not form.asked.rest and form.window is None
        self._behind = inf if bounds and bounds[0].inclusive else -1
        """What stands behind a number to find the place of those that it is beyond."""

    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in the order of time. Adds the matches that they complete."""
        parts, over, spending = self.parts, self.over, self._spending
        several, behind, last = self._several, self._behind, self._form.last
        held, bounds = self._form.asked.held, self._form.asked.bounds
        for time, arrival, place, owner, key, number, row in events:
            if PENDING:
                check()
            part = parts.get(key)
            if not place:
                if number != number:
                    continue  # nothing is beyond what is no number
                if part is None:
                    part = self.open(owner, key, _Part())
                rest = [bound(row) for bound in held] if several else None
                part.waiting.add((number, arrival, row, last(row), rest))
                continue
            if part is None:
                continue
            if part.fed and part.at < time:
                part.fed = []
            most = (number, behind) if bounds else _ALL
            hungry = part.waiting.take_below(most)
            if (hungry or part.fed) and owner not in over:
                spending.renew()
                try:
                    self._follow(part, hungry, most, owner, row, found)
                except TooMuch:
                    over.add(owner)

    def _follow(
        self,
        part: _Part,
        hungry: list[Entry],
        most: tuple[float, ...],
        owner: int,
        row: Row,
        found: list[Candidate],
    ) -> None:
        """Feed a document to those that are hungry, and to those below `most` that were fed at the
        same time."""
        end, start, spending = row.end, row.start, self._spending
        bounds = self._form.asked.bounds if self._several else ()
        numbers = [bound.comes(row) for bound in bounds]
        fed = []
        for entry in part.fed:
            left = entry[2]
            if not entry < most or left.end >= start or entry[3] < end:
                continue
            if self._agree(entry, row, numbers):
                spending.spend()
                found.append((owner, entry[1], left, row))
        for entry in hungry:
            left, last = entry[2], entry[3]
            if last < end:
                continue  # nothing that comes is in its window
            if left.end >= start:
                part.waiting.add(entry)
                continue
            spending.spend()
            if not self._agree(entry, row, numbers):
                part.waiting.add(entry)
                continue
            fed.append(entry)
            found.append((owner, entry[1], left, row))
        if fed:
            part.at = end
            part.fed += fed

    def _agree(self, entry: Entry, row: Row, numbers: list[float]) -> bool:
        """Whether the braces hold for two documents, beside the first bound."""
        left = entry[2]
        if left.key == row.key:
            return False
        if numbers and not beyond(self._form.asked.bounds, numbers, entry[4]):
            return False
        if self._plain:
            return True
        form = self._form
        if form.window is not None:
            length = row.end - left.end if form.after else row.end - left.start
            # What begins before the first one makes the match longer, but is never behind it.
            if length > form.window:
                return False
        if form.asked.rest:
            scope = Scope(_single(left, row), length=row.end - left.start)
            return all_hold(form.asked.rest, scope)
        return True

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is, if it is one."""
        form = self._form
        _, _, left, row = candidate
        single, length = _single(left, row), row.end - left.start
        if form.within is not None and length > form.within:
            return None
        if form.where and not all_hold(form.where, Scope(single, length=length)):
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
        for part in self.parts.values():
            if part.fed and part.at < watermark:
                part.fed = []
            for entry in [*part.waiting]:
                if entry[3] < watermark:
                    part.waiting.remove(entry)
        self.sweep()

    def copied(self, part: _Part) -> _Part:
        found = _Part()
        found.at, found.fed = part.at, [*part.fed]
        for entry in part.waiting:
            found.waiting.add(entry)
        return found


def _single(left: Row, row: Row) -> Mapping[str, Row]:
    return {**dict.fromkeys(left.nodes, left), **dict.fromkeys(row.nodes, row)}

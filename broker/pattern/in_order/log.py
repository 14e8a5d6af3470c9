"""What is noted of documents before their last block: in columns, and in chains by channel."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from broker.pattern.in_order.events import Event, Reader
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.takers import Mask, Numbers, Takers
from broker.pattern.instances import Row
from broker.pattern.plan import Window

DEEP = 8
"""Where more is noted for a query, what is followed is found one by one, in the order of bounds."""


POSITIONS = 40
"""Positions are below two to the power of so much."""


class Log:
    """Documents have positions in the order in which they were noted, of which the first `_gone`
    were dropped. By the number of a channel `_heads` is the position of what was noted last for it,
    and of each the one `_before` it, or a negative one."""

    def __init__(self, takers: Takers, kept: Window, readers: Iterable[Reader]) -> None:
        self.takers = takers
        self._kept = kept
        self._readers = {reader.place: reader for reader in readers}
        self._heads = array("q")
        self._rows: list[Row] = []
        self._ends = array("q")
        self._arrivals = array("q")
        self._places = array("q")
        self._numbers = array("q")
        self._before = array("q")
        self._gone = 0
        self._notes_last = False
        """Whether documents for the last block are noted as well."""

    def _append(self, number: int, place: int, arrival: int, row: Row) -> None:
        """Note a document for a channel."""
        self._rows.append(row)
        self._ends.append(row.end)
        self._arrivals.append(arrival)
        self._places.append(place)
        self._numbers.append(number)
        self._before.append(self._heads[number])
        self._heads[number] = self._gone + len(self._rows) - 1

    def _note_all(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Note one document after the other for the channels of these numbers. Returns these in
        order, with the positions for each, also in order."""
        heads = np.frombuffer(self._heads, np.int64)
        positions = self._gone + len(self._rows) + np.arange(len(numbers))
        by_channel = np.argsort(numbers, kind="stable")
        ordered = numbers[by_channel]
        before = heads[ordered]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        before[same + 1] = positions[by_channel[same]]
        found = np.empty_like(before)
        found[by_channel] = before
        heads[numbers] = positions
        self._before.frombytes(found.tobytes())
        return ordered, positions[by_channel]

    def _heads_at(
        self, numbers: Numbers, marks: Numbers, noted: tuple[Numbers, Numbers]
    ) -> Numbers:
        """The positions of what was noted last, before marks, for channels; `noted` is what
        `_note_all` has returned, and the last of all that is noted."""
        channels, positions = noted
        heads: Numbers = np.frombuffer(self._heads, np.int64)[numbers]
        if not len(channels):
            return heads
        behind = np.searchsorted(channels << POSITIONS | positions, numbers << POSITIONS | marks)
        last = np.minimum(behind, len(channels) - 1)
        before = np.frombuffer(self._before, np.int64)[positions[last] - self._gone]
        # The first behind a mark says what is before it; without one it is the last of all.
        return np.where((behind <= last) & (channels[last] == numbers), before, heads)

    def _since(self, had: int, time: int) -> int:
        """The position of the first that was not had before a position, and that a match can
        contain which ends at a time or behind it."""
        horizon = -FOR_EVER if self._kept is None else time - self._kept
        at = max(had - self._gone, 0)
        return self._gone + bisect_left(self._ends, horizon, at)

    def _not_had(self, slot: int, since: int, mark: int = FOR_EVER) -> Sequence[int]:
        """The positions of what is noted for a query from a position on, and before a mark."""
        before, gone = self._before, self._gone
        heads, one = self._heads, self.takers.one_earlier[slot]
        several: Sequence[int] = (one,)
        if self._notes_last:
            several = self.takers.all_of(slot)
        elif one >= 0:
            at = heads[one]
            if at < since:
                return ()
            if before[at - gone] < since:
                return (at,) if at < mark else ()
        else:
            several = self.takers.earlier(slot)
        found: list[int] = []
        for number in several:
            at = heads[number]
            while at >= since:
                if at < mark:
                    found.append(at)
                at = before[at - gone]
        if len(several) > 1:
            found.sort()
        else:
            found.reverse()
        return found

    def _followed(
        self,
        slots: Numbers,
        since: Numbers,
        before: Numbers,
        marks: Numbers,
        latest: tuple[Numbers, Numbers],
    ) -> tuple[Numbers, Numbers, Mask]:
        """What is noted for queries, by their slots, from positions on and before marks, that ends
        before a time; for `latest` see `_heads_at`. Returns which of the queries, and the
        positions, in that order; and which queries have more than is looked at here."""
        earlier = np.frombuffer(self._before, np.int64)
        number = np.frombuffer(self.takers.one_earlier, np.int64)[slots]
        since = np.maximum(since, self._gone)
        deep = number < 0
        live = np.flatnonzero(~deep)
        at = self._heads_at(number[live], marks[live], latest)
        which, positions = [], []
        for _ in range(DEEP + 1):
            some = at >= since[live]
            live, at = live[some], at[some]
            if not len(live):
                break
            which.append(live)
            positions.append(at)
            at = earlier[at - self._gone]
        deep[live] = True
        if not which:
            return live, at, deep
        found, noted = np.concatenate(which), np.concatenate(positions)
        fits = np.frombuffer(self._ends, np.int64)[noted - self._gone] < before[found]
        found, noted = found[fits], noted[fits]
        order = np.argsort(found, kind="stable")
        return found[order], noted[order], deep

    def _channels(self, slot: int) -> Sequence[int]:
        """The numbers of the channels of a query in which something is noted."""
        heads, gone = self._heads, self._gone
        return [number for number in self.takers.earlier(slot) if heads[number] >= gone]

    def _tell(self, owner: int, noted: Sequence[int], since: int, found: list[Event]) -> None:
        """The events that what is noted at positions is for a query or a prefix, of what came
        behind an arrival."""
        for at in noted:
            at -= self._gone
            arrival = self._arrivals[at]
            if arrival > since:
                found.append(self._readers[self._places[at]].event(owner, arrival, self._rows[at]))

    def _cut(self, horizon: int) -> None:
        """Drop what ended before a time, but for what is behind something else."""
        alive = np.frombuffer(self._ends, np.int64) >= horizon
        count = int(alive.argmax()) if alive.any() else len(alive)
        del alive
        for column in (self._ends, self._arrivals, self._places, self._numbers, self._before):
            del column[:count]
        del self._rows[:count]
        self._gone += count

    def _keep(self, others: Collection[int]) -> dict[int, int]:
        """Forget the channels of which nothing is noted, but for others, by their numbers. Returns
        the numbers that are left have now."""
        heads, gone = self._heads, self._gone
        kept = [n for n, head in enumerate(heads) if head >= gone or n in others]
        self.takers.keep(kept)
        self._heads = array("q", [heads[number] for number in kept])
        new = {number: place for place, number in enumerate(kept)}
        self._numbers = array("q", [new[number] for number in self._numbers])
        return new

"""What comes to many queries before their last block, noted once, in columns; and which queries a
document for the last block may concern.

It is what `deferred.py` is for patterns whose documents are not found by a value. Of very many
queries hardly any has something that came before; these are told from all others by columns, a
batch of documents at once, as most of what it costs to look at queries one by one is memory that is
in no cache. What is left out can be in no match. What is left in comes to the matcher in the order
of time, as if nothing had been left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import numpy as np

from broker.pattern.in_order.channels import Channel, Offered
from broker.pattern.in_order.deferred import own_of
from broker.pattern.in_order.events import Event, Reader
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.log import Log
from broker.pattern.in_order.prefixes import Prefixes
from broker.pattern.in_order.takers import LARGE, Takers
from broker.pattern.instances import Row
from broker.pattern.plan import Window

_MANY = 48
"""So many documents are looked at in columns; fewer are looked at one by one."""

_CONCERN = 1
"""So many times what concerns a query are few of all that came."""

_HEAT = 64
"""How much of late says whether what comes concerns few."""

_PART = 8
"""What is over is dropped when it is so much of all that is noted."""

_MOST = 2_000
"""Not more at once, as what came before one of them is looked for among all of them."""


class Noted(Log):
    """By the slot of a query `_first` is the earliest end of what came for its first block and it
    has not had, or earlier; `FOR_EVER` if nothing did, and `-FOR_EVER` if something may wait. It
    has `_had` what was noted before a position.

    `numbers` and `rows` are of documents that nobody has looked at yet, one behind the other: those
    of their channels, and theirs."""

    def __init__(self, last: int, kept: Window, readers: Iterable[Reader], *, pulls: bool) -> None:
        super().__init__(Takers(last), kept, readers)
        self.last = last
        self.shares = last > 1
        """Whether what waits is made once for queries that take the same before the last block."""
        self.prefixes = Prefixes(kept, pulls=pulls)
        self._starting = self._readers[last].starts
        self._from: dict[int, int] = {}
        """By query, the arrival up to which it has had everything."""
        self._first = array("q")
        self._low: set[int] = set()
        """The large channels of whose queries none has a first end behind what is noted now."""
        self._had = array("q")
        self.numbers = array("q")
        self.rows: list[Row] = []
        self._heat = 0
        """More than 0 if of late more was given to queries than came."""
        self.sifts = True
        """Whether less is given to queries than comes, so that it is worth while to sift it."""

    def join(self, owner: int) -> None:
        """A query comes."""
        self.takers.join(owner)
        self._first.append(FOR_EVER)
        self._had.append(0)

    def leave(self, owner: int) -> None:
        """A query goes."""
        del self.takers.slot[owner]

    def enter(self, channel: Channel, place: int) -> int:
        """The number of a channel for the block at a place, which it has from now on."""
        if channel.number < 0:
            self._heads.append(-1)
            self.takers.enter(channel, place)
        return channel.number

    def go_on(self, owner: int, rows: Iterable[Row]) -> None:
        """Something may wait for a query, to which these rows come alone."""
        slot = self.takers.slot.get(owner)
        if slot is not None:
            self._first[slot] = -FOR_EVER
        if self.shares:
            self.prefixes.came_alone([(owner, row) for row in rows])

    def forget(self, owner: int, arrival: int) -> None:
        """A query has had, in another way, all that came up to now."""
        slot = self.takers.slot.get(owner)
        if slot is not None:
            self._from[owner] = arrival
            self._had[slot] = self._gone + len(self._rows)

    def saw(self, rows: Iterable[Row]) -> None:
        """Documents come for the last block; only lists look both ways."""

    def _warm(self, given: int, came: int) -> None:
        """So much was given, of so much that came."""
        heat = self._heat + given - came
        self._heat = _HEAT if heat > _HEAT else -_HEAT if heat < -_HEAT else heat
        self.sifts = heat <= 0

    # -- what has come -----------------------------------------------------------------------------

    def offered(self, arrival: int) -> list[Offered]:
        """Documents that nobody has looked at, the first of which arrived then, as events."""
        if not self.rows:
            return []
        channels, places, readers = self.takers.channels, self.takers.places, self._readers
        return [
            readers[places[number]].offered(channels[number], at, row)
            for at, (number, row) in enumerate(zip(*self._taken(), strict=True), arrival)
        ]

    def _taken(self) -> tuple[array[int], list[Row]]:
        taken = self.numbers, self.rows
        self.numbers, self.rows = array("q"), []
        return taken

    def decided(self, arrival: int, now: int, waiting: Container[int]) -> list[Event] | None:
        """What is decided at a time of documents that nobody has looked at, the first of which
        arrived then; None, and nothing happens, if that is not all, or they are in no order. See
        `given`."""
        self.prefixes.begin((), one_by_one=False)
        if len(self.rows) >= _MANY and self.sifts:
            sifted = self._sifted(arrival, now, waiting)
            if sifted is not None:
                return sifted
        last, places = self.last, self.takers.places
        times = [row.end for row in self.rows]
        if self._starting:
            for n, number in enumerate(self.numbers):
                if places[number] == last:
                    times[n] = self.rows[n].start
        if max(times) > now or (len(times) > 1 and times != sorted(times)):
            return None
        found: list[Event] = []
        gave: set[int] = set()
        takers, first, count = self.takers, self._first, len(self.rows)
        for at, (number, row) in enumerate(zip(*self._taken(), strict=True), arrival):
            slots = takers.slots(number)
            if places[number] == last:
                start = row.start
                for slot in slots:
                    if first[slot] < start:
                        self._look(slot, at, row, FOR_EVER, waiting, gave, found)
            else:
                self._note(number, slots, places[number], at, row)
        self._warm(len(found), count)
        return found

    def given(
        self, ready: Sequence[Offered], waiting: Container[int], one_by_one: bool = False
    ) -> list[Event]:
        """What is decided now, of which noted events come only to queries to which others come, and
        before them; `waiting` are those for which something waits. Queries that decide one after
        the other share nothing."""
        self.prefixes.begin(ready if self.shares else (), one_by_one=one_by_one)
        takers, first, last = self.takers, self._first, self.last
        if not self._rows:  # nothing is to be given beside what is for one query alone
            slots = takers.slot
            for event in ready:
                if type(event[3]) is not int:
                    break
                if event[3] in slots:
                    first[slots[event[3]]] = -FOR_EVER
            else:
                self._warm(len(ready), len(ready))
                return [*ready]
        found: list[Event] = []
        gave: set[int] = set()
        earlier, heads, had = takers.one_earlier, self._heads, self._had
        for event in ready:
            owner = event[3]
            if type(owner) is int:
                slot = takers.slot.get(owner)
                if slot is not None:
                    number = earlier[slot]
                    some = number == -2 or (number >= 0 and heads[number] >= had[slot])
                    if some and (noted := self._not_had(slot, self._since(had[slot], event[0]))):
                        self._give(owner, slot, noted, found)
                    first[slot] = -FOR_EVER
                gave.add(owner)
                found.append(event)
            elif event[2] < last:
                number = self.enter(event[3], event[2])
                self._note(number, takers.slots(number), event[2], event[1], event[-1])
            else:
                start = event[-1].start
                for slot in takers.slots(self.enter(event[3], event[2])):
                    if first[slot] < start:
                        self._look(slot, event[1], event[-1], FOR_EVER, waiting, gave, found)
        self._warm(len(found), len(ready))
        return found

    def _note(self, number: int, slots: array[int], place: int, arrival: int, row: Row) -> None:
        end = row.end
        if not place:
            first = self._first
            if len(slots) < LARGE:
                for slot in slots:
                    if end < first[slot]:
                        first[slot] = end
            elif number not in self._low:
                of, own = np.frombuffer(first, np.int64), np.frombuffer(slots, np.int64)
                of[own] = np.minimum(of[own], end)
                self._low.add(number)
        self._append(number, place, arrival, row)

    # -- in columns --------------------------------------------------------------------------------

    def _sifted(self, arrival: int, now: int, waiting: Container[int]) -> list[Event] | None:
        """The same, if few of them concern a query; they need not be in order."""
        rows, count = self.rows, len(self.rows)
        if count > _MOST:
            return None
        numbers = np.frombuffer(self.numbers, np.int64)
        places = np.frombuffer(self.takers.places, np.int64)[numbers]
        ends = np.array([row.end for row in rows])
        starts = np.array([row.start for row in rows])
        times = np.where(places == self.last, starts, ends) if self._starting else ends
        if times.max() > now:
            return None
        arrivals = np.arange(arrival, arrival + count)
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            numbers, places, ends, starts = (a[order] for a in (numbers, places, ends, starts))
            arrivals, rows = arrivals[order], [rows[n] for n in order.tolist()]
        begins = places == 0
        if self._low:
            begins &= ~np.isin(numbers, [*self._low])
        concern = np.flatnonzero(begins | (places == self.last))
        expanded = self.takers.expanded(numbers[concern])
        if expanded is None:
            return None
        slots, which = expanded[0], concern[expanded[1]]
        place = places[which]
        first = np.frombuffer(self._first, np.int64)
        own, of = slots[place == 0], which[place == 0]
        np.minimum.at(first, own, ends[of])
        self._low.update(filter(self.takers.is_large, {*numbers[begins].tolist()}))
        may = (place == self.last) & (first[slots] < starts[which])
        slots, which = slots[may], which[may]
        if _CONCERN * len(slots) > count:
            self._warm(len(slots), count)
            return None
        self._taken()
        notes = np.flatnonzero(places < self.last)
        marks = self._gone + len(self._rows) + np.searchsorted(notes, which)
        self._note_all(numbers[notes])
        self._rows += [rows[n] for n in notes.tolist()]
        columns = (self._arrivals, self._ends, self._places, self._numbers)
        for column, of in zip(columns, (arrivals, ends, places, numbers), strict=True):
            column.frombytes(of[notes].tobytes())
        found: list[Event] = []
        gave: set[int] = set()
        pairs = (slots.tolist(), which.tolist(), arrivals[which].tolist(), marks.tolist())
        for slot, n, at, mark in zip(*pairs, strict=True):
            self._look(slot, at, rows[n], mark, waiting, gave, found)
        self._warm(len(found), count)
        return found

    # -- a query -----------------------------------------------------------------------------------

    def _look(
        self,
        slot: int,
        arrival: int,
        row: Row,
        mark: int,
        waiting: Container[int],
        gave: set[int],
        found: list[Event],
    ) -> None:
        """Give a document for the last block to a query, with what was noted before a mark, if it
        may complete something: `gave` are those that something was given to now."""
        owner, start = self.takers.owners[slot], row.start
        prefixes, prefix = self.prefixes, None
        if self.shares and owner not in self._from:
            prefix = prefixes.of(owner, self._channels(slot), self.takers, start)
        whose, had = (owner, self._had[slot]) if prefix is None else (prefix.number, prefix.had)
        since = self._since(had, start)
        noted = self._not_had(slot, since, mark)
        goes_on = whose in waiting or whose in gave
        if prefix is None:
            goes_on = goes_on and self._first[slot] == -FOR_EVER
        elif prefixes.pulls:
            goes_on = goes_on or owner in waiting or owner in gave
        if not goes_on:
            ends, places, gone = self._ends, self._places, self._gone
            for at in noted:
                if ends[at - gone] < start and not places[at - gone]:
                    break
            else:
                self._wait(slot, since)
                return
        gave.add(whose)
        self._first[slot] = -FOR_EVER
        if prefix is None:
            self._give(owner, slot, noted, found)
        elif noted:
            prefix.had = noted[-1] + 1
            self._tell(prefix.number, noted, 0, found)
        if self._from and arrival <= self._from.get(owner, 0):
            return
        event = self._readers[self.last].event(owner, arrival, row)
        if prefix is not None and prefixes.pulls:
            gave.add(owner)
            found.append((*event[:2], self.last + 1, owner, prefix.number, 0.0, row))
        elif prefix is not None:
            event = (*event[:4], prefix.number, *event[5:])
        found.append(event)

    def _wait(self, slot: int, since: int) -> None:
        """Nothing waits for a query but what is noted from a position on."""
        noted = [at - self._gone for at in self._not_had(slot, since)]
        begun = [at for at in noted if not self._places[at]]
        self._first[slot] = min([self._ends[at] for at in begun], default=FOR_EVER)
        self._low.difference_update(self.takers.earlier(slot) if self._low else ())

    def _give(self, owner: int, slot: int, noted: Sequence[int], found: list[Event]) -> None:
        """Give a query what is noted at positions, before which it has had everything."""
        self._first[slot] = -FOR_EVER
        if noted:
            self._had[slot] = noted[-1] + 1
            self._tell(owner, noted, self._from.get(owner, 0) if self._from else 0, found)

    def rest(self, owner: int) -> list[Event]:
        """All that a query has not had; which it has then, if nothing is shared."""
        found: list[Event] = []
        slot = self.takers.slot.get(owner)
        if slot is None:
            return found
        noted = self._not_had(slot, max(self._had[slot], self._gone))
        if self.shares:
            self._tell(owner, noted, self._from.get(owner, 0), found)
        elif noted:
            self._give(owner, slot, noted, found)
        return found

    def own(
        self,
        owner: int,
        events: Mapping[int | Channel, Sequence[Offered]],
        channels: Iterable[Channel],
    ) -> list[Event]:
        """The events of a query among these by query and channel, of which it is in some; they are
        not noted yet."""
        return own_of(owner, events, channels, self._readers, self._from.get(owner, 0))

    # -- time --------------------------------------------------------------------------------------

    def expire(self, watermark: int, pending: Collection[Offered]) -> Sequence[int]:
        """Drop what no match can contain any more; `pending` are not noted yet. Returns prefixes
        for which nothing waits any more."""
        horizon = -FOR_EVER if self._kept is None else watermark - self._kept
        if self._rows and self._ends[len(self._rows) // _PART] < horizon:
            self._drop(horizon)
        if self._from:
            since = min([*[event[1] for event in pending], *self._arrivals], default=FOR_EVER)
            self._from = {owner: at for owner, at in self._from.items() if at >= since}
        heads, gone = self._heads, self._gone
        kept = self.takers.forget(lambda number: heads[number] >= gone)
        if kept is None:
            return self.prefixes.forget(gone, horizon)
        self._renumber(kept)
        self._low.clear()
        return self.prefixes.forget(FOR_EVER, horizon)

    def _drop(self, horizon: int) -> None:
        """Drop what ended before a time, but for what is behind something else. Queries that had it
        wait for nothing, or for what is left."""
        self._cut(horizon)
        self._low.clear()
        first = np.frombuffer(self._first, np.int64)
        old = (first < horizon) & (first != -FOR_EVER)
        first[old] = FOR_EVER
        ends, places = np.frombuffer(self._ends, np.int64), np.frombuffer(self._places, np.int64)
        numbers = np.frombuffer(self._numbers, np.int64)
        for since in range(0, len(ends), _MOST):
            part = slice(since, since + _MOST)
            expanded = self.takers.expanded(numbers[part])
            if expanded is None:
                first[old] = -FOR_EVER  # which is found out when a document comes
                return
            slots, which = expanded
            own = old[slots] & (places[part][which] == 0)
            np.minimum.at(first, slots[own], ends[part][which[own]])

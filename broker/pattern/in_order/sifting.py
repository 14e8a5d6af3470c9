"""Which queries a document for the last block may concern, in columns.

Of very many queries hardly any has something that came before; these are told from all others for a
batch of documents at once, as most of what it costs to look at queries one by one is memory that is
in no cache. What is left out can be in no match.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from broker.pattern.in_order.ahead import Ahead
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.events import Candidate, Reader
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.log import DEEP, Log
from broker.pattern.in_order.pairing import Pairing
from broker.pattern.in_order.rising import Rising
from broker.pattern.in_order.takers import LARGE, Mask, Numbers, Takers
from broker.pattern.instances import Row
from broker.pattern.plan import Window

_CONCERN = 1
"""So many times what concerns a query are few of all that came."""

_HEAT = 64
"""How much of late says whether what comes concerns few."""

MOST = 2_000
"""Not more at once, as what came before one of them is looked for among all of them."""

Came = tuple[int, int, int, Row]
"""When a document is decided, its place in the order of arrival, the number of the channel that it
is for, and the document."""

Look = tuple[int, int, Row, int]
"""The slot of a query, and the arrival of a document for its last block, that, and the position
behind what was noted before it."""


class Sifting(Log):
    """By the slot of a query `_first` is the earliest end of what came for its first block and it
    has not had, or earlier; `FOR_EVER` if nothing did, and `-FOR_EVER` if something may wait. It
    has `_had` what was noted before a position; of those that have a pairing that, and what is
    spent.

    `numbers` and `rows` are of documents that nobody has looked at yet, one behind the other: those
    of their channels, and theirs."""

    def __init__(
        self,
        last: int,
        kept: Window,
        readers: Sequence[Reader],
        pairing: Pairing | None,
        rising: Rising | None,
    ) -> None:
        super().__init__(Takers(last), kept, readers)
        self.last = last
        self._starting = self._readers[last].starts
        self._from: dict[int, int] = {}
        """By query, the arrival up to which it has had everything."""
        self._first = array("q")
        self._low: set[int] = set()
        """The large channels of whose queries none has a first end behind what is noted now."""
        self._had = array("q")
        self.numbers = array("q")
        self.rows: list[Row] = []
        self.ahead: Ahead[Came] = Ahead()
        """Documents whose times are to come."""
        self._heat = 0
        """More than 0 if of late more was given to queries than came."""
        self.sifts = True
        """Whether less is given to queries than comes, so that it is worth while to sift it."""
        self._pairing = pairing
        self._paired: list[Candidate] = []
        """Matches that are found without the matcher."""
        self._rising = rising
        self._notes_last = rising is not None
        self._alone: dict[int, int] = {}
        """The slots of queries that have had something alone, or not all of what is noted: up to
        which time."""
        self._latest = -FOR_EVER
        """The latest end of all documents."""

    def enter(self, channel: Channel, place: int) -> int:
        """The number of a channel for the block at a place, which it has from now on."""
        if channel.number < 0:
            self._heads.append(-1)
            self.takers.enter(channel, place)
        return channel.number

    def take_paired(self) -> list[Candidate]:
        """The matches that were found without the matcher."""
        paired, self._paired = self._paired, []
        return paired

    def _warm(self, given: int, came: int) -> None:
        """So much was given, of so much that came."""
        heat = self._heat + given - came
        self._heat = _HEAT if heat > _HEAT else -_HEAT if heat < -_HEAT else heat
        self.sifts = heat <= 0 or self._rising is not None

    def _came(self, arrival: int) -> list[Came]:
        """The documents that nobody has looked at, the first of which arrived then, as they
        came."""
        numbers, rows = self.numbers, self.rows
        if not rows:
            return []
        self.numbers, self.rows = array("q"), []
        times = [row.end for row in rows]
        if self._rising is not None:
            self._latest = max(self._latest, *times)
        if self._starting:
            last, places = self.last, self.takers.places
            for n, number in enumerate(numbers):
                if places[number] == last:
                    times[n] = rows[n].start
        return [*zip(times, range(arrival, arrival + len(rows)), numbers, rows, strict=True)]

    def _due(self, arrival: int, now: int | None) -> list[Came]:
        """What is decided at a time, in order: of those documents, and of those ahead. The others
        are ahead from now on."""
        came, ahead = self._came(arrival), self.ahead
        came.sort()
        if now is None:
            ahead.add(came)
            return []
        if came and came[-1][0] <= now < ahead.first:
            return came
        ahead.add(came)
        return ahead.take(now)

    def _renumber(self) -> None:
        """Forget the channels for which there is nothing."""
        ahead = sorted(self.ahead)
        new = self._keep({number for _, _, number, _ in ahead})
        self.ahead.keep([(time, at, new[number], row) for time, at, number, row in ahead])
        self._low.clear()

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

    def _sifted(
        self, came: Sequence[Came], waiting: Collection[int], gave: Collection[int]
    ) -> Iterator[Look] | None:
        """Note documents, which are in order, and have those paired that can be. Returns which
        others concern a query; None, and nothing happens, if they are many. Something may wait for
        those queries in `waiting`, and for those that something was given to before."""
        count = len(came)
        times, at, of, rows = zip(*came, strict=True)
        arrivals, numbers = np.array(at), np.array(of)
        places = np.frombuffer(self.takers.places, np.int64)[numbers]
        ends = np.array([row.end for row in rows] if self._starting else times)
        starts = np.fromiter([row.start for row in rows], np.int64, count)
        begins = places == 0
        if self._low:
            begins &= ~np.isin(numbers, [*self._low])
        touch = np.flatnonzero(begins | (places == self.last))
        expanded = self.takers.expanded(numbers[touch])
        if expanded is None:
            return None
        slots, which = expanded[0], touch[expanded[1]]
        place = places[which]
        first = np.frombuffer(self._first, np.int64)
        begun = place == 0
        np.minimum.at(first, slots[begun], ends[which[begun]])
        self._low.update(self.takers.large(numbers[begins]))
        may = (place == self.last) & (first[slots] < starts[which])
        slots, which = slots[may], which[may]
        if self._pairing is None and self._rising is None and _CONCERN * len(slots) > count:
            self._warm(len(slots), count)
            return None
        notes = np.flatnonzero(places <= (self.last if self._notes_last else self.last - 1))
        mark = self._gone + len(self._rows)
        latest = self._note_all(numbers[notes])
        self._rows += [rows[n] for n in notes.tolist()]
        columns = (self._arrivals, self._ends, self._places, self._numbers)
        for column, values in zip(columns, (arrivals, ends, places, numbers), strict=True):
            column.frombytes(values[notes].tobytes())
        marks = mark + np.searchsorted(notes, which, side="right")
        if self._pairing is not None:
            waits = [waiting, gave]
            alone = self._pair(slots, which, starts[which], marks, latest, rows, waits)
            slots, which, marks = slots[alone], which[alone], marks[alone]
        looks = (slots.tolist(), arrivals[which].tolist(), [rows[n] for n in which.tolist()])
        return zip(*looks, marks.tolist(), strict=True)

    def _pair(
        self,
        slots: Numbers,
        which: Numbers,
        starts: Numbers,
        marks: Numbers,
        latest: tuple[Numbers, Numbers],
        rows: Sequence[Row],
        waits: Sequence[Collection[int]],
    ) -> Mask:
        """Find the matches of queries, by their slots, to which documents come, which start then,
        with what was noted before marks; for `latest` see `_heads_at`. Returns which of them have
        to be looked at one by one."""
        pairing = self._pairing
        assert pairing is not None
        assert self._kept is not None
        first, owners = np.frombuffer(self._first, np.int64), self.takers.owners
        for slot in {*slots[first[slots] == -FOR_EVER].tolist()}:
            if not any(owners[slot] in each for each in waits):
                self._wait(slot, max(self._had[slot], self._gone))
        if self._from:
            had_all = [slot for slot in slots.tolist() if owners[slot] in self._from]
            first[had_all] = -FOR_EVER
        ends, had = np.frombuffer(self._ends, np.int64), np.frombuffer(self._had, np.int64)
        since = self._gone + np.searchsorted(ends, starts - self._kept)
        since = np.maximum(since, had[slots])
        pairs, at, deep = self._followed(slots, since, starts, marks, latest)
        first[slots[deep]] = -FOR_EVER
        alone: Mask = first[slots] == -FOR_EVER
        chosen = ~alone[pairs]
        pairs, at = pairs[chosen], at[chosen]
        places = at - self._gone
        chosen = pairing.beyond(self._rows, places, rows, which[pairs])
        pairs, at, places = pairs[chosen], at[chosen], places[chosen]
        own, noted = slots[pairs].tolist(), places.tolist()
        pairing.take(
            zip(
                *(own, [owners[slot] for slot in own], at.tolist()),
                *([self._arrivals[place] for place in noted], [self._rows[n] for n in noted]),
                [rows[n] for n in which[pairs].tolist()],
                strict=True,
            ),
            self._paired,
        )
        return alone

    # -- a query -----------------------------------------------------------------------------------

    def _left(self, slot: int, since: int, mark: int = FOR_EVER) -> Sequence[int]:
        """The positions of what is noted for a query from a position on, and before a mark, and is
        not spent for it."""
        noted = self._not_had(slot, since, mark)
        return noted if self._pairing is None or not noted else self._pairing.left(slot, noted)

    def _wait(self, slot: int, since: int) -> None:
        """Nothing waits for a query but what is noted from a position on."""
        noted = [at - self._gone for at in self._not_had(slot, since)]
        begun = [at for at in noted if not self._places[at]]
        self._first[slot] = min([self._ends[at] for at in begun], default=FOR_EVER)
        self._low.difference_update(self.takers.earlier(slot) if self._low else ())

    def _pair_one(self, pairing: Pairing, slot: int, arrival: int, row: Row, mark: int) -> bool:
        """Find the matches of a query for which nothing waits but what is noted, with a document
        that comes to it. False, and nothing, if too much is noted."""
        since = self._since(self._had[slot], row.start)
        noted = self._not_had(slot, since, mark)
        # Where most of what comes goes on with what waits, more would be looked at in vain.
        many = len(noted) > (DEEP if self.sifts else 1)
        if many and not pairing.has_spent(row.end, slot, noted):
            return False
        if self._first[slot] == -FOR_EVER:
            self._wait(slot, since)
        for at in noted:
            if not pairing.is_over(slot, at, row.end):
                break
            self._had[slot] = at + 1
        self._pair_with(pairing, slot, noted, arrival, row)
        return True

    def _pair_with(
        self, pairing: Pairing, slot: int, noted: Sequence[int], arrival: int, row: Row
    ) -> None:
        owner, gone, start = self.takers.owners[slot], self._gone, row.start
        had_all = self._from.get(owner, 0) if self._from else 0
        if arrival <= had_all:
            return
        ends, rows, arrivals = self._ends, self._rows, self._arrivals
        for place in pairing.places_beyond(rows, [at - gone for at in noted], row):
            came = arrivals[place]
            if ends[place] < start and came > had_all:
                pair = (slot, owner, place + gone, came, rows[place], row)
                pairing.take((pair,), self._paired)

    # -- time --------------------------------------------------------------------------------------

    def _drop(self, horizon: int) -> None:
        """Drop what ended before a time, but for what is behind something else. Queries that had it
        wait for nothing, or for what is left."""
        gone = self._gone
        self._cut(horizon)
        if self._pairing is not None:
            self._pairing.cut(self._gone - gone, self._gone)
        self._low.clear()
        first = np.frombuffer(self._first, np.int64)
        old = (first < horizon) & (first != -FOR_EVER)
        first[old] = FOR_EVER
        ends, places = np.frombuffer(self._ends, np.int64), np.frombuffer(self._places, np.int64)
        numbers = np.frombuffer(self._numbers, np.int64)
        for since in range(0, len(ends), MOST):
            part = slice(since, since + MOST)
            expanded = self.takers.expanded(numbers[part])
            if expanded is None:
                first[old] = -FOR_EVER  # which is found out when a document comes
                return
            slots, which = expanded
            own = old[slots] & (places[part][which] == 0)
            np.minimum.at(first, slots[own], ends[part][which[own]])

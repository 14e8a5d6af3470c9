"""What comes to many queries before their last block, noted once, in columns; and which queries a
document for the last block may concern.

It is what `deferred.py` is for patterns whose documents are not found by a value. What is left in
when it is sifted comes to the matcher in the order of time, as if nothing had been left out; or the
matches are found without one, where two documents are a match.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from broker.pattern.in_order.channels import Channel, Offered
from broker.pattern.in_order.deferred import own_of
from broker.pattern.in_order.events import Event, Reader
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.pairing import Pairing
from broker.pattern.in_order.prefixes import Prefixes
from broker.pattern.in_order.rising import ANY, Began, Rising
from broker.pattern.in_order.sifting import MOST, Came, Sifting
from broker.pattern.instances import Row
from broker.pattern.plan import Window

_MANY = 48
"""So many documents are looked at in columns; fewer are looked at one by one."""

_PART = 8
"""What is over is dropped when it is so much of all that is noted."""


class Noted(Sifting):
    """Queries for which nothing is paired have their matches of the matcher, to which what is given
    here comes."""

    def __init__(
        self,
        last: int,
        kept: Window,
        readers: Sequence[Reader],
        *,
        pulls: bool = False,
        pairing: Pairing | None = None,
        rising: Rising | None = None,
    ) -> None:
        super().__init__(last, kept, readers, pairing, rising)
        self.shares = last > 1
        """Whether what waits is made once for queries that take the same before the last block."""
        self.lends = self.shares or pairing is not None
        self.prefixes = Prefixes(kept, pulls=pulls)
        self._completed: tuple[int, Began | None] = (-1, None)
        """A position, and what the document there may complete."""

    def join(self, owner: int) -> None:
        """A query comes."""
        self.takers.join(owner)
        self._first.append(FOR_EVER)
        self._had.append(0)

    def leave(self, owner: int) -> None:
        """A query goes."""
        del self.takers.slot[owner]

    def go_on(self, owner: int, rows: Iterable[Row]) -> None:
        """Something may wait for a query, to which these rows come alone."""
        slot = self.takers.slot.get(owner)
        if slot is not None:
            self._first[slot] = -FOR_EVER
            if self._rising is not None:
                until = self._alone.get(slot, self._latest)
                self._alone[slot] = max([self._latest, until, *[row.end for row in rows]])
        if self.shares:
            self.prefixes.came_alone([(owner, row) for row in rows])

    def forget(self, owner: int, arrival: int, undecided: bool) -> None:
        """A query has had, in another way, all that came up to now; if some of it is `undecided`,
        also what is noted later of that."""
        slot = self.takers.slot.get(owner)
        if slot is not None:
            self._had[slot] = self._gone + len(self._rows)
            if undecided or self.shares:
                self._from[owner] = arrival
            if self._rising is not None:
                self._alone[slot] = max(self._latest, self._alone.get(slot, self._latest))

    def saw(self, rows: Iterable[Row]) -> None:
        """Documents come for the last block; only lists look both ways."""

    # -- what has come -----------------------------------------------------------------------------

    def events(self, came: Iterable[Came]) -> list[Offered]:
        """Documents as events."""
        channels, places, readers = self.takers.channels, self.takers.places, self._readers
        return [
            readers[places[number]].offered(channels[number], arrival, row)
            for _, arrival, number, row in came
        ]

    def offered(self, arrival: int) -> list[Offered]:
        """Documents that nobody has looked at, the first of which arrived then, as events."""
        return self.events(self._came(arrival))

    def among(self, events: Sequence[Offered], arrival: int, now: int | None) -> Sequence[Offered]:
        """What is decided at a time, of documents that nobody has looked at, the first of which
        arrived then, and of those ahead, as events; with others, in order."""
        own = self.events(self._due(arrival, now))
        return sorted([*events, *own]) if own else events

    def decided(self, arrival: int, now: int | None, waiting: Collection[int]) -> list[Event]:
        """The same, given to queries; see `given`."""
        came = self._due(arrival, now)
        found: list[Event] = []
        if came:
            self.prefixes.begin((), one_by_one=False)
        gave: set[int] = set()
        for at in range(0, len(came), MOST):
            self._decide(came[at : at + MOST], waiting, gave, found)
        return found

    def _decide(
        self, came: Sequence[Came], waiting: Collection[int], gave: set[int], found: list[Event]
    ) -> None:
        """Give documents, which are in order, to queries."""
        look, given = self._looking(), len(found)
        if len(came) >= _MANY and self.sifts:
            looks = self._sifted(came, waiting, gave)
            if looks is not None:
                for slot, at, row, mark in looks:
                    look(slot, at, row, mark, waiting, gave, found)
                self._warm(len(found) - given, len(came))
                return
        last, takers, places, first = self.last, self.takers, self.takers.places, self._first
        for _, at, number, row in came:
            slots = takers.slots(number)
            if places[number] == last:
                start, mark = row.start, self._mark(number, at, row)
                for slot in slots:
                    if first[slot] < start:
                        look(slot, at, row, mark, waiting, gave, found)
            else:
                self._note(number, slots, places[number], at, row)
        self._warm(len(found) - given, len(came))

    def given(
        self, ready: Sequence[Offered], waiting: Collection[int], one_by_one: bool = False
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
        look = self._looking()
        for event in ready:
            if type(event[3]) is int:
                self._have_before(event, found)
                gave.add(event[3])
                found.append(event)
            elif event[2] < last:
                number = self.enter(event[3], event[2])
                self._note(number, takers.slots(number), event[2], event[1], event[-1])
            else:
                number, start = self.enter(event[3], event[2]), event[-1].start
                mark = self._mark(number, event[1], event[-1])
                for slot in takers.slots(number):
                    if first[slot] < start:
                        look(slot, event[1], event[-1], mark, waiting, gave, found)
        self._warm(len(found), len(ready))
        return found

    def _have_before(self, event: Offered, found: list[Event]) -> None:
        """Give a query what it has before an event of its own."""
        owner = event[3]
        slot = self.takers.slot.get(owner)
        if slot is None:
            return
        number, had = self.takers.one_earlier[slot], self._had[slot]
        some = number == -2 or (number >= 0 and self._heads[number] >= had) or self._notes_last
        since = max(had, self._gone) if self._notes_last else self._since(had, event[0])
        if some and (noted := self._left(slot, since)):
            self._give(owner, slot, noted, found)
        self._first[slot] = -FOR_EVER

    # -- a query -----------------------------------------------------------------------------------

    def _look(
        self,
        slot: int,
        arrival: int,
        row: Row,
        mark: int,
        waiting: Collection[int],
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
            # If it had a prefix before, it was asked since when something is noted for that.
            goes_on = goes_on and (self.shares or self._first[slot] == -FOR_EVER)
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

    def _look_at_pairs(
        self,
        slot: int,
        arrival: int,
        row: Row,
        mark: int,
        waiting: Collection[int],
        gave: set[int],
        found: list[Event],
    ) -> None:
        """The same where matches are paired: it is given what is not."""
        assert self._pairing is not None
        owner = self.takers.owners[slot]
        waits = self._first[slot] == -FOR_EVER and (owner in waiting or owner in gave)
        if not waits and self._pair_one(self._pairing, slot, arrival, row, mark):
            return
        gave.add(owner)
        self._give(
            owner, slot, self._left(slot, self._since(self._had[slot], row.start), mark), found
        )
        if not self._from or arrival > self._from.get(owner, 0):
            found.append(self._readers[self.last].event(owner, arrival, row))

    def _looking(
        self,
    ) -> Callable[[int, int, Row, int, Collection[int], set[int], list[Event]], None]:
        """How a document for the last block is given to a query."""
        if self._rising is not None:
            return self._look_at_rising
        return self._look if self._pairing is None else self._look_at_pairs

    def _mark(self, number: int, arrival: int, row: Row) -> int:
        """The position behind what is noted now; a document for the last block is noted as well, if
        such ones are."""
        if self._notes_last:
            self._append(number, self.last, arrival, row)
        return self._gone + len(self._rows)

    def _look_at_rising(
        self,
        slot: int,
        arrival: int,
        row: Row,
        mark: int,
        waiting: Collection[int],
        gave: set[int],
        found: list[Event],
    ) -> None:
        """The same where it is noted, too, as the last before the mark."""
        takers, began = self.takers, ANY
        if slot not in self._alone and takers.one_last[slot] >= 0 <= takers.one_earlier[slot]:
            may = self._completes(mark - 1)
            if may is None:
                return
            began = may
        if began is not ANY and not self._has_begun(takers.one_earlier[slot], began):
            return
        owner, had = takers.owners[slot], max(self._had[slot], self._gone)
        if owner not in waiting and owner not in gave:
            had = self._since(had, row.start)
        # What waits may have ended with a document that is too old for what begins.
        self._give(owner, slot, self._not_had(slot, had, mark), found)
        gave.add(owner)

    def _completes(self, at: int) -> Began | None:
        """What the document at a position may complete."""
        assert self._rising is not None
        if self._completed[0] != at:
            columns = self._rows, self._ends, self._before
            self._completed = at, self._rising.completes(at, *columns, self._gone)
        return self._completed[1]

    def _has_begun(self, number: int, began: Began) -> bool:
        """Whether a document of a channel is one that is asked for."""
        assert self._rising is not None
        ends, before, gone, at = self._ends, self._before, self._gone, self._heads[number]
        while at >= gone and ends[at - gone] >= began[0]:
            if ends[at - gone] < began[1] and self._rising.began(began, self._rows[at - gone]):
                return True
            at = before[at - gone]
        return False

    def _give(self, owner: int, slot: int, noted: Sequence[int], found: list[Event]) -> None:
        """Give a query what is noted at positions, before which it has had everything."""
        self._first[slot] = -FOR_EVER
        if noted:
            self._had[slot] = noted[-1] + 1
            self._tell(owner, noted, self._from.get(owner, 0) if self._from else 0, found)

    def rest(self, owner: int) -> list[Event]:
        """All that a query has not had; which it has then, if nothing is lent."""
        found: list[Event] = []
        slot = self.takers.slot.get(owner)
        if slot is None:
            return found
        noted = self._left(slot, max(self._had[slot], self._gone))
        if self.lends:
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

    def expire(self, watermark: int, pending: Iterable[Offered]) -> Sequence[int]:
        """Drop what no match can contain any more; `pending` are not noted yet. Returns prefixes
        for which nothing waits any more."""
        horizon = -FOR_EVER if self._kept is None else watermark - self._kept
        if self._rows and self._ends[len(self._rows) // _PART] < horizon:
            self._drop(horizon)
        if self._alone:
            self._alone = {slot: end for slot, end in self._alone.items() if end >= horizon}
        if self._from:
            arrivals = [*[each[1] for each in pending], *[each[1] for each in self.ahead]]
            since = min([*arrivals, *self._arrivals], default=FOR_EVER)
            self._from = {owner: at for owner, at in self._from.items() if at >= since}
        if not self.takers.crowded:
            return self.prefixes.forget(self._gone, horizon)
        self._renumber()
        return self.prefixes.forget(FOR_EVER, horizon)

"""Runs in the order of time: SKIP TILL NEXT MATCH, STRICT CONTIGUITY and PARTITION CONTIGUITY.

A run takes one document after the other; those that end at the same time never follow each other.
What may not be skipped closes a run for all that end later. With contiguity that is said by the
documents of a stream or a partition, whatever the constants of a query: one event closes the runs
of all queries there, and touches no query that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from broker.pattern.in_order.events import ALL, Candidate, Event, Key
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.run_forms import Running, slots_of
from broker.pattern.in_order.run_steps import NEW, Fed, Run, Steps, feed, is_fed
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, OfGroups, Row, due_from
from broker.pattern.trying import TooMuch
from xscl.interruption import PENDING, check

_Partition = tuple[str, ...] | None


class Live:
    """The runs of one query in one partition, by the items that they await; with contiguity all of
    them are under 0. Closed ones are dropped when they are met again. `begun` is the document with
    which runs began last in groups, as `fed` of a run. `seen` are the documents that runs have
    taken, or more: by their keys the version that was the first."""

    __slots__ = ("begun", "lanes", "seen")

    def __init__(self) -> None:
        self.begun: Fed = (0, 0)
        self.lanes: dict[int, list[Run]] = {}
        self.seen: dict[int, int] = {}

    def __bool__(self) -> bool:
        return any(self.lanes.values())

    def expire(self, alive: Callable[[Run], bool]) -> None:
        """Drop the runs that can take nothing any more."""
        for at, runs in self.lanes.items():
            self.lanes[at] = [run for run in runs if alive(run)]
        if len(self.seen) > _FEW:
            runs = [run for lane in self.lanes.values() for run in lane]
            self.seen = {row.key: row.doc for run in runs for row in run.rows()}


_FEW = 16
"""So many documents need not be forgotten."""


class Runs(Owned[Live]):
    """The runs of all queries of a form. `since` are the numbers from which each of them knows
    documents."""

    def __init__(self, form: Running, spending: Spending, since: Mapping[int, int]) -> None:
        super().__init__(spending)
        self._form = form
        self._since = since
        self._number = 0
        self._contiguous = form.selection != "SKIP TILL NEXT MATCH"
        self._by_partition = form.selection == "PARTITION CONTIGUITY"
        self._open: dict[_Partition, dict[Key, Live]] = {}
        """With contiguity, the runs that are not closed, by what closes them."""
        self._steps = Steps(form)
        self._slots = slots_of(form.places)

    # -- documents ---------------------------------------------------------------------------------

    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in the order of their ends. Adds the matches that they complete."""
        over, count = self.over, len(self._form.places)
        partitioned = self._form.partitioned
        for time, _, place, owner, _, _, row in events:
            if PENDING:
                check()
            ones: Iterable[_Partition] = (None,)
            if partitioned:
                tuples = row.tuples or ()
                ones = tuples if len(tuples) < 2 else sorted(tuples)
            if place >= count:
                for one in ones if self._by_partition else (None,):
                    self._close(one, owner, row)
                continue
            if owner in over:
                continue
            self._spending.renew()
            try:
                for one in ones:
                    self._offer(owner, one, place, time, row, found)
            except TooMuch:
                over.add(owner)

    def _offer(
        self, owner: int, one: _Partition, at: int, time: int, row: Row, found: list[Candidate]
    ) -> None:
        """A document comes that a query may take for an item."""
        key, steps, contiguous = (owner, one), self._steps, self._contiguous
        live = self.parts.get(key)
        if live is None and not steps.begins[at]:
            return
        made: list[Run] = []
        if steps.begins[at]:
            live = self._begin(live, key, at, row, made)
        if live is None:
            return
        if not (contiguous and steps.begins_only[at]):
            lane = 0 if contiguous else at
            runs = live.lanes.get(lane)
            if runs:
                self._step(live, lane, at, time, row, made)
        if not made:
            return
        live.seen.setdefault(row.key, row.doc)
        may_end, lanes = steps.may_end, live.lanes
        for run in made:
            if may_end[run.at] and steps.ends(run):
                self._number += 1
                found.append((owner, self._number, run, one))
            for to in (0,) if contiguous else steps.awaits(run):
                runs = lanes.get(to)
                if runs is None:
                    lanes[to] = [run]
                else:
                    runs.append(run)
        if contiguous:
            self._note(key, live)

    def _begin(
        self, live: Live | None, key: Key, at: int, row: Row, made: list[Run]
    ) -> Live | None:
        """Make a run that begins with a document for an item."""
        steps, once, doc = self._steps, self._steps.once[at], row.doc
        if once and live is not None and is_fed(live.begun, at, doc):
            return live
        run = steps.taken(NEW, at, row)
        if run is None:
            return live
        made.append(run)
        if live is None:
            live = self.open(key[0], key, Live())
        if once:
            live.begun = feed(live.begun, at, doc)
        return live

    def _note(self, key: Key, live: Live) -> None:
        """Note that there are runs which are not closed."""
        one = key[1] if self._by_partition else None
        known = self._open.get(one)
        if known is None:
            self._open[one] = {key: live}
        else:
            known[key] = live

    def _step(self, live: Live, lane: int, at: int, time: int, row: Row, made: list[Run]) -> None:
        """Let runs take a document for an item. Those that are over are dropped where nothing
        closes them."""
        steps, contiguous, start, runs = self._steps, self._contiguous, row.start, live.lanes[lane]
        since = time - (steps.last[-1] if contiguous else steps.last[at])
        spending, once, doc = self._spending, steps.once[at], row.doc
        again = live.seen.get(row.key, doc) != doc
        gone = False
        for run in runs:
            closed = run.closed
            if (closed is not None and closed < time) or run.start < since:
                gone = True
                continue
            if start <= run.end or (once and is_fed(run.fed, at, doc)):
                continue
            if (contiguous and not steps.reaches(run, at)) or (again and run.has(row.key)):
                continue
            spending.spend()
            taken = steps.taken(run, at, row)
            if taken is None:
                continue
            made.append(taken)
            if once:
                run.fed = feed(run.fed, at, doc)
            if not contiguous and closed is None:
                growing = steps.grows(run)
                if growing is None or growing == at:
                    run.closed = time
        if gone and not contiguous:
            live.lanes[lane] = [
                run
                for run in runs
                if (run.closed is None or run.closed >= time) and run.start >= since
            ]

    def _close(self, one: _Partition, owner: int, row: Row) -> None:
        """A document comes that no run may skip: of one query, or of all. Runs that an earlier one
        closed are dropped."""
        known = self._open.get(one)
        if not known:
            return
        since, base, start, end = self._since, row.base, row.start, row.end
        for key, live in [*known.items()]:
            if key[0] != owner and (owner != ALL or since[key[0]] > base):
                continue
            left, kept = False, []
            for run in live.lanes.get(0, ()):
                closed = run.closed
                if closed is None:
                    kept.append(run)
                    if start > run.end:
                        run.closed = end
                    else:
                        left = True
                elif closed >= end:
                    kept.append(run)
            live.lanes[0] = kept
            if not left:
                del known[key]
        if not known:
            del self._open[one]

    # -- matches -----------------------------------------------------------------------------------

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is."""
        run: Run = candidate[2]
        one: _Partition = candidate[3]
        absent = ((),) * (len(self._slots) - len(run.filled))
        tuples = None if one is None else frozenset([one])
        times = (run.start, run.end, run.end)
        filled = (*run.filled, *absent)
        return OfGroups(self._slots, filled, due_from(run.end), tuples, times)

    # -- time --------------------------------------------------------------------------------------

    def expire(self, watermark: int) -> None:
        """Drop the runs that can take nothing any more."""
        since = watermark - self._steps.last[-1]

        def alive(run: Run) -> bool:
            return run.start >= since and (run.closed is None or run.closed >= watermark)

        for live in self.parts.values():
            live.expire(alive)
        self.sweep()
        for one, known in [*self._open.items()]:
            left = {key: live for key, live in known.items() if self.parts.get(key) is live}
            if left:
                self._open[one] = left
            else:
                del self._open[one]

    def drop(self, owner: int) -> None:
        for key, _ in self.of(owner):
            known = self._open.get(key[1] if self._by_partition else None)
            if known is not None:
                known.pop(key, None)
        super().drop(owner)

    def borrow(self, other: Owned[Any], owner: int) -> None:
        super().borrow(other, owner)
        for key, live in self.of(owner):
            self._note(key, live)

    def copied(self, part: Live) -> Live:
        found = Live()
        found.begun, found.seen = part.begun, {**part.seen}
        twins = {id(run): run.copied() for runs in part.lanes.values() for run in runs}
        found.lanes = {at: [twins[id(run)] for run in runs] for at, runs in part.lanes.items()}
        return found

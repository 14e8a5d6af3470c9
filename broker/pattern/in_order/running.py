"""Runs in the order of time: SKIP TILL NEXT MATCH, STRICT CONTIGUITY and PARTITION CONTIGUITY.

A run takes one document after the other; those that end at the same time never follow each other.
What may not be skipped closes a run for all that end later. With contiguity that is said by the
documents of a stream or a partition, whatever the constants of a query: one event closes the runs
of all queries there, and touches no query that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from broker.pattern.in_order.events import ALL, Candidate, Event, Key
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.run_forms import Running
from broker.pattern.in_order.run_steps import NEW, Fed, Run, Steps, feed, is_fed
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, Part, Row, due_from, of_row
from broker.pattern.trying import TooMuch
from xscl.interruption import PENDING, check

_Partition = tuple[str, ...] | None


class Live:
    """The runs of one query in one partition, by the items that they await; with contiguity all of
    them are under 0. Closed ones are dropped when they are met again. `begun` is the document with
    which runs began last in groups, as `fed` of a run."""

    __slots__ = ("begun", "lanes")

    def __init__(self) -> None:
        self.begun: Fed = (0, 0)
        self.lanes: dict[int, list[Run]] = {}

    def __bool__(self) -> bool:
        return any(self.lanes.values())


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
        key = (owner, one)
        live = self.parts.get(key)
        made: list[Run] = []
        once, doc = self._steps.once[at], row.doc
        has_begun = once and live is not None and is_fed(live.begun, at, doc)
        if self._steps.begins[at] and not has_begun:
            run = self._steps.taken(NEW, at, row)
            if run is not None:
                made.append(run)
                if live is None:
                    live = self.open(owner, key, Live())
                if once:
                    live.begun = feed(live.begun, at, doc)
        lane = 0 if self._contiguous else at
        runs = None if live is None else live.lanes.get(lane)
        if live is not None and runs:
            live.lanes[lane] = self._step(runs, at, time, row, made)
        if live is None or not made:
            return
        for run in made:
            if self._steps.ends(run):
                self._number += 1
                found.append((owner, self._number, run, one))
            self._add(live, run)
        if self._contiguous:
            self._note(key, live)

    def _note(self, key: Key, live: Live) -> None:
        """Note that there are runs which are not closed."""
        self._open.setdefault(key[1] if self._by_partition else None, {})[key] = live

    def _step(self, runs: list[Run], at: int, time: int, row: Row, made: list[Run]) -> list[Run]:
        """Let runs take a document for an item. Returns those that may take more."""
        steps, contiguous, start = self._steps, self._contiguous, row.start
        limit = steps.last[-1] if contiguous else steps.last[at]
        spend, key = self._spending.spend, row.key
        once, doc = steps.once[at], row.doc
        kept: list[Run] = []
        for run in runs:
            closed = run.closed
            if (closed is not None and closed < time) or time - run.start > limit:
                continue
            kept.append(run)
            if start <= run.end or key in run.keys or (once and is_fed(run.fed, at, doc)):
                continue
            if contiguous and not steps.reaches(run, at):
                continue
            spend()
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
        return kept

    def _add(self, live: Live, run: Run) -> None:
        if self._contiguous:
            live.lanes.setdefault(0, []).append(run)
            return
        for at in self._steps.awaits(run):
            live.lanes.setdefault(at, []).append(run)

    def _close(self, one: _Partition, owner: int, row: Row) -> None:
        """A document comes that no run may skip: of one query, or of all."""
        known = self._open.get(one)
        if not known:
            return
        since, base, start, end = self._since, row.base, row.start, row.end
        for key, live in [*known.items()]:
            if key[0] != owner and (owner != ALL or since[key[0]] > base):
                continue
            left = False
            for run in live.lanes.get(0, ()):
                if run.closed is None:
                    if start > run.end:
                        run.closed = end
                    else:
                        left = True
            if not left:
                del known[key]
        if not known:
            del self._open[one]

    # -- matches -----------------------------------------------------------------------------------

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is."""
        run: Run = candidate[2]
        one: _Partition = candidate[3]
        parts: dict[int, Part] = {}
        single: dict[str, Row] = {}
        several: dict[str, tuple[Row | None, ...]] = {}
        for at, place in enumerate(self._form.places):
            leaf = place.leaf
            if place.group is None:
                row = run.rows[at]
                assert row is not None
                parts[leaf.slot] = row
                single.update(dict.fromkeys(leaf.variables, row))
            else:
                rows = run.elements.get(at, ())
                parts[place.group.slot] = tuple([of_row(leaf.slot, each) for each in rows])
                several.update(dict.fromkeys(leaf.variables, rows))
        return Instance(
            *(run.start, run.end, run.start, run.end, due_from(run.end)),
            *(parts, run.keys, None if one is None else frozenset([one]), single, several),
        )

    # -- time --------------------------------------------------------------------------------------

    def expire(self, watermark: int) -> None:
        """Drop the runs that can take nothing any more."""
        limit = self._steps.last[-1]
        for live in self.parts.values():
            for at, runs in live.lanes.items():
                live.lanes[at] = [
                    run
                    for run in runs
                    if run.start + limit >= watermark
                    and (run.closed is None or run.closed >= watermark)
                ]
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
        found.begun = part.begun
        twins = {id(run): copy(run) for runs in part.lanes.values() for run in runs}
        found.lanes = {at: [twins[id(run)] for run in runs] for at, runs in part.lanes.items()}
        return found

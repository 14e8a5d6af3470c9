"""The passing of time: what event patterns decide by it, and which documents expire."""

from __future__ import annotations

from broker.engine.parts import Parts
from broker.engine.retention import Retained
from broker.engine.search import Search
from broker.engine.suspending import halt_stopped, stop_known
from broker.engine.transactions import begin, prepare, searching
from broker.join.work import Stopped
from broker.model import UNBOUNDED, Waiting
from broker.results.matches import in_order, uncut
from broker.shared_match import SharedMatch

_SHARE = 16
"""Documents expire after a batch once as many have come as this part of those in memory."""


class Passing:
    """The time of an engine; for the public methods see `Engine`."""

    def __init__(self, parts: Parts, search: Search) -> None:
        self._parts = parts
        self._search = search
        self._expired_at = 0
        """The number of the next document when documents expired last after a batch."""
        self._due = False
        """Whether documents are to expire once the tables lack little."""

    def advance(self) -> None:
        """Store the batch's progress, and expire documents from time to time."""
        parts = self._parts
        parts.admission.write()
        parts.standings.end()
        parts.batches_applied += 1
        if parts.batches_applied % parts.expiry_every == 0 and self._expiry_pays():
            self._due = True
        if self._due and parts.store.is_near:
            self._due = False
            self.expire()

    def _expiry_pays(self) -> bool:
        """Whether so many documents have come since the last expiry that looking at all that are
        stored costs little for each of them."""
        parts = self._parts
        come = parts.admission.next_doc - self._expired_at
        if come * _SHARE < len(parts.joiner.postings.records):
            return False
        self._expired_at = parts.admission.next_doc
        return True

    def expire(self) -> None:
        self._parts.retention.expire(self._come(self._parts.newest()))

    def tick(self, now: int) -> list[SharedMatch]:
        parts = self._parts
        believed, steady = parts.wall.correct(now), parts.wall.steady()
        if steady - parts.ticked < parts.watermark.idle:
            return []
        parts.limits.forget(now)
        prepare(parts)
        parts.joiner.refresh()
        matches: list[SharedMatch] = []
        decides = bool(parts.standings) and not parts.admission.history_is_pending()
        with parts.store.transaction(), searching(parts):
            begin(parts, one_by_one=True, now=believed)
            moved = parts.watermark.heartbeat(believed)
            highest = parts.watermark.highest_at(believed)
            if decides:
                matches = self._decided(highest, now)
            if moved:
                parts.admission.write()
            parts.standings.end()
            parts.retention.expire(self._come(highest))
        parts.ticked = steady
        parts.limits.commit(now)
        return matches + self._elsewhere() if decides else matches

    def _elsewhere(self) -> list[SharedMatch]:
        """What was decided elsewhere in the transaction that has ended."""
        elsewhere = self._parts.elsewhere
        if elsewhere is None:
            return []
        elsewhere.committed()
        return elsewhere.found()

    def _decided(self, highest: int, now: int | None) -> list[SharedMatch]:
        """The matches of event patterns that are decided by the time alone."""
        parts = self._parts
        doc = parts.admission.next_doc - 1
        stop_known(parts, doc)
        if parts.elsewhere is not None:
            parts.elsewhere.begin([])
        found = self._search.settle_all(doc, highest, now)
        halt_stopped(parts, now)
        if parts.elsewhere is not None:
            found = uncut(found, parts.limits)
        matches = in_order(found)
        parts.outbox.post(matches)
        if parts.elsewhere is not None:
            parts.elsewhere.post()
        return matches

    def waiting(self, rows: int | None = None) -> list[Waiting]:
        parts = self._parts
        if not parts.standings:
            return []
        prepare(parts)
        try:
            with parts.store.transaction(), searching(parts):
                parts.standings.begin(parts.newest())
                found = parts.standings.waiting(rows)
        except Stopped:
            return []  # it is not known at once
        if parts.elsewhere is not None:
            found += parts.elsewhere.waiting()[0]
        return sorted(found, key=lambda each: (each.decides or UNBOUNDED, each.query))

    def decide(self) -> list[SharedMatch]:
        parts = self._parts
        found: list[SharedMatch] = []
        before = None
        while (latest := self._latest()) is not None and latest != before:
            before = latest
            parts.joiner.refresh()
            with parts.store.transaction(), searching(parts):
                begin(parts, one_by_one=True)
                found += self._decided(latest, None)
                self.advance()
            parts.limits.commit(None)
            parts.admission.committed()
            found += self._elsewhere()
        return found

    def _latest(self) -> int | None:
        """The highest time at which all is decided, but for what waits for ever."""
        parts = self._parts
        if not parts.standings:
            return None
        prepare(parts)
        with parts.store.transaction():
            parts.standings.begin(parts.newest())
        found = [parts.standings.latest()]
        if parts.elsewhere is not None:
            found.append(parts.elsewhere.waiting()[1])
        return max([each for each in found if each is not None], default=None)

    def decides_by(self) -> int:
        parts = self._parts
        if parts.standings and parts.admission.history_is_pending():
            return parts.standings.settled
        return max(parts.newest(), parts.standings.settled)

    def retain(self, documents: int | None, identities: int | None) -> Retained:
        parts = self._parts
        seen = self._come(parts.newest())
        forgotten = 0
        parts.joiner.refresh()
        with parts.store.transaction():
            begin(parts)
            gone = parts.retention.expire(seen, documents)
            if identities is not None:
                forgotten = parts.retention.forget(seen, identities)
        if forgotten:
            parts.admission.rebuild_keys()
        return Retained(gone, forgotten)

    def _come(self, seen: int) -> int:
        """The highest time by which may be deleted."""
        return min(seen, self._parts.wall.come())

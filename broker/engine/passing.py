"""The passing of time: what event patterns decide by it, and which documents expire."""

from __future__ import annotations

from broker.engine.parts import Parts
from broker.engine.retention import Retained
from broker.engine.search import Search
from broker.engine.suspending import halt_stopped, stop_known
from broker.engine.transactions import begin, searching
from broker.join.work import Stopped
from broker.model import Waiting
from broker.results.matches import in_order
from broker.shared_match import SharedMatch


class Passing:
    """The time of an engine; for the public methods see `Engine`."""

    def __init__(self, parts: Parts, search: Search) -> None:
        self._parts = parts
        self._search = search

    def advance(self) -> None:
        """Store the batch's progress, and expire documents from time to time."""
        parts = self._parts
        parts.admission.write()
        parts.standings.end()
        parts.batches_applied += 1
        if parts.batches_applied % parts.expiry_every == 0:
            self.expire()

    def expire(self) -> None:
        self._parts.retention.expire(self._come(self._parts.newest()))

    def tick(self, now: int) -> list[SharedMatch]:
        parts = self._parts
        believed, steady = parts.wall.correct(now), parts.wall.steady()
        if steady - parts.ticked < parts.watermark.idle:
            return []
        parts.limits.forget(now)
        parts.joiner.refresh()
        matches: list[SharedMatch] = []
        with parts.store.transaction(), searching(parts):
            begin(parts, one_by_one=True, now=believed)
            moved = parts.watermark.heartbeat(believed)
            highest = parts.watermark.highest_at(believed)
            if parts.standings and not parts.admission.history_is_pending():
                matches = self._decided(highest, now)
            if moved:
                parts.admission.write()
            parts.standings.end()
            parts.retention.expire(self._come(highest))
        parts.ticked = steady
        parts.limits.commit(now)
        return matches

    def _decided(self, highest: int, now: int | None) -> list[SharedMatch]:
        """The matches of event patterns that are decided by the time alone."""
        parts = self._parts
        doc = parts.admission.next_doc - 1
        stop_known(parts, doc)
        found = in_order(self._search.settle(doc, highest, now))
        halt_stopped(parts, now)
        parts.outbox.post(found)
        return found

    def waiting(self) -> list[Waiting]:
        parts = self._parts
        if not parts.standings:
            return []
        try:
            with parts.store.transaction(), searching(parts):
                parts.standings.begin(parts.newest())
                return parts.standings.waiting()
        except Stopped:
            return []  # it is not known at once

    def decide(self) -> list[SharedMatch]:
        parts = self._parts
        found: list[SharedMatch] = []
        before = None
        while self.waiting() and (latest := parts.standings.latest()) != before:
            before = latest
            if latest is None:
                break
            parts.joiner.refresh()
            with parts.store.transaction(), searching(parts):
                begin(parts, one_by_one=True)
                found += self._decided(latest, None)
                self.advance()
            parts.limits.commit(None)
            parts.admission.committed()
        return found

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
        parts.admission.rebuild_keys()
        return Retained(gone, forgotten)

    def _come(self, seen: int) -> int:
        """The highest time by which may be deleted."""
        return min(seen, self._parts.wall.come())

"""Stage 2: witnesses and state in, matches out; one DuckDB transaction per batch.

The transaction holds everything that a batch changes: documents, match relations, the matches in
the outbox, dead letters, suspended subscriptions, and how far each source has been applied. What
was applied before is dropped on entry, so a batch may be replayed after a crash. Where it fails,
memory goes back with the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

import pyarrow as pa

from broker.documents.admission import Admission, Requested
from broker.documents.admitted import (
    Admitted,
    document_key,
    numbered,
    stored_documents,
    witness_rows,
)
from broker.documents.arrow import Arrivals
from broker.documents.dead_letters import Letters
from broker.documents.watermark import WallClock, Watermark
from broker.documents.witnessing import arrivals as witnessed
from broker.join.joiner import MEMORY, Joiner
from broker.model import (
    UNBOUNDED,
    DeadLetter,
    Limit,
    Match,
    Registered,
    Revisions,
    Status,
    Subscribed,
    Suspension,
)
from broker.query.prepared import Compiled
from broker.results.matches import Result, apart, as_document, in_order, results
from broker.retention import Retained, Retention
from broker.state.outbox import Outbox
from broker.state.relations import MatchRelations, StoredDocument
from broker.state.store import Store
from broker.stopwatch import Clock
from broker.subscriptions.limits import Limits
from broker.subscriptions.listing import Listing
from broker.subscriptions.registry import Registry

LATENESS = 7 * 86_400 * 1_000_000
"""Allowed lateness by default, in microseconds."""

IDLE = 60 * 1_000_000
"""How long nothing may come, by default, before time moves by itself, in microseconds."""

_EXPIRY_EVERY = 64
"""Batches between two looks for what may go."""


def steady_time() -> int:
    """Microseconds of a clock that never jumps."""
    return time.monotonic_ns() // 1_000


class Engine:
    """The catalog of subscriptions over a store, and the processing of batches.

    `lateness`, `lateness_of` (by stream) and `idle` are in microseconds, see
    `broker/documents/watermark.py`; `memory` is the number of documents whose values are held in
    memory; `limit` is what each subscription may match, unless it has a limit of its own. Times
    named `now` are microseconds of the wall clock, and None where nobody knows it. `steady` is a
    clock in microseconds that never jumps. `revisions` replace what is stored and fire nothing, or
    "flow" as documents of their own, which never match other versions of theirs. Used by one thread
    at a time.
    """

    def __init__(
        self,
        store: Store,
        lateness: int = LATENESS,
        memory: int = MEMORY,
        *,
        lateness_of: Mapping[str, int] | None = None,
        limit: Limit | None = None,
        idle: int = IDLE,
        steady: Callable[[], int] = steady_time,
        revisions: Revisions = "replace",
    ) -> None:
        self.store = store
        self._flow = revisions == "flow"
        self.clock = Clock()
        self.wall = WallClock(steady)
        self._settings = (lateness, dict(lateness_of or {}), idle, steady)
        self._memory = memory
        self._limit = limit
        self._requested: Requested | None = None
        with store.loading():
            self._load()

    def _load(self) -> None:
        """All that is in memory, from the store."""
        store = self.store
        self.relations = relations = MatchRelations(store)
        lateness, lateness_of, idle, steady = self._settings
        highest = store.number("highest_timestamp", -UNBOUNDED)
        self.watermark = Watermark(highest, lateness, lateness_of, idle, steady)
        self.limits = Limits(store, self._limit)
        self.registry = Registry(store, self.limits.leave)
        self.listing = Listing(store)
        self.catalog = self.registry.catalog
        self.matcher = self.registry.matcher
        self.joiner = Joiner(relations, self.catalog, self._memory)
        self.letters_kept = Letters(store)
        self.outbox = Outbox(store)
        self.admission = Admission(
            store, relations, self.watermark, self.letters_kept, flow=self._flow
        )
        self.admission.requested = self._requested
        self.retention = Retention(store, relations, self.catalog, self.joiner, self.admission)
        self._batches = 0
        self._ticked = steady()

    def expect(self, requested: Requested) -> None:
        """Documents of a log that users asked for, which are never late; while some are still to
        come nothing expires, so that they join what they belong to."""
        self._requested = self.admission.requested = requested

    def _ready(self) -> None:
        """Go on with the file where DuckDB has given up on it."""
        if self.store.broken:
            self.store.reopen()
            with self.store.loading():
                self._load()

    # -- subscriptions -----------------------------------------------------------------------

    def subscribe(self, compiled: Sequence[Compiled], now: int | None = None) -> list[Subscribed]:
        """Register queries from the next document on, all or none. Raises `XsclError`.

        One that is registered with the same canonical text goes on as it is, paused or not; a
        changed text under a known id is a new subscription in its place.
        """
        self._ready()
        return self.registry.subscribe(compiled, self.admission.next_doc, now)

    def unsubscribe(self, *ids: str) -> None:
        """Remove subscriptions, active or not, all or none. KeyError if there is none of an id."""
        self._ready()
        self.registry.unsubscribe(ids)

    def pause(self, id: str, reason: str = "paused", now: int | None = None) -> None:
        """Let a subscription see no documents from the next one on; it costs nothing meanwhile. One
        that is not active stays as it is. KeyError if there is none of that id."""
        self.pause_all([id], reason, now)

    def pause_all(
        self, ids: Sequence[str], reason: str = "paused", now: int | None = None
    ) -> list[str]:
        """Pause subscriptions, all or none; the ids of those that were active."""
        self._ready()
        return self.registry.halt(ids, "paused", reason, self.admission.next_doc, now)

    def resume(self, id: str, now: int | None = None) -> None:
        """Let a subscription that was paused or suspended count again, from the next document on,
        as if it were new. One that is active stays as it is. KeyError if there is none of that
        id."""
        self.resume_all([id], now)

    def resume_all(self, ids: Sequence[str], now: int | None = None) -> list[str]:
        """Resume subscriptions, all or none; the ids of those that were not active."""
        self._ready()
        resumed = self.registry.resume(ids, self.admission.next_doc, now)
        for id in resumed:
            self.limits.renew(self.registry.known_or_fail(id).number)
        return resumed

    def registered(
        self,
        *,
        status: Status | None = None,
        prefix: str = "",
        after: str = "",
        limit: int = UNBOUNDED,
    ) -> list[Registered]:
        """The subscriptions, in order of their ids: those of a status, or of any, whose ids begin
        with `prefix` and come behind `after`, at most `limit` of them.

        They are read from what is committed, by whatever thread, without waiting for a batch.
        """
        with self.store.snapshot() as statements:
            return Listing(statements).page(status, prefix, after, limit)

    def registered_of(self, ids: Sequence[str]) -> list[Registered]:
        """Those of these ids, as they stand."""
        return self.listing.of(ids)

    def registered_one(self, id: str) -> Registered:
        """A subscription as it stands. KeyError if there is none of that id."""
        self.registry.known_or_fail(id)
        return self.listing.one(id)

    def take_suspensions(self) -> list[Suspension]:
        """The suspensions since the last call. Who asks again has reported those before to their
        owners; until then, a restart names them once more."""
        return self.registry.take_suspensions()

    def set_limit(self, id: str, limit: Limit | None) -> None:
        """Give a subscription a limit of its own; None: the one for all. KeyError if there is none
        of that id."""
        self._ready()
        self.limits.change(self.registry.known_or_fail(id).number, limit)

    def spec(self) -> bytes:
        """Stage 1's compiled form for the queries of now; the same object while they stay so."""
        return self.registry.spec()

    # -- batches -----------------------------------------------------------------------------

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[Match]:
        """Apply a batch in one transaction; the matches that it completes, in order of their end.

        How documents are cut into batches changes no match. On an exception nothing of the batch
        has happened. A document dated after `now` is kept as it is, but does not move the watermark
        beyond it: one wrong date must not make all others late. A subscription that goes over its
        limit is suspended, see `broker/subscriptions/limits.py`.

        With `position` all documents are of one log, whatever their source, their `seq` numbers are
        those of its rows, and up to there it has been applied with this batch.
        """
        self._ready()
        believed = self.wall.read(now)
        self.joiner.refresh()
        with self.store.transaction():
            self._begin()
            self.clock.start()
            admitted = self.admission.admit(arrivals.documents, believed, now, position)
            self.clock.lap("admit")
            found: list[Result] = []
            for run in _runs(admitted):
                for piece in self.limits.pieces(run):
                    found += self._cascade(self._process(piece, arrivals.rows, now), now)
                    self._halt(now)
            matches = in_order(found)
            self.outbox.post(matches)
            self._advance()
            self.clock.lap("store")
        self.limits.commit(now)
        self.admission.committed()
        self.clock.lap("commit")
        return matches

    def history(self, documents: Sequence[StoredDocument], rows: pa.Table) -> list[Match]:
        """Matches that documents complete which another engine has admitted, of which these are the
        witness rows; they keep their numbers. Results of matches are no documents here."""
        self.joiner.refresh()
        with self.store.transaction():
            self._begin()
            self.relations.insert(documents, rows)
            matches = in_order(self._evaluate(documents, rows, None))
            self._halt(None)
        self.limits.commit(None)
        return matches

    def _begin(self) -> None:
        """A batch begins, in a transaction."""
        self.limits.begin()
        self.admission.begin()
        self.store.undo(self.joiner.reset)
        self.store.undo(self.joiner.templates.reset)

    def _halt(self, now: int | None) -> None:
        """Suspend who went over the limit; of what is left of the batch they see nothing."""
        if not self.limits.cuts:
            return
        for id, doc, reason in self.limits.take_stopped():
            self.registry.halt([id], "suspended", reason, doc, now)
        self.joiner.refresh()

    def _cascade(self, found: list[Result], now: int | None) -> list[Result]:
        """The matches, and those that their results complete as documents of their own streams."""
        complete: list[Result] = []
        while found:
            complete += [f for f in found if not f.hidden]
            derived = [f for f in found if self.catalog.read[f.match.stream or ""]]
            derived.sort(key=Result.order)
            published = witnessed(self.matcher, [as_document(f.match) for f in derived])
            run: list[Admitted] = []
            for position, (f, row) in enumerate(zip(derived, published.documents, strict=True)):
                doc = self.admission.take_number()
                if row.error is not None:
                    self.letters_kept.add([(row, row.error)], now)
                    continue
                self.limits.derive(doc, f.docs)
                key = document_key(row.source, row.id)
                document = numbered(row, key, doc, f.base, f.match.start_us)
                run.append(Admitted(position, document))
            found = self._process(run, published.rows, now) if run else []
        if self.limits.cuts:
            # What a document's results complete may be what is too much of that document.
            complete = [f for f in complete if self.limits.receives(f.number, f.docs)]
        return complete

    def _process(self, run: list[Admitted], rows: pa.Table, now: int | None) -> list[Result]:
        """Insert a run of new documents and find its matches, or replace a run of revised ones."""
        documents, rows = stored_documents(run), witness_rows(run, rows)
        revised = [a.document.doc for a in run if a.revision]
        if revised:
            self.relations.delete(revised)
        self.relations.insert(documents, rows)
        self.clock.lap("store")
        if revised:
            self.joiner.replace(revised, rows)
            return []
        return self._evaluate(documents, rows, now)

    def _evaluate(
        self, documents: Sequence[StoredDocument], rows: pa.Table, now: int | None
    ) -> list[Result]:
        """The matches that new documents complete, of which these are the witness rows."""
        limits, templates = self.limits, self.joiner.templates
        candidates = self.joiner.candidates(rows)
        if candidates and self.relations.versioned:
            candidates = apart(self.relations, candidates)
        searched = len(candidates)
        self.clock.lap("join")
        if limits and candidates:
            limits.find_exceeded(candidates, templates.shapes, self.relations.intervals, now)
            limits.stop_outer_queries(self.catalog)
            candidates = limits.wanted(candidates)
        found: list[Result] = []
        if candidates:
            found = results(self.relations, templates.shapes, limits, documents, candidates)
        limits.count(len(documents), searched, [f.number for f in found])
        self.clock.lap("publish")
        return found

    def post(self, matches: Sequence[Match]) -> None:
        """Into the outbox, in the transaction of now."""
        self.outbox.post(matches)

    # -- time --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Write down how far the batch went, and let go what no match can reach any more."""
        self.admission.write()
        self._batches += 1
        if self._batches % _EXPIRY_EVERY == 0:
            self.expire()

    def expire(self) -> None:
        """Forget what no match to come can hold, see `broker/retention.py`."""
        self.retention.expire(self.watermark.seen(self.wall.believed()))

    def tick(self, now: int) -> None:
        """Let time pass: to be called every few seconds. Where no document has come for `idle`, the
        watermark moves with the clock, and what no match can reach any more goes. At most once in
        `idle` there is anything to do."""
        self._ready()
        believed, steady = self.wall.read(now), self.wall.steady()
        if steady - self._ticked < self.watermark.idle:
            return
        self._ticked = steady
        self.limits.forget(now)
        with self.store.transaction():
            self._begin()
            if self.watermark.heartbeat(believed):
                self.admission.write()
            self.retention.expire(self.watermark.seen(believed))

    def retain(self, documents: int | None = None, identities: int | None = None) -> Retained:
        """Bounds that hold whatever the windows, in microseconds before the newest time: what ended
        longer ago than `documents` goes, also under a window of INFINITY, and the identity of what
        has gone is forgotten after `identities` (never within the lateness). None: no bound."""
        self._ready()
        seen = self.watermark.seen(self.wall.believed())
        forgotten = 0
        self.joiner.refresh()
        with self.store.transaction():
            self._begin()
            gone = self.retention.expire(seen, documents)
            if identities is not None:
                forgotten = self.retention.forget(seen, identities)
        self.admission.renew_keys()
        return Retained(gone, forgotten)

    def newest(self) -> int:
        """The highest time so far, in microseconds; very low before the first document."""
        return self.watermark.seen(self.wall.believed())

    def applied(self, sources: Iterable[str]) -> int:
        """The highest sequence number applied of any of these sources, 0 for none."""
        return self.admission.applied(sources)

    @property
    def position(self) -> int:
        """How far the log has been applied of which `apply` was told; 0: it never was."""
        return self.admission.position

    def live_documents(self) -> int:
        """How many documents are in memory."""
        self.joiner.refresh()
        return len(self.joiner.postings.records)

    # -- delivery ----------------------------------------------------------------------------

    def undelivered(self, limit: int = 1_000) -> list[Match]:
        """Matches that nobody has acknowledged, oldest first."""
        return self.outbox.undelivered(limit)

    def acknowledge(self, ids: Iterable[str]) -> None:
        """Take matches out of the outbox, by their ids."""
        self._ready()
        self.outbox.acknowledge(ids)

    # -- dead letters --------------------------------------------------------------------------

    def letters(self, after: int = 0, limit: int = 1_000) -> list[DeadLetter]:
        """What was kept aside, in order of its numbers, from the one behind `after` on."""
        return self.letters_kept.read(after, limit)

    def count_letters(self) -> int:
        return self.letters_kept.count()

    def forget_letters(
        self, numbers: Iterable[int] | None = None, *, before: int | None = None
    ) -> int:
        """Delete those of these numbers, and those kept aside before a time of the wall clock; how
        many there were."""
        self._ready()
        return self.letters_kept.forget(numbers, before)


def _runs(admitted: list[Admitted]) -> list[list[Admitted]]:
    """Cut where new documents and revisions meet: a revision counts for what arrives after it."""
    return [list(group) for _, group in groupby(admitted, key=lambda a: a.revision)]

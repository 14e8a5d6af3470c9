"""Stage 2: witnesses and state in, matches out; one DuckDB transaction per batch.

The transaction holds everything that a batch changes: documents, match relations, the matches in
the outbox, dead letters, suspended subscriptions, and the sequence numbers applied. Documents that
were applied before are dropped, so a batch may be replayed after a crash. If a transaction fails,
memory is rolled back with the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby

import pyarrow as pa
import pyarrow.compute as pc

from broker.documents.admission import Admission, Requested
from broker.documents.admitted import (
    Admitted,
    document_key,
    numbered,
    stored_documents,
    witness_rows,
)
from broker.documents.ahead import WORTH, Ahead
from broker.documents.arrow import Arrivals
from broker.documents.dead_letters import DeadLetters, page
from broker.documents.watermark import WallClock, Watermark
from broker.documents.witnessing import arrivals as witnessed
from broker.join.budget import Again, Budget
from broker.join.joiner import MEMORY, Joiner
from broker.join.work import Overdue, Work
from broker.model import (
    UNBOUNDED,
    Budgets,
    DeadLetter,
    Limit,
    Registered,
    Revisions,
    Status,
    Subscribed,
    Suspension,
    Waiting,
)
from broker.query.catalog import Subscription
from broker.query.prepared import Compiled
from broker.results.contents import Contents
from broker.results.matches import (
    Derived,
    Making,
    Result,
    apart,
    as_document,
    derived,
    in_order,
    results,
    uncut,
)
from broker.results.publisher import Plans
from broker.results.undelivered import restored
from broker.retention import Retained, Retention
from broker.shared_match import SharedMatch
from broker.standing.deciding import Deciding
from broker.standing.standings import Standings
from broker.standing.why import Why
from broker.state.outbox import Outbox
from broker.state.progress import Progress
from broker.state.relations import MatchRelations, StoredDocument
from broker.state.store import MEMORY_ERRORS, Store
from broker.statistics.outline_table import OutlineTable
from broker.statistics.streams import StreamCatalogue
from broker.stopwatch import Stopwatch
from broker.subscriptions.limits import Limits
from broker.subscriptions.listing import Listing
from broker.subscriptions.registry import Registry
from broker.subscriptions.set_aside import set_aside
from broker.subscriptions.witnessing import with_care
from feeds.rows import DocumentRow

LATENESS = 7 * 86_400 * 1_000_000
"""Allowed lateness by default, in microseconds."""

IDLE = 60 * 1_000_000
"""Default time without documents after which the watermark moves with the clock, in
microseconds."""

DEFAULT_BUDGETS = Budgets()

_EXPIRY_EVERY = 64
"""Batches between two runs of expiry."""


def steady_time() -> int:
    """A monotonic clock in microseconds."""
    return time.monotonic_ns() // 1_000


class Engine:
    """The catalog of subscriptions over a store, and the processing of batches.

    `lateness`, `lateness_of` (by stream) and `idle` are in microseconds, see
    `broker/documents/watermark.py`; `memory` is the number of documents whose values are held in
    memory; `limit` applies to each subscription that has no limit of its own; `budgets` bound the
    work of each query at each document, see `broker/join/budget.py`. Times named `now` are
    microseconds of the wall clock, None if it is unknown. `steady` is a monotonic clock in
    microseconds. `pattern_lateness` says of an event pattern by how much its watermark is behind,
    if another engine knows that. `revisions` "replace" the stored document and complete no match,
    or "flow" as documents of their own, which never match other versions of themselves. With
    `keeping`, acknowledged matches stay in the outbox until `release`. `work` is the search while
    it runs, which other threads may stop. Used by one thread at a time.
    """

    def __init__(  # noqa: PLR0913  # each by its keyword
        self,
        store: Store,
        lateness: int = LATENESS,
        memory: int = MEMORY,
        *,
        lateness_of: Mapping[str, int] | None = None,
        limit: Limit | None = None,
        budgets: Budgets = DEFAULT_BUDGETS,
        idle: int = IDLE,
        steady: Callable[[], int] = steady_time,
        revisions: Revisions = "replace",
        pattern_lateness: Callable[[Subscription], int] | None = None,
        keeping: bool = False,
        work: Work | None = None,
    ) -> None:
        self.store = store
        self._keeping = keeping
        self.work = work or Work()
        self._flow = revisions == "flow"
        self.clock = Stopwatch()
        self.wall = WallClock(steady)
        self._settings = (lateness, dict(lateness_of or {}), idle, steady)
        self._memory = memory
        self._limit = limit
        self._budgets = budgets
        self._pattern_lateness = pattern_lateness
        self._requested: Requested | None = None
        with store.loading():
            self._load()

    def _load(self) -> None:
        """Build everything in memory from the store."""
        store = self.store
        self.relations = relations = MatchRelations(store)
        lateness, lateness_of, idle, steady = self._settings
        progress = Progress(store)
        highest = progress.read().highest
        self.watermark = Watermark(highest, lateness, lateness_of, idle, steady)
        self.limits = Limits(store, self._limit)
        self.registry = Registry(store, self._withdrawn)
        self.listing = Listing(store)
        self.catalog = self.registry.catalog
        self.matcher = self.registry.matcher
        self.budget = Budget(self._budgets, self.work)
        self.joiner = Joiner(relations, self.catalog, self.budget, self._memory)
        self.letter_table = DeadLetters(store)
        self.outbox = Outbox(store, relations, steady, keeping=self._keeping)
        self.outlines = OutlineTable(store)
        self.contents = Contents(relations)
        self._plans = Plans()
        self.admission = Admission(
            store, relations, progress, self.watermark, self.letter_table, flow=self._flow
        )
        self.admission.requested = self._requested
        self.standings = Standings(
            store,
            self.catalog,
            self.contents,
            self.watermark,
            self._budgets.combinations,
            self._pattern_lateness,
        )
        self.deciding = Deciding(
            self.standings, self.catalog, self.limits, self.budget, self.contents
        )
        self.retention = Retention(
            store,
            relations,
            self.catalog,
            self.joiner,
            self.admission,
            self.standings,
            self.outlines,
        )
        self.streams = StreamCatalogue(store)
        self._batches = 0
        self._ticked = steady()

    def _withdrawn(self, ids: Sequence[str], numbers: Sequence[int]) -> None:
        self.limits.remove(numbers)
        self.outbox.forget(ids)

    def expect(self, requested: Requested) -> None:
        """Set which documents of a log are requested history: these are never late, and while some
        are still to come nothing expires, so that they find the documents they join."""
        self._requested = self.admission.requested = requested

    def _ready(self) -> None:
        """Reopen the file if DuckDB has given up on it."""
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
        """Pause a subscription: it sees no documents from the next one on, and costs nothing
        meanwhile. One that is not active stays as it is. KeyError if there is none of that id."""
        self.pause_all([id], reason, now)

    def pause_all(
        self, ids: Sequence[str], reason: str = "paused", now: int | None = None
    ) -> list[str]:
        """Pause subscriptions, all or none; the ids of those that were active."""
        self._ready()
        return self.registry.halt(ids, "paused", reason, self.admission.next_doc, now)

    def resume(self, id: str, now: int | None = None) -> None:
        """Make a paused or suspended subscription active again, from the next document on, as if it
        were new. One that is active stays as it is. KeyError if there is none of that id."""
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

        They are read as last committed. May be called from any thread; does not wait for a batch.
        """
        with self.store.snapshot() as statements:
            return Listing(statements).page(status, prefix, after, limit)

    def registered_of(self, ids: Sequence[str]) -> list[Registered]:
        """The subscriptions of these ids."""
        return self.listing.of(ids)

    def committed_of(self, ids: Sequence[str]) -> list[Registered]:
        """The same as last committed. May be called from any thread."""
        with self.store.snapshot() as statements:
            return Listing(statements).of(ids)

    def registered_one(self, id: str) -> Registered:
        """The subscription of an id. KeyError if there is none."""
        self.registry.known_or_fail(id)
        return self.listing.one(id)

    def take_suspensions(self) -> list[Suspension]:
        """The suspensions since the last call. Calling it confirms that those of the last call were
        reported to their owners; a restart returns unconfirmed ones again."""
        return self.registry.take_suspensions()

    def set_limit(self, id: str, limit: Limit | None) -> None:
        """Set a subscription's own limit; with None the common limit applies. KeyError if there is
        none of that id."""
        self._ready()
        self.limits.change(self.registry.known_or_fail(id).number, limit)

    def spec(self) -> bytes:
        """Stage 1's compiled form for the current queries; the same object until they change."""
        return self.registry.spec()

    # -- batches -----------------------------------------------------------------------------

    def witness(self, rows: Sequence[DocumentRow], ahead: Ahead | None = None) -> Arrivals:
        """Documents with their witnesses, for `apply`; another process may have been there `ahead`.
        Raises Stopped."""
        if ahead is None or len(rows) < WORTH:
            with self.searching():
                return self._witnessed(rows)
        with self.searching(ahead.kill):
            return ahead.arrivals(rows)

    def _witnessed(self, rows: Sequence[DocumentRow]) -> Arrivals:
        if self.work.care is None:
            return witnessed(self.matcher, rows)
        return with_care(self.matcher, self.catalog, self.work, rows)

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        """Apply a batch in one transaction; returns the matches that it completes, in order of
        their end, each for all subscribers that share it.

        How documents are cut into batches changes no match. On an exception the transaction is
        rolled back. A document dated after `now` is admitted, but does not move the watermark
        beyond `now`: one wrong date must not make all others late. A subscription that exceeds its
        limit is suspended, see `broker/subscriptions/limits.py`.

        With `position` all documents are of one log, whatever their source: their `seq` numbers are
        those of its rows, and after this batch the log is applied up to number `position`.
        """
        self._ready()
        believed = self.wall.correct(now)
        again = False
        while True:
            self.joiner.refresh()
            try:
                matches = self._apply(arrivals, believed, now, position, again=again)
                break
            except Again:
                again = True
        self.limits.commit(now)
        self.admission.committed()
        self.clock.lap("commit")
        return matches

    def _apply(
        self,
        arrivals: Arrivals,
        believed: int,
        now: int | None,
        position: int | None,
        *,
        again: bool,
    ) -> list[SharedMatch]:
        """One try to apply a batch. Raises Again; tried again, documents come one by one, so that
        what each of them causes is known before the next one comes."""
        with self.store.transaction(), self.searching():
            self._begin(again, len(arrivals.documents) == 1, believed)
            self.clock.start()
            held = bool(self.standings) and self.admission.history_is_pending()
            admitted = self.admission.admit(arrivals.documents, believed, now, position)
            self.clock.lap("admit")
            self._set_aside_before(admitted)
            found: list[Result] = []
            for run in _runs(admitted):
                for piece in self._pieces(run, again):
                    found += self._cascade(self._process(piece, arrivals, now, held), now)
                    if self.standings and not piece[-1].revision:
                        highest = self.standings.settled if held else piece[-1].highest
                        found += self._settle(piece[-1].document.doc, highest, now)
                    self._halt(now)
            if held and not self.admission.history_is_pending():
                found += self._settle(self.admission.next_doc - 1, self._highest(believed), now)
                self._halt(now)
            matches = in_order(found)
            self.outbox.post(matches, {a.document.doc for a in admitted if a.revision})
            self._advance()
            self.clock.lap("store")
        return matches

    def _pieces(self, run: list[Admitted], again: bool) -> Iterable[list[Admitted]]:
        """A run in pieces that are searched at once."""
        if again or (self.standings and self.limits):
            return [[each] for each in run]
        return self.limits.pieces(run)

    def history(
        self, documents: Sequence[StoredDocument], rows: pa.Table, seen: Mapping[int, int]
    ) -> list[SharedMatch]:
        """The matches that stored documents of another engine complete, given with their witness
        rows; the documents keep their numbers. `seen` is the highest time when each of those came
        that are not made of results. Results of matches do not become documents here."""
        try:
            return self._history(documents, rows, seen)
        except Again:
            return self._history(documents, rows, seen, again=True)

    def _history(
        self,
        documents: Sequence[StoredDocument],
        rows: pa.Table,
        seen: Mapping[int, int],
        *,
        again: bool = False,
    ) -> list[SharedMatch]:
        self.joiner.refresh()
        with self.store.transaction(), self.searching():
            self._begin(again)
            found: list[Result] = []
            for piece, own in self._history_pieces(documents, rows, again):
                self.relations.insert(piece, own)
                if self.standings:
                    self.standings.note((d, seen[d.doc]) for d in piece if d.doc in seen)
                found += self._evaluate(piece, own, None, seen)
                highest = max([seen[d.doc] for d in piece if d.doc in seen], default=-UNBOUNDED)
                found += chain.from_iterable(self.deciding.results(piece[-1].doc, highest, None))
                self._halt(None)
            self.standings.end()
        self.limits.commit(None)
        return in_order(found)

    def _history_pieces(
        self, documents: Sequence[StoredDocument], rows: pa.Table, again: bool
    ) -> Iterable[tuple[Sequence[StoredDocument], pa.Table]]:
        """Documents in pieces that are searched at once, with their witness rows."""
        if not (again or (self.standings and self.limits)):
            return [(documents, rows)]
        docs = rows["doc"]
        return (([d], rows.filter(pc.equal(docs, d.doc))) for d in documents)

    def history_ends(self, doc: int, highest: int) -> list[SharedMatch]:
        """The matches of event patterns that are decided at this highest time, which was reached
        after document number `doc` of another engine."""
        with self.store.transaction(), self.searching():
            self._begin(one_by_one=True)
            found = [*chain.from_iterable(self.deciding.results(doc, highest, None))]
            self._halt(None)
            self.standings.end()
        self.limits.commit(None)
        return in_order(found)

    def _begin(self, again: bool = False, one_by_one: bool = False, now: int = UNBOUNDED) -> None:
        """Prepare for a batch, in its transaction."""
        self.standings.begin(self._highest(now))
        self.limits.begin()
        self.budget.begin(again, one_by_one)
        self.admission.begin()
        self.contents.release()
        self.store.on_rollback(self.contents.clear)
        self.store.on_rollback(self.joiner.reset)
        self.store.on_rollback(self.joiner.templates.reset)

    @contextmanager
    def searching(self, interrupt: Callable[[], object] | None = None) -> Iterator[None]:
        """A block of a transaction that other threads may stop, by `interrupt`, that of its SQL
        unless it is given. Raises Stopped."""
        with self.work.searching(interrupt or self.store.interrupt):
            try:
                yield
            except MEMORY_ERRORS as error:
                raise Overdue("its search needs more memory than there is") from error

    def _set_aside_before(self, admitted: list[Admitted]) -> None:
        """Set the queries aside that are known not to get past this document."""
        care = self.work.care
        for id, why in () if care is None else care.aside.items():
            known = self.catalog.subscriptions.get(id)
            if known is not None:
                for each in admitted:
                    self.budget.refuse((known.canonical.number, each.document.doc), why)

    def _set_aside(self, now: int | None) -> bool:
        """Report the pairs of a query and a document that are set aside now; whether there are
        any."""
        news = self.budget.news()
        if news:
            docs = self.relations.documents(sorted({aside.pair[1] for aside in news}))
            # Begun again, a batch knows of documents that are still to come.
            self.budget.postpone(aside for aside in news if aside.pair[1] not in docs)
            here = [aside for aside in news if aside.pair[1] in docs]
            letters = set_aside(here, docs, self.catalog, self.limits, self.budget.alone)
            self.letter_table.add_set_aside(letters, now)
        return bool(news)

    def _halt(self, now: int | None) -> None:
        """Suspend the subscriptions that exceeded their limit; they see no more of this batch."""
        if not self.limits.cuts:
            return
        for id, doc, reason in self.limits.take_stopped():
            self.registry.halt([id], "suspended", reason, doc, now)
        self.joiner.refresh()

    def _cascade(self, found: list[Result], now: int | None) -> list[Result]:
        """The given matches, and those that their results complete as documents of the streams
        that they are published to."""
        complete: list[Result] = []
        while found:
            complete += [f for f in found if not f.hidden]
            flowing = self._flowing(found)
            published = self._witnessed([as_document(f.match) for f in flowing])
            run: list[Admitted] = []
            for position, (f, row) in enumerate(zip(flowing, published.documents, strict=True)):
                doc = self.admission.allocate_number()
                if row.error is not None:
                    self.letter_table.add([(row, row.error)], now)
                    continue
                self.limits.derive(doc, f.docs)
                self.budget.derive(doc, f.docs)
                key = document_key(row.source, row.id)
                start = f.match.start_us
                if self.catalog.makes_points(row.source):
                    start = f.match.end_us
                document = numbered(row, key, doc, f.base, start)
                run.append(Admitted(position, document))
            found = self._process(run, published, now) if run else []
        # Matches of derived documents count towards the limit of the document that caused them, so
        # only now is it known which results are beyond a limit.
        return uncut(complete, self.limits)

    def _flowing(self, found: list[Result]) -> list[Derived]:
        """Those of the matches whose results become documents. Raises Again if one document would
        become too many."""
        read = self.catalog.read
        flowing = [f for f in found if f.match.stream is not None and read[f.match.stream]]
        for f in flowing:
            self.budget.become(f.pair, len(f.numbers))
        self.budget.check()
        return derived(flowing)

    def _process(
        self, run: list[Admitted], arrivals: Arrivals, now: int | None, held: bool = False
    ) -> list[Result]:
        """Insert a run of new documents and find its matches, or replace a run of revised ones.
        `held`: time stands still for event patterns, so nothing is late for them."""
        documents, rows = stored_documents(run), witness_rows(run, arrivals.rows)
        revised = [a.document.doc for a in run if a.revision]
        if revised:
            self.contents.forget(revised)
            self.relations.delete(revised)
        elif arrivals.texts:
            self.contents.add(documents, [arrivals.texts[a.position] for a in run])
        self.relations.insert(documents, rows, self._outlines(run, arrivals))
        self.clock.lap("store")
        if revised:
            self.joiner.replace(revised, rows)
            if self.standings:
                self.standings.replace(self.joiner.of_one(rows), documents)
            return []
        seen: dict[int, int] = {}
        if self.standings:
            settled = self.standings.settled
            seen = {
                a.document.doc: settled if held else max(a.highest, settled)
                for a in run
                if a.document.base == a.document.doc
            }
            self.standings.note((d, seen[d.doc]) for d in documents if d.doc in seen)
        return self._evaluate(documents, rows, now, seen)

    def _outlines(self, run: list[Admitted], arrivals: Arrivals) -> list[int]:
        """The outlines of a run's documents, in order of `stored_documents`."""
        last = {a.document.doc: a for a in run}.values()
        return self.outlines.keep(
            [(arrivals.outlines[a.position], a.document.source) for a in last]
        )

    def _evaluate(
        self,
        documents: Sequence[StoredDocument],
        rows: pa.Table,
        now: int | None,
        seen: Mapping[int, int],
    ) -> list[Result]:
        """The matches that new documents, whose witness rows these are, complete. `seen` is the
        highest time when each of those came that are not made of results."""
        limits, templates = self.limits, self.joiner.templates
        candidates = self.standings.take(self.joiner.candidates(rows), documents, seen)
        self.budget.check()
        if candidates and self.relations.versioned:
            candidates = apart(self.relations, candidates)
        searched = len(candidates)
        self.clock.lap("join")
        self._set_aside(now)
        if limits and candidates:
            limits.find_exceeded(candidates, templates.shapes, self.relations.intervals, now)
            limits.stop_outer_queries(self.catalog)
        if limits.cuts:
            candidates = limits.wanted(candidates)
        found: list[Result] = []
        if candidates:
            making = Making(self.contents, self._plans, templates.shapes, limits, self.budget)
            found = results(making, documents, candidates)
            self.budget.check()
            if self._set_aside(now):
                found = uncut(found, limits)
        limits.count(len(documents), searched, [n for f in found for n in f.numbers])
        self.clock.lap("publish")
        return found

    def _settle(self, doc: int, highest: int, now: int | None) -> list[Result]:
        """The matches of event patterns that are decided at this highest time, after document
        number `doc`, and what their results complete."""
        found: list[Result] = []
        for made in self.deciding.results(doc, highest, now):
            found += self._cascade(made, now)
        self.clock.lap("patterns")
        return found

    def post(self, matches: Sequence[SharedMatch]) -> None:
        """Add matches to the outbox, in the current transaction."""
        self.outbox.post(matches)

    # -- time --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Store the batch's progress, and expire documents from time to time."""
        self.admission.write()
        self.standings.end()
        self._batches += 1
        if self._batches % _EXPIRY_EVERY == 0:
            self.expire()

    def expire(self) -> None:
        """Delete documents that no future match can contain, see `broker/retention.py`."""
        self.retention.expire(self._come(self.newest()))

    def tick(self, now: int) -> list[SharedMatch]:
        """Advance time; to be called every few seconds. If no document has come for `idle`, the
        watermark moves with the clock, event patterns decide by it, and documents expire. Does
        something at most once in `idle`. Returns the matches, which are in the outbox."""
        self._ready()
        believed, steady = self.wall.correct(now), self.wall.steady()
        if steady - self._ticked < self.watermark.idle:
            return []
        self.limits.forget(now)
        self.joiner.refresh()
        matches: list[SharedMatch] = []
        with self.store.transaction(), self.searching():
            self._begin(one_by_one=True, now=believed)
            moved = self.watermark.heartbeat(believed)
            if self.standings and not self.admission.history_is_pending():
                matches = self._decided(self._highest(believed), now)
            if moved:
                self.admission.write()
            self.standings.end()
            self.retention.expire(self._come(self._highest(believed)))
        self._ticked = steady
        self.limits.commit(now)
        return matches

    def _decided(self, highest: int, now: int | None) -> list[SharedMatch]:
        """The matches of event patterns that are decided by the time alone."""
        doc = self.admission.next_doc - 1
        care = self.work.care
        for id, why in () if care is None else care.aside.items():
            known = self.catalog.subscriptions.get(id)
            if known is not None:
                self.limits.stop(known, doc, why)
                self.limits.stop_outer_queries(self.catalog)
        found = in_order(self._settle(doc, highest, now))
        self._halt(now)
        self.outbox.post(found)
        return found

    def waiting(self) -> list[Waiting]:
        """What event patterns wait for, what is decided first in front."""
        self._ready()
        if not self.standings:
            return []
        with self.store.transaction():
            self.standings.begin(self.newest())
        return self.standings.waiting()

    def why(self, id: str) -> list[Why]:
        """What became of the stored documents of an event pattern, and of the patterns in its FROM.
        KeyError if there is no subscription of this id, ValueError if there is no pattern, or it is
        not active."""
        self._ready()
        self.registry.known_or_fail(id)
        if id not in self.catalog.subscriptions:
            raise ValueError(f"{id} is not active, and takes no documents")
        with self.store.transaction():
            self.standings.begin(self.newest())
        found = self.standings.why(id)
        if not found:
            raise ValueError(f"{id} is no event pattern; broker explain shows how it is matched")
        return found

    def decide(self) -> list[SharedMatch]:
        """Decide what event patterns wait for, as if enough time had passed without documents; the
        matches are in the outbox. Documents that come afterwards, for times that are decided, are
        late for these patterns, and for nothing else."""
        self._ready()
        found: list[SharedMatch] = []
        before = None
        while self.waiting() and (latest := self.standings.latest()) != before:
            before = latest
            if latest is None:
                break
            self.joiner.refresh()
            with self.store.transaction(), self.searching():
                self._begin(one_by_one=True)
                found += self._decided(latest, None)
                self._advance()
            self.limits.commit(None)
            self.admission.committed()
        return found

    def retain(self, documents: int | None = None, identities: int | None = None) -> Retained:
        """Bounds that hold whatever the windows, in microseconds before the newest time: what ended
        longer ago than `documents` goes, also under a window of INFINITY, and the identity of what
        has gone is forgotten after `identities` (never within the lateness). None: no bound."""
        self._ready()
        seen = self._come(self.newest())
        forgotten = 0
        self.joiner.refresh()
        with self.store.transaction():
            self._begin()
            gone = self.retention.expire(seen, documents)
            if identities is not None:
                forgotten = self.retention.forget(seen, identities)
        self.admission.rebuild_keys()
        return Retained(gone, forgotten)

    def _come(self, seen: int) -> int:
        """The highest time by which may be deleted."""
        return min(seen, self.wall.come())

    def newest(self) -> int:
        """The highest time so far, in microseconds; at most -UNBOUNDED before the first
        document."""
        return self._highest(self.wall.believed())

    def decides_by(self) -> int:
        """The highest time by which event patterns decide: while requested history is still to
        come, that before it."""
        if self.standings and self.admission.history_is_pending():
            return self.standings.settled
        return max(self.newest(), self.standings.settled)

    def _highest(self, believed: int) -> int:
        return self.watermark.highest_at(believed)

    def applied(self, sources: Iterable[str]) -> int:
        """The highest sequence number applied of any of these sources, 0 for none."""
        return self.admission.applied(sources)

    @property
    def position(self) -> int:
        """The highest `position` that `apply` was given, 0 if none."""
        return self.admission.position

    def live_documents(self) -> int:
        """How many documents are in memory."""
        self.joiner.refresh()
        return len(self.joiner.postings.records)

    # -- delivery ----------------------------------------------------------------------------

    def undelivered(self, limit: int = 1_000) -> list[SharedMatch]:
        """Matches that are not acknowledged, oldest first: as few as have `limit` subscribers."""
        return restored(self.outbox.undelivered(limit))

    def acknowledge(self, matches: Iterable[SharedMatch]) -> None:
        """Delete matches that `apply` or `undelivered` has returned from the outbox, or keep them
        until `release`."""
        self._ready()
        self.outbox.acknowledge(matches)

    def acknowledged(self, after: int, limit: int) -> list[SharedMatch]:
        """The oldest acknowledged matches that are kept, of those with numbers above `after` in the
        outbox, at most so many."""
        return restored(self.outbox.acknowledged(after, limit))

    def release(self, age: int) -> None:
        """Delete the matches that were acknowledged more than `age` microseconds ago."""
        self._ready()
        self.outbox.release(age)

    def acknowledge_ids(self, ids: Iterable[str]) -> None:
        """Delete the matches of these ids from the outbox, each of one subscriber."""
        self._ready()
        self.outbox.acknowledge_ids(ids)

    # -- dead letters --------------------------------------------------------------------------

    def letters(self, after: int = 0, limit: int = 1_000) -> list[DeadLetter]:
        """At most `limit` dead letters with numbers above `after`, in order of their numbers, as
        last committed. May be called from any thread; does not wait for a batch."""
        with self.store.snapshot() as statements:
            return page(statements, after, limit)

    def count_letters(self) -> int:
        return self.letter_table.count()

    def delete_letters(
        self, numbers: Iterable[int] | None = None, *, before: int | None = None
    ) -> int:
        """Delete the dead letters of these numbers, and those stored before a time of the wall
        clock; returns how many."""
        self._ready()
        return self.letter_table.delete(numbers, before)

    def expire_letters(self, before: int) -> int:
        """Delete the dead letters that were stored before a time, and those that are older by their
        numbers, whatever a wrong clock has dated them; returns how many."""
        self._ready()
        return self.letter_table.expire(before)


def _runs(admitted: list[Admitted]) -> list[list[Admitted]]:
    """Cut a batch into runs of new documents and runs of revisions: a revision replaces the stored
    document for all documents that arrive after it."""
    return [list(group) for _, group in groupby(admitted, key=lambda a: a.revision)]

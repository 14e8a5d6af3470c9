"""The door of the engine: its subscriptions, its batches, its time, and what it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa

from broker.documents.ahead import WORTH, Ahead
from broker.documents.arrow import Arrivals
from broker.documents.dead_letters import page
from broker.engine.batch import Batches
from broker.engine.history import History
from broker.engine.parts import Parts
from broker.engine.passing import Passing
from broker.engine.retention import Retained
from broker.engine.search import Search
from broker.engine.transactions import prepare, searching
from broker.errors import ArgumentError
from broker.model import UNBOUNDED, DeadLetter, Limit, Waiting
from broker.query.prepared import Compiled
from broker.registered import Registered, Status, Subscribed, Suspension
from broker.results.undelivered import restored
from broker.shared_match import SharedMatch
from broker.standing.why import Question
from broker.state.stored_documents import StoredDocument
from broker.subscriptions.listing import Listing
from feeds.rows import DocumentRow

_TAKEN_IN = 1_000
"""Documents whose bytes are stored at once, of those that had references."""


class Engine(Parts):
    """The subscriptions over a store, and the processing of batches: operations on `Parts`, which
    describes the arguments.

    Times named `now` are microseconds of the wall clock, None if it is unknown. Used by one thread
    at a time.
    """

    on_text: Callable[[list[bytes]], object] | None = None
    """Takes what `hand_over` hands over, a line for each match."""

    def _load(self) -> None:
        super()._load()
        self.search = Search(self)
        self._passing = Passing(self, self.search)
        self._batches = Batches(self, self.search, self._passing)
        self._history = History(self, self.search)

    def close(self) -> None:
        """Close the store, and let go of very many subscriptions."""
        self.store.close()
        self.registry.close()

    # -- subscriptions -----------------------------------------------------------------------

    def subscribe(self, compiled: Sequence[Compiled], now: int | None = None) -> list[Subscribed]:
        """Register queries from the next document on, all or none. Raises `XsclError`.

        One that is registered with the same canonical text goes on as it is, paused or not; a
        changed text under a known id is a new subscription in its place.
        """
        self.ready()
        return self.registry.subscribe(compiled, self.admission.next_doc, now)

    def unsubscribe(self, *ids: str) -> None:
        """Remove subscriptions, active or not, all or none. KeyError if there is none of an id."""
        self.ready()
        self.registry.unsubscribe(ids)

    def pause(self, id: str, reason: str = "paused", now: int | None = None) -> None:
        """Pause a subscription: it sees no documents from the next one on, and costs nothing
        meanwhile. One that is not active stays as it is. KeyError if there is none of that id."""
        self.pause_all([id], reason, now)

    def pause_all(
        self, ids: Sequence[str], reason: str = "paused", now: int | None = None
    ) -> list[str]:
        """Pause subscriptions, all or none; the ids of those that were active."""
        self.ready()
        return self.registry.halt(ids, "paused", reason, self.admission.next_doc, now)

    def resume(self, id: str, now: int | None = None) -> None:
        """Make a paused or suspended subscription active again, from the next document on, as if it
        were new. One that is active stays as it is. KeyError if there is none of that id."""
        self.resume_all([id], now)

    def resume_all(self, ids: Sequence[str], now: int | None = None) -> list[str]:
        """Resume subscriptions, all or none; the ids of those that were not active."""
        self.ready()
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
        self.ready()
        self.limits.change(self.registry.known_or_fail(id).number, limit)

    def spec(self) -> bytes:
        """Stage 1's compiled form for the current queries; the same object until they change."""
        return self.registry.stage1.spec()

    # -- batches -----------------------------------------------------------------------------

    def witness(self, rows: Sequence[DocumentRow], ahead: Ahead | None = None) -> Arrivals:
        """Documents with their witnesses, for `apply`; another process may have been there `ahead`.
        Raises Stopped."""
        if ahead is None or len(rows) < WORTH:
            with self.searching():
                return self.search.witnessed(rows)
        with self.searching(ahead.kill):
            return ahead.arrivals(rows)

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
        self.ready()
        return self._batches.apply(arrivals, now, position)

    def hand_over(self) -> int:
        """Hand over the matches of the last batch that are text already, and acknowledge them;
        returns how many. There are some only where others have found them."""
        return 0

    def history(
        self, documents: Sequence[StoredDocument], rows: pa.Table, seen: Mapping[int, int]
    ) -> list[SharedMatch]:
        """The matches that stored documents of another engine complete, given with their witness
        rows; the documents keep their numbers. `seen` is the highest time when each of those came
        that are not made of results. Results of matches do not become documents here."""
        return self._history.of(documents, rows, seen)

    def history_ends(self, doc: int, highest: int) -> list[SharedMatch]:
        """The matches of event patterns that are decided at this highest time, which was reached
        after document number `doc` of another engine."""
        return self._history.end(doc, highest)

    def searching(
        self, interrupt: Callable[[], object] | None = None
    ) -> AbstractContextManager[None]:
        """A block of a transaction that other threads may stop, by `interrupt`, that of its SQL
        unless it is given. Raises Stopped."""
        return searching(self, interrupt)

    def post(self, matches: Sequence[SharedMatch]) -> None:
        """Add matches to the outbox, in the current transaction."""
        self.outbox.post(matches)

    # -- time --------------------------------------------------------------------------------

    def expire(self) -> None:
        """Delete documents that no future match can contain, see `broker/engine/retention.py`."""
        self._passing.expire()

    def tick(self, now: int) -> list[SharedMatch]:
        """Advance time; to be called every few seconds. If no document has come for `idle`, the
        watermark moves with the clock, event patterns decide by it, and documents expire. Does
        something at most once in `idle`. Returns the matches, which are in the outbox."""
        self.ready()
        return self._passing.tick(now)

    def waiting(self, rows: int | None = None) -> list[Waiting]:
        """What event patterns wait for, what is decided first in front. Soon after a restart it
        lacks those for which more than so many stored `rows` would have to be read."""
        self.ready()
        return self._passing.waiting(rows)

    @contextmanager
    def why(self, id: str) -> Iterator[list[Question]]:
        """The question what became of the stored documents of an event pattern, and of the patterns
        in its FROM; it is answered in this context, without the engine, which may go on. KeyError
        if there is no subscription of this id, ValueError if there is no pattern, or it is not
        active."""
        self.ready()
        self.registry.known_or_fail(id)
        if id not in self.catalog.subscriptions:
            raise ArgumentError(f"{id} is not active, and takes no documents")
        prepare(self)
        with self.store.transaction():
            self.standings.begin(self.newest())
        with self.store.snapshot() as statements:
            # A snapshot is that of the first time that it is read.
            statements.rows("SELECT 1 FROM pattern_rows LIMIT 1")
            found = self.standings.asked(id, statements)
            if not found:
                raise ValueError(
                    f"{id} is no event pattern; broker explain shows how it is matched"
                )
            yield found

    def decide(self) -> list[SharedMatch]:
        """Decide what event patterns wait for, as if enough time had passed without documents; the
        matches are in the outbox. Documents that come afterwards, for times that are decided, are
        late for these patterns, and for nothing else."""
        self.ready()
        return self._passing.decide()

    def retain(self, documents: int | None = None, identities: int | None = None) -> Retained:
        """Bounds that hold whatever the windows, in microseconds before the newest time: what ended
        longer ago than `documents` goes, also under a window of INFINITY, and the identity of what
        has gone is forgotten after `identities` (never within the lateness). None: no bound."""
        self.ready()
        return self._passing.retain(documents, identities)

    def take_in(self, now: int) -> None:
        """Store the bytes of documents with references that are dated beyond the believed clock, as
        after it was wrong, some at a time."""
        self.ready()
        if self.watermark.highest > now:  # else none is
            with self.store.transaction():
                self.relations.take_in(now, _TAKEN_IN)

    def decides_by(self) -> int:
        """The highest time by which event patterns decide: while requested history is still to
        come, that before it."""
        return self._passing.decides_by()

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
        self.ready()
        self.outbox.acknowledge(matches)

    def store_handed(self) -> None:
        """Store which matches were acknowledged and are kept."""
        self.ready()
        self.outbox.store_handed()

    def acknowledged(self, after: int, limit: int) -> list[SharedMatch]:
        """The oldest acknowledged matches that are kept, of those with numbers above `after` in the
        outbox, at most so many."""
        return restored(self.outbox.acknowledged(after, limit))

    def release(self, age: int) -> None:
        """Delete the matches that were acknowledged more than `age` microseconds ago."""
        self.ready()
        self.outbox.release(age)

    def acknowledge_ids(self, ids: Iterable[str]) -> None:
        """Delete the matches of these ids from the outbox, each of one subscriber."""
        self.ready()
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
        self.ready()
        return self.letter_table.delete(numbers, before)

    def expire_letters(self, before: int) -> int:
        """Delete the dead letters that were stored before a time, and those that are older by their
        numbers, whatever a wrong clock has dated them; returns how many."""
        self.ready()
        return self.letter_table.expire(before)

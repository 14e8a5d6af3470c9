"""The files of a state, and the flow of documents through three of them.

    spool ──apply──> engine (matches in its outbox) ──hand_over──> mailbox

A step is durable in the next file before the previous one deletes anything: `trim` deletes only
rows that the engine has committed, the outbox only matches that the mailbox has. After a crash each
step may be repeated: the engine knows the spool's numbers, the mailbox the matches' ids.

Any thread may use the engine under `lock`; the spool and the mailbox need no lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from broker.delivery import Mailbox, MailboxError
from broker.documents.ahead import Ahead
from broker.engine import Engine, steady_time
from broker.join.work import Cancelled, Care, Overdue
from broker.model import UNBOUNDED, Budgets, Limit
from broker.planner import Planning
from broker.service.core.agreement import (
    PROOF,
    agree,
    note_engine,
    note_mailbox,
    refuse_without_engine,
)
from broker.service.core.careful import Careful
from broker.service.core.handing import Handing
from broker.service.core.marks import Marks
from broker.service.core.needed_packs import Packs
from broker.service.core.watchdog import Watchdog, most
from broker.settings.schema import Settings
from broker.shared_match import SharedMatch, count_matches
from broker.state.proof import Proof
from broker.state.store import LOG_OF_DOCUMENTS, DatabaseError, StateError, Store
from feeds.fair_lock import FairLock
from feeds.kept_packs import Lost
from feeds.requested import Requested
from feeds.rows import DocumentRow
from feeds.spool import Reader, Spool

_log = structlog.get_logger(__name__)

_OUTBOX = 1_000
"""Matches that are read from the outbox at once."""
PORTION = 50_000
"""Matches of subscribers that are handed over at a time: one document may complete millions."""
_MINUTE = 60_000_000
_GLANCE = 0.5
"""Seconds for which the proof waits for the engine."""

_GRACE = 1.0
"""Seconds after which an operation no longer waits for a search, but has it stopped."""

_PATIENCE = 5
"""A search of one document is stopped so often at most for others, so that it comes to its end."""

RESTORING = ".restoring"
"""The subdirectory of a state directory into which a backup is being restored."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of a batch. `stages`: seconds by step."""

    documents: int
    matches: int
    stages: Mapping[str, float]


class Core:
    """The files of the state directory of some settings, open until `close`.

    Raises StateError, SpoolError or MailboxError for a file that cannot be used. The event `news`
    is set when rows are added to the spool. `clock` returns seconds since the epoch, `steady`
    microseconds of a monotonic clock; `portion` is how many matches are handed over at a time.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], int] = steady_time,
        portion: int = PORTION,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._steady = steady
        self._portion = portion
        self.state: Path = settings.state
        self.lock = FairLock()
        self.news = threading.Event()
        self.position = 0
        """The number of the last row of the spool that the engine has committed."""
        self.unstored: str | None = None
        """Why documents cannot be stored, since that was tried."""
        self.memory = most(settings.limits.memory)
        """Bytes that this process may take."""
        self._stopped: tuple[int, int] = (0, 0)
        """The first row of the last search that was stopped for others, and how often it was."""
        self._gap = range(0)
        """Numbers that no document has: the last one before it, and those that were lost."""
        self.reading = Reader(self.state / LOG_OF_DOCUMENTS, keeps=True)
        """What reads the spool between two batches."""
        with ExitStack() as undo:
            undo.callback(self.reading.close)
            self.engine = self._open_engine()
            undo.callback(self.engine.store.close)
            self.proof = Proof(self.state / PROOF)
            undo.callback(self.proof.close)
            self._noted = self.proof.found.clock if self.proof.found else 0
            if self._noted:
                self.engine.wall.begin(self._noted)
            self.spool = Spool(
                self.reading.path,
                on_rows=self._tell_of_rows,
                now=clock,
                prove=self._prove_documents,
                note=self._note_documents,
                # Spark's workers, which are other processes, read the tables.
                beside=settings.pipeline.kind == "local",
            )
            self.reading.recent = self.spool.recent
            undo.callback(self.spool.close)
            self.mailbox = Mailbox(self.state / "mailbox.sqlite", clock=clock)
            undo.callback(self.mailbox.close)
            self.packs = Packs(self.engine, self.spool, self.reading, self.mailbox)
            self.packs.look()
            try:
                self._agree()
            except Lost:
                self.packs.forget_lost()
                self._agree()
            self.handing = Handing(self.engine, self.mailbox, self.now, self._portion)
            marks = Marks(self.state / "working.json", self.position)
            self.careful = Careful(marks, self.engine.work, self.position)
            self.watchdog = Watchdog(settings.limits.time, self.memory)
            self.watchdog.watch(self.engine.work)
            self.watchdog.start()
            undo.pop_all()

    def _open_engine(self) -> Engine:
        settings = self.settings
        limits = settings.limits
        limit = None if limits.matches is None else Limit.of(limits.matches, limits.period)
        budgets = Budgets(limits.combinations, limits.text, limits.derived)
        if (self.state / RESTORING).exists():
            raise StateError(
                f"{self.state}: a backup was being restored here, and not all of it is: empty the "
                "directory and restore again"
            )
        refuse_without_engine(self.state)
        store = Store(self.state, self.memory // 3, in_background=True)
        store.log = self.reading
        try:
            engine = Engine(
                store,
                settings.time.lateness,
                settings.pipeline.memory,
                lateness_of=settings.time.streams,
                limit=limit,
                budgets=budgets,
                idle=settings.time.idle,
                steady=self._steady,
                revisions=settings.pipeline.revisions,
                planning=Planning(settings.pipeline.planner, settings.pipeline.planning_seconds),
                keeping=True,
            )
            engine.expect(Requested(self.reading))
            return engine
        except BaseException:
            store.close()
            raise

    def _agree(self) -> None:
        """Find out whether the files are those that the state had, and go around what is
        missing."""
        found = agree(self.engine, self.spool, self.mailbox, self.proof, self.now())
        self.position, self._gap = found.position, found.gap

    def prove(self) -> None:
        """Prove what the files hold by now."""
        with self.lock.within(_GLANCE) as acquired:
            if acquired:  # within a batch the engine has numbers that are not committed
                self.engine.store_handed()
                note_engine(self.proof, self.engine)
        come = self.engine.wall.come()
        note_mailbox(self.proof, self.mailbox)
        if UNBOUNDED > come > self._noted + _MINUTE:  # no sync every time where nothing happens
            self._noted = come
            self.proof.note(clock=come)
        self.proof.sync()

    def _tell_of_rows(self) -> None:
        # A pipeline clears it before it reads the rows, so it finds these where it was set before.
        if not self.news.is_set():
            self.news.set()

    def _prove_documents(self, last: int, chain: int) -> None:
        self.proof.note_documents(last, chain)
        self.proof.sync()

    def _note_documents(self, last: int, chain: int) -> None:
        self.proof.note_documents(last, chain)
        self.proof.write()

    def failed_to_store(self, error: Exception) -> None:
        """Note that documents could not be stored."""
        if self.unstored is None:
            _log.error("intake.failed", reason=str(error), exc_info=error)
        self.unstored = str(error)

    def try_to_store(self) -> None:
        """Find out whether documents can be stored again, if they could not. Raises SpoolError,
        OSError."""
        if self.unstored is not None:
            self.spool.check_writing()
            self.proof.sync()
            _log.info("intake.well")
            self.unstored = None

    def backlog(self) -> int:
        """The number of rows of the spool that are not matched yet."""
        return self.spool.backlog(self.position)

    def now(self) -> int:
        """The time of the wall clock in microseconds since 1970."""
        return int(self.clock() * 1_000_000)

    def believed(self) -> int:
        """The same, but for jumps of the clock that are not believed yet (`WallClock`)."""
        believed = self.engine.wall.believed()
        return self.now() if believed == UNBOUNDED else believed

    def moments(self, count: int) -> int:
        """The first of so many moments at which documents come, a microsecond apart, after all of
        earlier calls."""
        return self.engine.wall.next(count, self.now())

    def waited(self, since: int | None) -> float | None:
        """The seconds since a time; None without one."""
        return max(0, self.now() - since) / 1_000_000 if since else None

    def close(self) -> None:
        self.watchdog.stop(1.0)
        with self.lock:
            with suppress(DatabaseError, MailboxError, OSError):
                self.prove()
            self.careful.marks.close()
            self.mailbox.close()
            self.reading.close()
            self.spool.close()
            self.proof.close()
            self.engine.store.close()

    # -- the flow of documents -----------------------------------------------------------------

    def apply(self, rows: Sequence[DocumentRow], ahead: Ahead | None = None) -> Batch:
        """Match the next rows of the spool and commit, then hand over the matches. Stage 1 may have
        been done `ahead`.

        After an exception of the engine nothing has changed; after one of the mailbox, the matches
        are in the outbox.
        """
        started = time.perf_counter()
        with self.lock:
            engine = self.engine
            with self.careful.matching(rows):
                witnessed = engine.witness(rows, ahead)
                matched = time.perf_counter()
                before = dict(engine.clock.seconds)
                matches = engine.apply(witnessed, now=self.now(), position=rows[-1].seq)
            self.committed()
            stages = {step: s - before.get(step, 0.0) for step, s in engine.clock.seconds.items()}
            applied = time.perf_counter()
            self.handing.hand_over(matches)
        stages |= {"stage1": matched - started, "deliver": time.perf_counter() - applied}
        return Batch(len(rows), count_matches(matches), stages)

    def cancelled(self, first: int) -> None:
        """Note that a search was stopped for others: that of the documents from a number on."""
        before = self._stopped[1] if self._stopped[0] == first else 0
        self._stopped = (first, before + 1)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """The lock, for an operation that does not wait for a search: one that takes long is
        stopped, and begun again behind the operation."""
        if not self.lock.acquire(_GRACE):
            if self._stopped[1] < _PATIENCE or self._stopped[0] != self.position + 1:
                self.cancel()
            self.lock.acquire()
        try:
            yield
        finally:
            self.lock.release()

    def cancel(self) -> None:
        """Stop the search that runs now, if there is one; nothing is lost, it is begun again."""
        if self.engine.work.stop(Cancelled("another operation came first")):
            _log.info("search.cancelled", applied=self.position)

    def tick(self) -> None:
        """Advance the time of the engine, and hand over what event patterns decide by it."""
        with self.lock:
            work = self.engine.work
            work.care = None
            try:
                while True:
                    try:
                        matches = self.engine.tick(self.now())
                        break
                    except Overdue as why:
                        if work.care is None:
                            work.care = Care()
                        elif not work.care.stopped(why):
                            raise
            finally:
                work.care = None
            if matches:
                self.hand_over(matches)

    def committed(self) -> None:
        """Update the position after the engine has committed a batch."""
        self.position = max(self.position, self.engine.position)
        note_engine(self.proof, self.engine)
        if self._gap and self.position == self._gap[0]:
            self.position = self._gap[-1]

    def trim(self) -> int:
        """Delete the rows of the spool that the engine has committed, and that it needs no more;
        returns how many documents those had."""
        position = self.position
        self.proof.sync()  # that the engine has them
        return self.packs.trim(position)

    def hand_over(self, matches: Sequence[SharedMatch]) -> None:
        """Move matches from the outbox into the mailbox, and record suspensions as events.

        The caller must have held the lock since the matches were committed. Otherwise a
        subscription could be dropped in between, and its matches would enter the mailbox after the
        mailbox had dropped it.
        """
        with self.lock:
            self.handing.hand_over(matches)

    def empty_outbox(self) -> None:
        """Hand over all matches that are in the outbox."""
        more = True
        while more:
            with self.lock:
                matches = self.engine.undelivered(_OUTBOX)
                self.hand_over(matches)
            more = bool(matches)

    # -- after a failure -----------------------------------------------------------------------

    def mend(self) -> None:
        """Reopen the engine if its memory differs from the file: after a failed commit it is
        unknown whether the file has the batch. What the spool has lost, the engine forgets."""
        with self.lock:
            engine, reason = self.engine, "its memory differs from the file"
            if self.reading.lacks:
                self.packs.forget_lost()
            try:
                stored = engine.admission.progress.read()
                same = stored.position == engine.position
            except DatabaseError as error:
                same, reason = False, str(error)
            if not same:
                _log.warning("engine.reopening", reason=reason)
                engine.store.broken = True  # the next use reopens it
                engine.acknowledge(())
            self.committed()

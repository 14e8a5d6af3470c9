"""The three files of a state, and the flow of documents through them.

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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from broker.delivery import Mailbox
from broker.documents.ahead import Ahead
from broker.documents.witnessing import arrivals
from broker.engine import Engine, steady_time
from broker.model import UNBOUNDED, Budgets, Limit
from broker.settings.schema import Settings
from broker.shared_match import SharedMatch, count_matches
from broker.state.store import DatabaseError, StateError, Store
from feeds.fair_lock import FairLock
from feeds.requested import Requested
from feeds.rows import DocumentRow
from feeds.spool import Spool, seq_after, sources

_log = structlog.get_logger(__name__)

_OUTBOX = 1_000
"""Matches that are handed over at once."""

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
    microseconds of a monotonic clock.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], int] = steady_time,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._steady = steady
        self.state: Path = settings.state
        self.lock = FairLock()
        self.news = threading.Event()
        self.position = 0
        """The number of the last row of the spool that the engine has committed."""
        self.on_suspension: Callable[[str, str], None] = lambda id, reason: None
        self._keep = threading.Lock()
        self.engine = self._open_engine()
        try:
            self.spool = Spool(self.state / "spool.sqlite", on_rows=self.news.set, now=clock)
            try:
                self.mailbox = Mailbox(self.state / "mailbox.sqlite", clock=clock)
                self._agree()
            except BaseException:
                self.spool.close()
                raise
        except BaseException:
            self.engine.store.close()
            raise

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
        store = Store(self.state)
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
            )
            engine.expect(Requested(self.state / "spool.sqlite"))
            return engine
        except BaseException:
            store.close()
            raise

    def _agree(self) -> None:
        """Make the numbers of the three files consistent, also if one of the files was lost."""
        engine = self.engine
        # The engine of an old state has one position per source instead of one of the log.
        self.position = engine.position or engine.applied(sources(self.spool.path))
        # Clients that continue after a number of a lost mailbox must not miss matches. Numbers that
        # begin at the microseconds since 1970 are higher than any that a log has reached.
        if self.mailbox.begin_behind(self.now() if self.position else 0):
            _log.warning("mailbox.new", applied=self.position, numbers_above=self.mailbox.last())
        last = self.spool.last_seq()
        if last < self.position:
            _log.warning("spool.behind", last=last, applied=self.position)
            self.spool.skip_to(self.position)
            return
        # Rows are deleted after the engine has committed them. If rows behind its position are
        # missing, a part of the engine's file was lost.
        next_row = seq_after(self.spool.path, self.position, 1)
        upto = (next_row if next_row > self.position else last + 1) - 1
        if upto > self.position and engine.position:
            text = (
                f"the state is older than its spool: documents {self.position + 1:,} to {upto:,} "
                "had been matched and are not in it any more. Restore a backup, or publish them "
                "again"
            )
            _log.error("state.older", first=self.position + 1, last=upto)
            self.mailbox.record_event("state.older", text)
        self.position = max(self.position, upto)

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

    def waited(self, since: int | None) -> float | None:
        """The seconds since a time; None without one."""
        return max(0, self.now() - since) / 1_000_000 if since else None

    def close(self) -> None:
        with self.lock:
            self.mailbox.close()
            self.spool.close()
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
            witnessed = ahead.arrivals(rows) if ahead else arrivals(engine.matcher, rows)
            matched = time.perf_counter()
            before = dict(engine.clock.seconds)
            matches = engine.apply(witnessed, now=self.now(), position=rows[-1].seq)
            self.committed()
            stages = {step: s - before.get(step, 0.0) for step, s in engine.clock.seconds.items()}
            applied = time.perf_counter()
            self.hand_over(matches)
        stages |= {"stage1": matched - started, "deliver": time.perf_counter() - applied}
        return Batch(len(rows), count_matches(matches), stages)

    def committed(self) -> None:
        """Update the position after the engine has committed a batch."""
        self.position = max(self.position, self.engine.position)

    def trim(self) -> int:
        """Delete the rows of the spool that the engine has committed; returns how many."""
        with self._keep:
            return self.spool.trim(self.position)

    @contextmanager
    def untrimmed(self) -> Iterator[None]:
        """A block during which no row of the spool is deleted."""
        with self._keep:
            yield

    def hand_over(self, matches: Sequence[SharedMatch]) -> None:
        """Move matches from the outbox into the mailbox, and record suspensions as events.

        The caller must have held the lock since the matches were committed. Otherwise a
        subscription could be dropped in between, and its matches would enter the mailbox after the
        mailbox had dropped it.
        """
        with self.lock:
            if matches:
                self.mailbox.take(matches, self.now())
                self.engine.acknowledge(matches)
            # The call confirms the suspensions of the last call, which were recorded below.
            for suspension in self.engine.take_suspensions():
                _log.warning("subscription.suspended", id=suspension.id, reason=suspension.reason)
                text = f"{suspension.id} is suspended: {suspension.reason}"
                self.mailbox.record_event(
                    "subscription.suspended", text, subscription=suspension.id
                )
                self.on_suspension(suspension.id, suspension.reason)

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
        unknown whether the file has the batch."""
        with self.lock:
            engine = self.engine
            try:
                stored = engine.admission.progress.read()
                same = stored.position == engine.position
            except DatabaseError:
                same = False
            if not same:
                _log.warning("engine.reopening")
                engine.store.broken = True  # the next use reopens it
                engine.acknowledge(())
            self.committed()

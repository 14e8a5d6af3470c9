"""The pipeline in this process: batches of rows of the spool through both stages.

A document at which the engine fails must not stop all others. So a batch that fails, for a reason
other than the environment (a full disk, say), is halved until the document is found, which becomes
a dead letter. If the search takes too much time or memory, documents are searched one by one and
with care, until the query is found; that pair is set aside (`broker/join/work.py`).
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from broker.documents.ahead import WORTH, Ahead
from broker.join.work import Cancelled, Overdue
from broker.service.core.core import Batch, Core
from broker.service.core.errors import STORAGE, ServiceError
from broker.service.pipeline.driver import Watch
from feeds.rows import DocumentRow
from feeds.spool import SpoolError, read_rows, stored_at
from xscl.growth import later, thaw

_LOOK = 5.0
"""Seconds after which the spool is read even without news, as other processes may add to it."""

APART = 0.008
"""Seconds from the begin of a batch to that of the next where few documents wait, which then has
what came meanwhile: a batch costs as much by itself as twenty documents."""

APART_UNAWAITED = 0.080
"""The same while nobody waits for matches."""

_TURN = 0.002
"""Seconds of Python's switch interval while many documents are matched: what threads take from each
other at each turn, by what is in the caches, is 5 to 7 % of a line where turns are short."""

_BYTES = 16 << 20
"""The size of a batch's documents, in bytes, at which it ends."""

_POISONS = 20
"""If the engine fails at this many documents in a row, it is the engine that is at fault."""

ENVIRONMENT = (OSError, MemoryError, ServiceError, *STORAGE)
"""Errors of the environment, which no document causes."""


class LocalPipeline:
    """A `Pipeline` that reads the spool from the engine's position. `size`: most documents in a
    batch; after `look` seconds without news the spool is read nevertheless. Where many
    documents wait, stage 1 of the next batch is done `ahead`. `awaited` says whether somebody waits
    for matches."""

    def __init__(
        self,
        core: Core,
        size: int,
        look: float = _LOOK,
        ahead: Ahead | None = None,
        awaited: Callable[[], bool] = lambda: True,
    ) -> None:
        self._look = look
        self._awaited = awaited
        self._core = core
        self._size = self._most = size
        self._poisons = 0
        self.ahead = ahead or Ahead(core.engine, enabled=False)
        self._following: tuple[int, list[DocumentRow]] | None = None
        """The next batch, and the position behind which it begins."""

    def __call__(self, stop: threading.Event, watch: Watch) -> None:
        watch.running(True)
        core = self._core
        try:
            while not stop.is_set():
                core.news.clear()
                begun = time.monotonic()
                if self.step(watch):
                    if core.backlog() < WORTH:
                        stop.wait(max(0.0, begun + self.apart - time.monotonic()))
                else:
                    watch.well()
                    # If `stop` was set before `clear`, `news` will not be set again.
                    if not stop.is_set():
                        core.news.wait(self._look)
        finally:
            self.ahead.close()
            thaw()

    @property
    def apart(self) -> float:
        """Seconds from the begin of a batch to that of the next where few documents wait."""
        return APART if self._awaited() else APART_UNAWAITED

    def step(self, watch: Watch) -> bool:
        """Match the next batch; returns whether there was one."""
        core = self._core
        following, self._following = self._following, None
        if following is not None and following[0] == core.position:
            rows = following[1]
        else:
            rows = self._read(core.position)
        if rows:
            since = stored_at(core.reading, core.position)
            try:
                many = len(rows) >= WORTH
                with later(many=many), _long_turns() if many else nullcontext():
                    if many:
                        self._look_ahead(rows[-1].seq or 0)
                    batch = self.apply(rows, watch)
            except Cancelled:
                # Somebody may want something again and again; fewer documents take less time.
                self._most = max(1, len(rows) // 2)
                self._following = None
                core.cancelled(rows[0].seq or 0)
                return True
            self._most = self._size
            watch.batch(batch, core.waited(since))
        return bool(rows)

    def _look_ahead(self, position: int) -> None:
        """Read the batch behind a position, if there is one worth while, and begin with it. If it
        cannot be read, that is found out when it is its turn."""
        if not self.ahead.enabled:
            return
        with suppress(SpoolError, sqlite3.Error, OSError):
            rows = self._read(position)
            if len(rows) < WORTH:  # more may have come when it is their turn
                return
            with self._core.lock:
                self.ahead.begin(rows)
            self._following = (position, rows)

    def _read(self, position: int) -> list[DocumentRow]:
        """The rows of the batch behind a position. Raises SpoolError."""
        rows: list[DocumentRow] = []
        size, most = 0, self._core.careful.largest(self._core.position) or self._most
        for row in read_rows(self._core.reading, position, 2**62):
            rows.append(row)
            size += len(row.xml)
            if len(rows) >= most or size >= _BYTES:
                break
        return rows

    def apply(self, rows: list[DocumentRow], watch: Watch) -> Batch:
        """Match all rows, whatever they contain. Raises errors of the environment, Cancelled."""
        if len(rows) == 1 and (why := self._core.careful.hopeless(rows[0])) is not None:
            return self._dead(rows[0], Overdue(why), watch)  # a process before this one found out
        while True:
            try:
                batch = self._core.apply(rows, self.ahead)
                self._poisons = 0
                return batch
            except (Cancelled, *ENVIRONMENT):
                raise
            except Exception as error:
                failure = error
            self._core.mend()
            if not (len(rows) == 1 and isinstance(failure, Overdue)):
                break
            if not self._core.careful.learn(rows[0], failure):
                break
        if len(rows) == 1:
            why = self._core.careful.hopeless(rows[0])
            return self._dead(rows[0], failure if why is None else Overdue(why), watch)
        if isinstance(failure, Overdue):
            return self._one_by_one(rows, watch)
        half = len(rows) // 2
        return _sum(self.apply(rows[:half], watch), self.apply(rows[half:], watch))

    def _dead(self, row: DocumentRow, error: Exception, watch: Watch) -> Batch:
        """Make a document a dead letter at which the engine fails."""
        if self._poisons >= _POISONS:
            raise error
        self._poisons += 1
        watch.poison(row.place, error)
        kind = "" if isinstance(error, Overdue) else f"{type(error).__name__}: "
        reason = f"the engine failed at it: {kind}{error}"
        return self._core.apply([row._replace(error=reason)])

    def _one_by_one(self, rows: list[DocumentRow], watch: Watch) -> Batch:
        """Match rows each by itself and with care: to halve them would take the time that a search
        may take again and again."""
        done = Batch(0, 0, {})
        for row in rows:
            self._core.careful.await_row(row)
            done = _sum(done, self.apply([row], watch))
        return done


@contextmanager
def _long_turns() -> Iterator[None]:
    """A block in which a thread that runs Python does so for longer before another one may."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(max(before, _TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _sum(one: Batch, other: Batch) -> Batch:
    stages = {
        name: one.stages.get(name, 0.0) + other.stages.get(name, 0.0)
        for name in one.stages.keys() | other.stages.keys()
    }
    return Batch(one.documents + other.documents, one.matches + other.matches, stages)

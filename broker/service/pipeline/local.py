"""The pipeline in this process: rows of the spool through both stages, a batch at a time.

A document at which the engine fails without being at fault itself (the disk is full, say) must not
stop all others. So a batch that fails is halved until the document is found, which is kept aside as
a dead letter.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator

from broker.delivery import MailboxError
from broker.service.core.core import Batch, Core
from broker.service.core.errors import ServiceError
from broker.service.pipeline.driver import Watch
from broker.state.store import FILE_ERRORS
from feeds.rows import DocumentRow
from feeds.spool import SpoolError, read_rows, stored_at

_BYTES = 16 << 20
"""Of documents in a batch, after which it is cut."""

_LOOK = 5.0
"""Seconds after which the spool is looked at in any case: other processes may add to it."""

_POISONS = 20
"""So many documents in a row are not at fault, but the engine."""

ENVIRONMENT = (
    OSError,
    MemoryError,
    sqlite3.Error,
    SpoolError,
    MailboxError,
    ServiceError,
    *FILE_ERRORS,
)
"""What no document is to blame for."""


class LocalPipeline:
    """Reads the spool from where the engine is; a `Pipeline`. `size`: most documents in a batch;
    after `look` seconds without news the spool is looked at all the same."""

    def __init__(self, core: Core, size: int, look: float = _LOOK) -> None:
        self._look = look
        self._core = core
        self._size = size
        self._poisons = 0

    def __call__(self, stop: threading.Event, watch: Watch) -> None:
        watch.running(True)
        core = self._core
        while not stop.is_set():
            core.news.clear()
            if not self.step(watch):
                watch.well()
                # A stop before `clear` has set `news` already, and will not set it again.
                if not stop.is_set():
                    core.news.wait(self._look)

    def step(self, watch: Watch) -> bool:
        """Match the next batch; whether there was one."""
        core = self._core
        rows = self.next_rows()
        if rows:
            since = stored_at(core.spool.path, core.position)
            batch = self.apply(rows, watch)
            watch.batch(batch, core.waited(since))
        return bool(rows)

    def next_rows(self) -> list[DocumentRow]:
        """The rows of the next batch."""
        rows: list[DocumentRow] = []
        size = 0
        found: Iterator[DocumentRow] = read_rows(self._core.spool.path, self._core.position, 2**62)
        for row in found:
            rows.append(row)
            size += len(row.xml)
            if len(rows) >= self._size or size >= _BYTES:
                break
        return rows

    def apply(self, rows: list[DocumentRow], watch: Watch) -> Batch:
        """All of the rows, whatever is in them. Raises only what no document is to blame for."""
        try:
            batch = self._core.apply(rows)
        except ENVIRONMENT:
            raise
        except Exception as error:
            self._core.mend()
            if len(rows) > 1:
                half = len(rows) // 2
                return _sum(self.apply(rows[:half], watch), self.apply(rows[half:], watch))
            if self._poisons >= _POISONS:
                raise
            self._poisons += 1
            watch.poison(rows[0].place, error)
            reason = f"the engine failed at it: {type(error).__name__}: {error}"
            return self._core.apply([rows[0]._replace(error=reason)])
        self._poisons = 0
        return batch


def _sum(one: Batch, other: Batch) -> Batch:
    stages = {
        name: one.stages.get(name, 0.0) + other.stages.get(name, 0.0)
        for name in one.stages.keys() | other.stages.keys()
    }
    return Batch(one.documents + other.documents, one.matches + other.matches, stages)

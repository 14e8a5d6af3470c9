"""Batches of rows of the spool, the next of them read by a thread while one is matched: SQLite and
the disk leave Python to the others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from broker.service.core.core import Core
from feeds.rows import DocumentRow
from feeds.spool import SpoolError, read_rows

_BYTES = 16 << 20
"""The size of a batch's documents, in bytes, at which it ends."""


class Reading:
    """The batches of a core's spool; `most` tells how many documents one behind a position may
    have."""

    def __init__(self, core: Core, most: Callable[[], int]) -> None:
        self._core = core
        self._most = most
        self._thread: ThreadPoolExecutor | None = None
        self._begun: tuple[int, Future[list[DocumentRow]]] | None = None
        """What the thread reads, and the position behind which it begins."""

    def close(self) -> None:
        """End the thread; `begin` makes another one."""
        self._begun = None
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def begin(self, position: int) -> Future[list[DocumentRow]]:
        """Have the batch behind a position read, which will be asked for soon; returns what is
        read."""
        self._thread = self._thread or ThreadPoolExecutor(1, "reading")
        rows = self._thread.submit(self._read, position)
        self._begun = position, rows
        return rows

    def rows(self, position: int) -> list[DocumentRow]:
        """The rows of the batch behind a position. Raises SpoolError."""
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] == position:
            # What cannot be read is read again, for the error.
            with suppress(SpoolError, sqlite3.Error, OSError):
                rows = begun[1].result()
                if self._is_whole(rows):
                    return rows
        return self._read(position)

    def _read(self, position: int) -> list[DocumentRow]:
        rows: list[DocumentRow] = []
        size, most = 0, self._most()
        for row in read_rows(self._core.reading, position, 2**62):
            rows.append(row)
            size += len(row.xml)
            if len(rows) >= most or size >= _BYTES:
                break
        return rows

    def _is_whole(self, rows: list[DocumentRow]) -> bool:
        """Whether a batch has all that it may have now, though more has come since."""
        most = self._most()
        if len(rows) < most:
            return sum([len(row.xml) for row in rows]) >= _BYTES
        return len(rows) == most

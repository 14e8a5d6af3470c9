"""The transactions of a spool, in which its rows get numbers.

In: rows, and rows that other processes have stored beside the tables (`recent`). Out: numbers, each
given once. Of several processes the one that stores rows beside the tables numbers all rows, the
others hand theirs over to it (`handed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from feeds import handed, requested, row_log, spool_file
from feeds.fair_lock import FairLock
from feeds.feed_tables import FeedTables
from feeds.recent import Recent, file_of

_PATIENCE = 30.0
"""Seconds for which another process may have the rows beside the tables, as one has that stores a
wave."""


class Numbering(FeedTables):
    """The open file of a spool, made if it is missing. Raises sqlite3.Error, OSError and
    SpoolError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FairLock()
        self._db = spool_file.connect(path)
        last = row_log.newest(self._db)
        self._end = last, row_log.chain_at(self._db, last) or 0
        """The last number and its chained checksum; `_next` becomes it with the commit."""
        self._next: tuple[int, int] | None = None
        self.recent: Recent | None = None
        """The rows that the tables lack."""
        self.missing: list[range] = []
        """Numbers of documents that were lost beside the tables."""

    def _open_recent(self, beside: bool) -> None:
        """Bring rows from beside the tables there; if that is wanted, others may be stored so."""
        if not beside:
            if file_of(self.path).exists():
                with self._numbering():
                    pass
            return
        recent = Recent(self.path, row_log.secret(self._db))
        if not recent.claim(_PATIENCE):
            recent.close(needed=True)  # another process writes it, which also reads it
            return
        # Processes that numbered rows before it was claimed have committed them then.
        with self._transaction():
            self._bring(recent)
        recent.begin(self._end[0])
        self.recent = recent

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                with spool_file.transaction(self._db):
                    yield
                self._end = self._next or self._end
            finally:
                self._next = None

    @contextmanager
    def _numbering(self) -> Iterator[bool]:
        """A transaction in which rows may get numbers, those beside the tables before; False where
        another process stores such rows, which may give out the same numbers."""
        if self.recent is not None:
            with self._adding():
                yield True
            return
        beside: Recent | None = None
        needed = True
        try:
            with self._transaction():
                own = True
                if file_of(self.path).exists():
                    beside = Recent(self.path, row_log.secret(self._db))
                    own = beside.claim()
                if own:
                    self._bring(beside)
                yield own
            needed = not own
        finally:
            if beside is not None:
                beside.close(needed)

    def _bring(self, recent: Recent | None) -> None:
        """Bring what other processes have stored beside the tables there, inside a transaction."""
        last = row_log.newest(self._db)
        if last > self._end[0]:
            self._end = last, row_log.chain_at(self._db, last) or 0
        if recent is None:
            return
        rows, missing = recent.stored(last)
        self.missing += missing
        if rows:
            row_log.bring(self._db, rows, rows[-1].seq)
            self._next = rows[-1].seq, rows[-1].chain

    @contextmanager
    def _adding(self) -> Iterator[None]:
        """A transaction in which the tables may get rows: those beside them come before."""
        with self._lock:
            with self._transaction():
                if self.recent is not None:
                    row_log.bring(self._db, self.recent.after(0)[1], self._end[0])
                yield
            if self.recent is not None:
                self.recent.begin(row_log.newest(self._db))

    def _bring_recent(self) -> None:
        """Bring the rows into the tables that are beside them."""
        with self._adding():
            pass

    def _insert(self, parts: Iterable[handed.Part]) -> int:
        """Number rows; returns how many there were."""
        (last, chain), added = self._next or self._end, 0
        for is_history, rows in parts:
            if rows:
                numbers, chain = row_log.insert(self._db, rows, chain)
                last = numbers[-1]
                added += len(rows)
                if is_history:
                    requested.insert(self._db, {row[0] for row in rows}, numbers)
        self._next = last, chain
        return added

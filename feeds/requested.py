"""Requested history: the rows of feeds' first documents, which are admitted however old they are.

In: the numbers of these rows, inside a transaction of the spool. Out, to the process that matches:
whether a row is requested history, and whether more of it is still to come. The bound on lateness
is for feeds that lag behind; a user who adds a feed asks for its old items on purpose.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable

from feeds import row_reader

TABLE = """
CREATE TABLE IF NOT EXISTS requested (
    source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (source, first)
) WITHOUT ROWID
"""

_LONGEST = 3_600.0
"""Seconds after which history that has not come is no longer waited for."""


def insert(db: sqlite3.Connection, sources: Iterable[str], numbers: range) -> None:
    """Store that the rows with these numbers, which are of these sources, are requested
    history."""
    db.executemany(
        "INSERT OR REPLACE INTO requested VALUES (?, ?, ?)",
        [(source, numbers[0], numbers[-1]) for source in sources],
    )


def delete(db: sqlite3.Connection, up_to_seq: int) -> None:
    """Forget ranges of rows that the spool has deleted, up to and including a number."""
    db.execute("DELETE FROM requested WHERE last <= ?", (up_to_seq,))


class Requested:
    """The requested history of a spool, for the process that matches its rows. `steady` is a
    monotonic clock in seconds."""

    def __init__(
        self, where: row_reader.Where, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._where = where
        self._steady = steady
        self._ranges: dict[str, list[tuple[int, int]]] | None = None
        """What there was when somebody asked, since the last `refresh`."""
        self._since: float | None = None

    def refresh(self) -> None:
        """Read the ranges again when one is asked for; to be called before each batch of rows, of
        which few ask."""
        self._ranges = None

    def _read(self) -> dict[str, list[tuple[int, int]]]:
        ranges: dict[str, list[tuple[int, int]]] = {}
        with row_reader.reading(self._where) as db:
            found = db.execute("SELECT source, first, last FROM requested") if db else []
            for source, first, last in found:
                ranges.setdefault(source, []).append((first, last))
        return ranges

    def covers(self, source: str, seq: int) -> bool:
        """Whether the row of this number is requested history, as of the first such question since
        the last `refresh`."""
        if self._ranges is None:
            self._ranges = self._read()
        return any(first <= seq <= last for first, last in self._ranges.get(source, ()))

    def is_pending(self, position: int) -> bool:
        """Whether requested history beyond the row number `position`, up to which the caller has
        applied the spool, is still to come: it is in the spool, or its feed was not fetched yet, or
        another process has handed it over.
        False after `_LONGEST` seconds of waiting."""
        with row_reader.reading(self._where) as db:
            found = (
                db is not None
                and db.execute(
                    "SELECT EXISTS (SELECT 1 FROM requested WHERE last > ?) OR EXISTS "
                    "(SELECT 1 FROM feed WHERE status = 'active' AND last_fetch IS NULL AND errors "
                    "= 0) OR EXISTS (SELECT 1 FROM handed WHERE history)",
                    (position,),
                ).fetchone()[0]
            )
        if not found:
            self._since = None
            return False
        if self._since is None:
            self._since = self._steady()
        return self._steady() - self._since < _LONGEST

"""Which rows of the spool are what the user asked for when a feed was added, however old they are.

In: the first documents of feeds, inside a transaction of the spool. Out, to the process that
matches: whether a row is such a one, and whether some are still to come. Lateness is about feeds
that are behind; what was asked for is old because it was asked for.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from feeds import row_log

TABLE = """
CREATE TABLE IF NOT EXISTS requested (
    source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (source, first)
) WITHOUT ROWID
"""

_LONGEST = 3_600.0
"""Seconds for which history that does not come is waited for."""


def note(db: sqlite3.Connection, sources: Iterable[str], numbers: range) -> None:
    """Rows of these sources, of which each number is one."""
    db.executemany(
        "INSERT OR REPLACE INTO requested VALUES (?, ?, ?)",
        [(source, numbers[0], numbers[-1]) for source in sources],
    )


def forget(db: sqlite3.Connection, up_to_seq: int) -> None:
    """Rows up to a number have been let go."""
    db.execute("DELETE FROM requested WHERE last <= ?", (up_to_seq,))


class Requested:
    """What was asked for in the spool at `path`, for the process that matches its rows. `steady` is
    a clock in seconds that never jumps."""

    def __init__(self, path: str | Path, steady: Callable[[], float] = time.monotonic) -> None:
        self._path = Path(path)
        self._steady = steady
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        self._since: float | None = None

    def refresh(self) -> None:
        """Look again; before a batch of rows that the spool has by now."""
        ranges: dict[str, list[tuple[int, int]]] = {}
        with row_log.reading(self._path) as db:
            found = db.execute("SELECT source, first, last FROM requested") if db else []
            for source, first, last in found:
                ranges.setdefault(source, []).append((first, last))
        self._ranges = ranges

    def covers(self, source: str, seq: int) -> bool:
        """Whether the row of this number was asked for, as of the last `refresh`."""
        return any(first <= seq <= last for first, last in self._ranges.get(source, ()))

    def waits(self, position: int) -> bool:
        """Whether some of it is still to come to who has applied the rows up to `position`: it
        waits in the spool, or its feed was not asked yet. What does not come is not waited for
        forever."""
        with row_log.reading(self._path) as db:
            found = (
                db is not None
                and db.execute(
                    "SELECT EXISTS (SELECT 1 FROM requested WHERE last > ?) OR EXISTS "
                    "(SELECT 1 FROM feed WHERE status = 'active' AND last_fetch IS NULL AND errors "
                    "= 0)",
                    (position,),
                ).fetchone()[0]
            )
        if not found:
            self._since = None
            return False
        if self._since is None:
            self._since = self._steady()
        return self._steady() - self._since < _LONGEST

"""Rows that another process hands over to the one that numbers documents.

In: rows of a wave, inside a transaction of the spool. Out: the same, in their order, to the process
that writes them beside the tables (`recent`): only that one knows the next number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from feeds import row_log

TABLE = f"""
CREATE TABLE IF NOT EXISTS handed (
    n INTEGER PRIMARY KEY, history INTEGER NOT NULL, {row_log.SUMMED}, count, sum
)
"""
"""`history`: whether it is requested history. The others are the values of a row of the log."""

_COLUMNS = f"history, {row_log.SUMMED}, count, sum"

Part = tuple[bool, list[row_log.Values]]
"""Rows, and whether they are requested history."""


def store(db: sqlite3.Connection, parts: Iterable[Part]) -> None:
    """Hand rows over."""
    marks = ", ".join("?" * len(_COLUMNS.split(", ")))
    for is_history, rows in parts:
        db.executemany(
            f"INSERT INTO handed ({_COLUMNS}) VALUES ({marks})",
            [(is_history, *values) for values in rows],
        )


def any_there(db: sqlite3.Connection) -> bool:
    """Whether rows wait."""
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM handed)").fetchone()[0])


def take(db: sqlite3.Connection) -> list[Part]:
    """The rows that wait, in their order; they wait no longer."""
    found: list[Part] = []
    for history, *values in db.execute(f"SELECT {_COLUMNS} FROM handed ORDER BY n"):
        if not found or found[-1][0] != bool(history):
            found.append((bool(history), []))
        found[-1][1].append(tuple(values))
    db.execute("DELETE FROM handed")
    return found

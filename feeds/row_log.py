"""The log of numbered documents in the file of a spool: appending, reading, deleting.

In: document rows, inside a transaction of the spool. Out: their numbers; rows by number, for
readers in any process. Numbers only grow, and those of deleted rows are not used again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from feeds.rows import DocumentRow

VERSION = 3
"""The version of the spool's file, all tables together."""

TABLE = """
CREATE TABLE IF NOT EXISTS document (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL, id TEXT NOT NULL, streams TEXT NOT NULL, timestamp INTEGER NOT NULL,
    dated INTEGER NOT NULL, revision INTEGER NOT NULL, xml BLOB NOT NULL, error TEXT,
    place TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0
);
"""
_ROW = "source, id, streams, timestamp, dated, revision, xml, error, place"
_INSERT = f"INSERT INTO document ({_ROW}, taken) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CHUNK = 500
"""Rows that are deleted in one transaction."""

Values = tuple[Any, ...]


class SpoolError(Exception):
    """The file is no spool, or not one that this version reads."""


class SpoolFull(SpoolError):
    """The disk is full; nothing of the transaction was stored."""


_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def problem(path: Path, error: BaseException) -> SpoolError:
    """An SQLite error as a SpoolError that says what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return SpoolFull(f"spool: {path}: {error}")
    way_out = ""
    if code in _DAMAGED:
        way_out = (
            "; restore a backup, or move the file away: a new one is made, without the documents "
            "that wait in this one"
        )
    return SpoolError(f"spool: {path}: {error}{way_out}")


def create(path: Path) -> None:
    """Make an empty file and its directory if they are missing, readable by their owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        # It holds the logins of feeds.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


# -- inside a transaction ----------------------------------------------------------------------


def values(row: DocumentRow, now: int) -> Values:
    """The column values of a row stored at `now` (microseconds). ValueError for a text that cannot
    be stored."""
    for text in (row.source, row.id, row.place, row.error or "", *row.streams):
        text.encode()  # raises for a lone surrogate
    return (
        row.source,
        row.id,
        _streams_text(row.streams),
        row.timestamp,
        row.dated,
        row.revision,
        row.xml,
        row.error,
        row.place,
        now,
    )


@lru_cache(maxsize=256)
def _streams_text(streams: tuple[str, ...]) -> str:
    return json.dumps(streams, ensure_ascii=False)


@lru_cache(maxsize=256)
def _streams(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def insert(db: sqlite3.Connection, rows: Sequence[Values]) -> range:
    """Append rows; returns their numbers."""
    if len(rows) > 1:
        db.executemany(_INSERT, rows[:-1])
    last = (db.execute(_INSERT, rows[-1]).lastrowid if rows else None) or newest(db)
    return range(last - len(rows) + 1, last + 1)


def delete(db: sqlite3.Connection, up_to_seq: int) -> int:
    """Delete the oldest rows, up to and including a number and at most `_CHUNK` numbers at a time;
    returns how many, 0 if there are none."""
    return db.execute(
        "DELETE FROM document WHERE seq <= ? AND seq < (SELECT min(seq) FROM document) + ?",
        (up_to_seq, _CHUNK),
    ).rowcount


def skip_numbers(db: sqlite3.Connection, seq: int) -> None:
    """Make the next number greater than `seq`."""
    if newest(db) < seq:
        db.execute("DELETE FROM sqlite_sequence WHERE name = 'document'")
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('document', ?)", (seq,))


def newest(db: sqlite3.Connection) -> int:
    """The highest number given so far, 0 if none."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'document'").fetchone()
    return 0 if row is None else int(row[0])


def migrate(db: sqlite3.Connection) -> None:
    """Convert the table from versions 1 and 2 of the spool."""
    db.execute("ALTER TABLE document ADD COLUMN taken INTEGER NOT NULL DEFAULT 0")


# -- for readers in any process ----------------------------------------------------------------


def read_rows(path: str | Path, start_seq: int, end_seq: int) -> Iterator[DocumentRow]:
    """The rows of the spool at `path` with start_seq < seq <= end_seq, in order.

    Raises SpoolError if the file is there and is no spool; without a file there are no rows.
    """
    with reading(path) as db:
        if db is None:
            return
        cursor = db.execute(
            f"SELECT seq, {_ROW} FROM document WHERE seq > ? AND seq <= ? ORDER BY seq",
            (start_seq, end_seq),
        )
        for seq, source, id, streams, timestamp, dated, revision, xml, error, place in cursor:
            yield DocumentRow(
                source,
                id,
                _streams(streams),
                timestamp,
                bool(dated),
                seq,
                bool(revision),
                xml,
                error,
                place,
            )


def last_seq(path: str | Path) -> int:
    """The highest number given so far in the spool at `path`, 0 if there is none."""
    with reading(path) as db:
        return 0 if db is None else newest(db)


def seq_after(path: str | Path, start_seq: int, rows: int) -> int:
    """The number of the last of the next `rows` rows after `start_seq`; `start_seq` if none is
    left."""
    with reading(path) as db:
        if db is None:
            return start_seq
        (last,) = db.execute(
            "SELECT max(seq) FROM (SELECT seq FROM document WHERE seq > ? ORDER BY seq LIMIT ?)",
            (start_seq, rows),
        ).fetchone()
        return start_seq if last is None else int(last)


def sources(path: str | Path) -> list[str]:
    """The distinct sources of the rows in the spool at `path`."""
    with reading(path) as db:
        found = db.execute("SELECT DISTINCT source FROM document").fetchall() if db else []
    return [source for (source,) in found]


def stored_at(path: str | Path, after: int) -> int | None:
    """When the first row after number `after` was stored, in microseconds; None if there is
    none."""
    ask = "SELECT taken FROM document WHERE seq > ? ORDER BY seq LIMIT 1"
    with reading(path) as db:
        row = db.execute(ask, (after,)).fetchone() if db else None
    return None if row is None else int(row[0])


@contextmanager
def reading(path: str | Path) -> Iterator[sqlite3.Connection | None]:
    """A read-only connection; None if the file is missing or empty."""
    path = Path(path)
    if not path.exists():
        yield None
        return
    try:
        uri = path.resolve().as_uri() + "?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)) as db:
            yield db if version(db, path) else None
    except sqlite3.Error as error:
        raise problem(path, error) from error


def version(db: sqlite3.Connection, path: Path) -> int:
    """The file's version, 0 if it is empty; raises SpoolError if it belongs to something else."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= found <= VERSION:
        raise SpoolError(f"spool: {path}: version {found}, but this program reads up to {VERSION}")
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if found == 0 and tables:
        raise SpoolError(f"spool: {path}: a database, but not a spool")
    return int(found)

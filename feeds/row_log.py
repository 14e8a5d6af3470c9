"""The log of numbered documents in the file of a spool: appending, reading, deleting.

In: document rows, inside a transaction of the spool. Out: their numbers; rows by number, for
readers in any process. Numbers only grow, and those of deleted rows are not used again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from feeds.rows import DocumentRow

VERSION = 4
"""The version of the spool's file, all tables together."""

TABLE = """
CREATE TABLE IF NOT EXISTS document (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL, id TEXT NOT NULL, streams TEXT NOT NULL, timestamp INTEGER NOT NULL,
    dated INTEGER NOT NULL, revision INTEGER NOT NULL, xml BLOB NOT NULL, error TEXT,
    place TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0, sum INTEGER, chain INTEGER
);
"""
"""`sum` is a checksum of the row, and `chain` one of all sums up to it; NULL in rows of former
versions."""
_ROW = "source, id, streams, timestamp, dated, revision, xml, error, place"
_SUMMED = f"{_ROW}, taken"
_INSERT = (
    f"INSERT INTO document ({_SUMMED}, sum, chain) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_TEXTS = {"source", "id", "streams", "xml", "error", "place"}
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
    """The column values of a row stored at `now` (microseconds), its checksum behind them.
    ValueError for a text that cannot be stored."""
    stored = (
        row.source,
        row.id,
        _streams_text(row.streams),
        row.timestamp,
        int(row.dated),
        int(row.revision),
        row.xml,
        row.error,
        row.place,
        now,
    )
    return (*stored, _sum(stored))


def _sum(stored: Values) -> int:
    """The checksum of a row, whose texts may be given as bytes. ValueError for a text that cannot
    be stored."""
    source, id, streams, timestamp, dated, revision, xml, error, place, taken = stored
    numbers = f"{timestamp} {dated} {revision} {taken}"
    texts = (source, id, streams, error or "", place, numbers)
    # Encoding raises for a lone surrogate.
    packed = b"\0".join([t if isinstance(t, bytes) else t.encode() for t in texts])
    return zlib.crc32(xml, zlib.crc32(packed))


def _linked(sum: int, chain: int) -> int:
    """The chained checksum of a row behind one whose is `chain`."""
    return zlib.crc32(sum.to_bytes(4, "big"), chain)


@lru_cache(maxsize=256)
def _streams_text(streams: tuple[str, ...]) -> str:
    return json.dumps(streams, ensure_ascii=False)


@lru_cache(maxsize=256)
def _streams(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def insert(db: sqlite3.Connection, rows: Sequence[Values], chain: int) -> tuple[range, int]:
    """Append rows behind one whose chained checksum is `chain`; returns their numbers, and the
    chained checksum of the last."""
    chained: list[Values] = []
    for row in rows:
        chain = _linked(row[-1], chain)
        chained.append((*row, chain))
    if len(chained) > 1:
        db.executemany(_INSERT, chained[:-1])
    last = (db.execute(_INSERT, chained[-1]).lastrowid if rows else None) or newest(db)
    return range(last - len(rows) + 1, last + 1), chain


def chain_at(db: sqlite3.Connection, seq: int) -> int | None:
    """The chained checksum of a row; None if it is not there, or has none."""
    row = db.execute("SELECT chain FROM document WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else row[0]


def damaged(db: sqlite3.Connection, after: int) -> tuple[list[int], list[range]]:
    """The numbers of those rows after number `after` that are not as they were stored, and the
    numbers between two rows that are missing."""
    wrong: list[int] = []
    missing: list[range] = []
    before: tuple[int, int | None] | None = None
    # What is damaged may be no text any more, which only bytes can be.
    columns = [f"CAST({c} AS BLOB)" if c in _TEXTS else c for c in _SUMMED.split(", ")]
    rows = db.execute(
        f"SELECT seq, sum, chain, {', '.join(columns)} FROM document WHERE seq > ? ORDER BY seq",
        (after,),
    )
    for seq, sum, chain, *stored in rows:
        if before is not None and seq != before[0] + 1:
            missing.append(range(before[0] + 1, seq))
        elif sum is not None and not _is_sound(sum, chain, stored, before):
            wrong.append(seq)
        before = seq, chain
    return wrong, missing


def _is_sound(
    sum: int, chain: int, stored: Sequence[Any], before: tuple[int, int | None] | None
) -> bool:
    try:
        same = sum == _sum(tuple(stored))
    except (TypeError, ValueError, AttributeError):
        return False  # a value of another type
    return same and (before is None or before[1] is None or chain == _linked(sum, before[1]))


def spoil(db: sqlite3.Connection, seq: int, reason: str) -> str:
    """Make a damaged row one that becomes a dead letter; returns its place."""
    texts = db.execute(
        "SELECT CAST(place AS BLOB), CAST(source AS BLOB), CAST(id AS BLOB), CAST(xml AS BLOB)"
        " FROM document WHERE seq = ?",
        (seq,),
    ).fetchone()
    place, source, id = [bytes(each or b"").decode("utf-8", "replace") for each in texts[:3]]
    # Its identity may be another's now: what is not as it was must not replace or hide anything.
    db.execute(
        "UPDATE document SET error = ?, source = ?, id = ?, streams = '[]', place = ?,"
        " timestamp = CAST(taken AS INTEGER), dated = 0, revision = 0, xml = ?, sum = NULL"
        " WHERE seq = ?",
        (reason, source, f"damaged:{seq}:{id}", place, texts[3] or b"", seq),
    )
    return place


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


def migrate(db: sqlite3.Connection, old: int) -> None:
    """Convert the table from an older version of the spool."""
    if old < 3:
        db.execute("ALTER TABLE document ADD COLUMN taken INTEGER NOT NULL DEFAULT 0")
    for column in ("sum", "chain"):
        db.execute(f"ALTER TABLE document ADD COLUMN {column} INTEGER")


# -- for readers in any process ----------------------------------------------------------------


def read_rows(where: Where, start_seq: int, end_seq: int) -> Iterator[DocumentRow]:
    """The rows of a spool with start_seq < seq <= end_seq, in order.

    Raises SpoolError if the file is there and is no spool; without a file there are no rows.
    """
    with reading(where) as db:
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


def last_seq(where: Where) -> int:
    """The highest number given so far in a spool, 0 if there is none."""
    with reading(where) as db:
        return 0 if db is None else newest(db)


def seq_after(where: Where, start_seq: int, rows: int) -> int:
    """The number of the last of the next `rows` rows after `start_seq`; `start_seq` if none is
    left."""
    with reading(where) as db:
        if db is None:
            return start_seq
        (last,) = db.execute(
            "SELECT max(seq) FROM (SELECT seq FROM document WHERE seq > ? ORDER BY seq LIMIT ?)",
            (start_seq, rows),
        ).fetchone()
        return start_seq if last is None else int(last)


def sources(where: Where) -> list[str]:
    """The distinct sources of the rows in a spool."""
    with reading(where) as db:
        found = db.execute("SELECT DISTINCT source FROM document").fetchall() if db else []
    return [source for (source,) in found]


def stored_at(where: Where, after: int) -> int | None:
    """When the first row after number `after` was stored, in microseconds; None if there is
    none."""
    ask = "SELECT taken FROM document WHERE seq > ? ORDER BY seq LIMIT 1"
    with reading(where) as db:
        row = db.execute(ask, (after,)).fetchone() if db else None
    return None if row is None else int(row[0])


class Reader:
    """Connections to the spool at `path` that stay open between readings, until `close`: to open
    one takes many times as long as to read a few rows. For a process in which no other file takes
    that place meanwhile, in any thread."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._free: list[sqlite3.Connection] = []
        self._closed = False

    def take(self) -> sqlite3.Connection | None:
        """A connection for one reading; None if the file is missing or empty."""
        with suppress(IndexError):
            return self._free.pop()
        return _connected(self.path)

    def put(self, db: sqlite3.Connection) -> None:
        """Keep a connection for the next reading."""
        if self._closed:
            db.close()
        else:
            self._free.append(db)

    def close(self) -> None:
        self._closed = True
        while self._free:
            self._free.pop().close()


Where = str | Path | Reader
"""The path of a spool, or connections to it that stay open."""


@contextmanager
def reading(where: Where) -> Iterator[sqlite3.Connection | None]:
    """A read-only connection; None if the file is missing or empty."""
    reader = where if isinstance(where, Reader) else Reader(where)
    try:
        db = reader.take()
        try:
            yield db
        except BaseException:
            if db is not None:
                db.close()
            raise
        if db is not None:
            reader.put(db)
    except sqlite3.Error as error:
        raise problem(reader.path, error) from error
    finally:
        if reader is not where:
            reader.close()


def _connected(path: Path) -> sqlite3.Connection | None:
    if not path.exists():
        return None
    uri = path.resolve().as_uri() + "?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=30)
    try:
        if version(db, path):
            return db
    except BaseException:
        db.close()
        raise
    db.close()
    return None


def version(db: sqlite3.Connection, path: Path) -> int:
    """The file's version, 0 if it is empty; raises SpoolError if it belongs to something else."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= found <= VERSION:
        raise SpoolError(f"spool: {path}: version {found}, but this program reads up to {VERSION}")
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if found == 0 and tables:
        raise SpoolError(f"spool: {path}: a database, but not a spool")
    return int(found)

"""The log of numbered documents in the file of a spool: appending and deleting.

In: document rows, inside a transaction of the spool. Out: their numbers. They only grow, and those
of deleted rows are not used again. Documents that were published together are one row (`packs`),
with the number of the last of them. `row_reader` reads them.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from feeds import packs, recent
from feeds.rows import DocumentRow

VERSION = 8
"""The version of the spool's file, all tables together."""

TABLE = """
CREATE TABLE IF NOT EXISTS document (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL, id TEXT NOT NULL, streams TEXT NOT NULL, timestamp INTEGER NOT NULL,
    dated INTEGER NOT NULL, revision INTEGER NOT NULL, count INTEGER NOT NULL DEFAULT 1,
    xml BLOB NOT NULL, error TEXT,
    place TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0, sum INTEGER, chain INTEGER
);
"""
"""`sum` is a checksum of the row, and `chain` one of all sums up to it; NULL in rows of former
versions. With a `count` above 1 the row is a pack of so many documents, its `xml` their bytes and
all else that they do not have in common."""
_COUNTED = 5
"""The version from which on rows have a `count`."""
_WITH_RECENT = 6
"""The version from which on there may be rows beside the file."""
ROW = "source, id, streams, timestamp, dated, revision, xml, error, place"
SUMMED = f"{ROW}, taken"
INSERT = (
    f"INSERT INTO document (seq, {SUMMED}, count, sum, chain)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
TEXTS = {"source", "id", "streams", "xml", "error", "place"}
_CHUNK = 500
"""Rows that are deleted in one transaction."""

Values = tuple[Any, ...]


class SpoolError(Exception):
    """The file is no spool, or not one that this version reads."""


class SpoolFull(SpoolError):
    """The disk is full; nothing of the transaction was stored."""


_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_WAY_OUT = (
    "; restore a backup, or move the file away: a new one is made, without the documents that wait "
    "in this one, and those that came together and may match again"
)


def problem(path: Path, error: BaseException) -> SpoolError:
    """An error of SQLite or of the disk as a SpoolError that says what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == errno.ENOSPC:
        return SpoolFull(f"spool: {path}: {error}")
    return SpoolError(f"spool: {path}: {error}{_WAY_OUT if code in _DAMAGED else ''}")


def check(db: sqlite3.Connection, path: Path) -> None:
    """Look at every page. Raises sqlite3.Error, and SpoolError that says what SQLite says where it
    reads such a page."""
    if [text for (text,) in db.execute("PRAGMA quick_check(1)")] != ["ok"]:
        raise SpoolError(f"spool: {path}: database disk image is malformed{_WAY_OUT}")


def create(path: Path) -> None:
    """Make an empty file and its directory if they are missing, readable by their owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        # It holds the logins of feeds.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


# -- inside a transaction ----------------------------------------------------------------------


def packed(rows: Sequence[DocumentRow], now: int) -> list[Values]:
    """The values of rows that are published together; ValueError as for `values`."""
    found = []
    for part in packs.together(rows):
        row, count = part[0], len(part)
        if count > 1:
            row = row._replace(id="", timestamp=0, xml=packs.pack(part), place="")
        found.append(values(row, now, count))
    return found


def values(row: DocumentRow, now: int, count: int = 1) -> Values:
    """The column values of a row stored at `now` (microseconds), its count and its checksum behind
    them. ValueError for a text that cannot be stored."""
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
    return (*stored, count, checksum(stored, count))


def checksum(stored: Values, count: int) -> int:
    """The checksum of a row, whose texts may be given as bytes; that of a pack is of its head,
    which has those of its documents. ValueError for a text that cannot be stored."""
    source, id, streams, timestamp, dated, revision, xml, error, place, taken = stored
    numbers = f"{timestamp} {dated} {revision} {taken}" + (f" {count}" if count != 1 else "")
    texts = (source, id, streams, error or "", place, numbers)
    # Encoding raises for a lone surrogate.
    packed = b"\0".join([t if isinstance(t, bytes) else t.encode() for t in texts])
    return zlib.crc32(xml if count == 1 else packs.head(xml), zlib.crc32(packed))


def linked(sum: int, chain: int) -> int:
    """The chained checksum of a row behind one whose is `chain`."""
    return zlib.crc32(sum.to_bytes(4, "big"), chain)


@lru_cache(maxsize=256)
def _streams_text(streams: tuple[str, ...]) -> str:
    return json.dumps(streams, ensure_ascii=False)


def insert(db: sqlite3.Connection, rows: Sequence[Values], chain: int) -> tuple[range, int]:
    """Append rows behind one whose chained checksum is `chain`; returns the numbers of their
    documents, and the chained checksum of the last."""
    counts = [row[-2] for row in rows]
    total = sum(counts)
    number = newest(db) if total > len(rows) else None
    chained: list[Values] = []
    for row, count in zip(rows, counts, strict=True):
        chain = linked(row[-1], chain)
        number = None if number is None else number + count
        chained.append((number, *row, chain))
    if len(chained) > 1:
        db.executemany(INSERT, chained[:-1])
    last = (db.execute(INSERT, chained[-1]).lastrowid if rows else None) or newest(db)
    return range(last - total + 1, last + 1), chain


def bring(db: sqlite3.Connection, rows: Sequence[recent.Row], last: int) -> None:
    """Append rows that were stored beside the file, of which `last` was the highest number."""
    db.executemany(INSERT, [(row.seq, *row.values, row.chain) for row in rows])
    skip_numbers(db, last)


def chain_at(db: sqlite3.Connection, seq: int) -> int | None:
    """The chained checksum of a row; None if it is not there, or has none. -1 for a number inside
    of a pack, at which nothing that was published has ended."""
    row = db.execute(
        f"SELECT seq, {counts(db)}, chain FROM document WHERE seq >= ? ORDER BY seq LIMIT 1", (seq,)
    ).fetchone()
    if row is None or seq <= row[0] - row[1]:
        return None
    return row[2] if row[0] == seq else -1


def delete(db: sqlite3.Connection, up_to_seq: int) -> int:
    """Delete the oldest rows that have no document after a number, at most `_CHUNK` of them;
    returns how many documents those were, 0 if there are none."""
    oldest = db.execute(
        "SELECT seq, count FROM document WHERE seq <= ? ORDER BY seq LIMIT ?", (up_to_seq, _CHUNK)
    ).fetchall()
    if oldest:
        db.execute("DELETE FROM document WHERE seq <= ?", (oldest[-1][0],))
    return sum(count for _, count in oldest)


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
    if old < 4:
        for column in ("sum", "chain"):
            db.execute(f"ALTER TABLE document ADD COLUMN {column} INTEGER")
    if old < _COUNTED:
        db.execute("ALTER TABLE document ADD COLUMN count INTEGER NOT NULL DEFAULT 1")


# -- the file ----------------------------------------------------------------------------------


def counts(db: sqlite3.Connection) -> str:
    """How many documents a row has, as SQL: a file that is still of a former version has no column
    for it."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    return "count" if found >= _COUNTED else "1"


def version(db: sqlite3.Connection, path: Path) -> int:
    """The file's version, 0 if it is empty; raises SpoolError if it belongs to something else."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= found <= VERSION:
        raise SpoolError(f"spool: {path}: version {found}, but this program reads up to {VERSION}")
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if found == 0 and tables:
        raise SpoolError(f"spool: {path}: a database, but not a spool")
    return int(found)


def secret(db: sqlite3.Connection) -> int:
    """The number of a spool with which checksums of records beside it begin."""
    (found,) = db.execute("PRAGMA application_id").fetchone()
    return int(found) & 0xFFFFFFFF

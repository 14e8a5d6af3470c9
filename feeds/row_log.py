"""The log of numbered documents in the file of a spool: appending, reading, deleting.

In: document rows, inside a transaction of the spool. Out: their numbers; rows by number, for
readers in any process. Numbers only grow, and those of deleted rows are not used again. Documents
that were published together are one row (`packs`), with the number of the last of them.
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

from feeds import packs
from feeds.rows import DocumentRow

VERSION = 5
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
_ROW = "source, id, streams, timestamp, dated, revision, xml, error, place"
SUMMED = f"{_ROW}, taken"
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


@lru_cache(maxsize=256)
def _streams(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


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


def chain_at(db: sqlite3.Connection, seq: int) -> int | None:
    """The chained checksum of a row; None if it is not there, or has none. -1 for a number inside
    of a pack, at which nothing that was published has ended."""
    row = db.execute(
        f"SELECT seq, {_count(db)}, chain FROM document WHERE seq >= ? ORDER BY seq LIMIT 1", (seq,)
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
    db.execute("ALTER TABLE document ADD COLUMN count INTEGER NOT NULL DEFAULT 1")


# -- for readers in any process ----------------------------------------------------------------


def read_rows(where: Where, start_seq: int, end_seq: int) -> Iterator[DocumentRow]:
    """The rows of a spool with start_seq < seq <= end_seq, in order.

    Raises SpoolError if the file is there and is no spool; without a file there are no rows.
    """
    with reading(where) as db:
        if db is None:
            return
        cursor = db.execute(
            f"SELECT seq, {_count(db)}, {_ROW} FROM document WHERE seq > ? ORDER BY seq",
            (start_seq,),
        )
        for seq, count, *columns in cursor:
            if seq - count >= end_seq:
                return
            row = _row(seq, columns)
            if count == 1:
                yield row
                continue
            for each in _documents(row, count, where):
                if start_seq < (each.seq or 0) <= end_seq:
                    yield each


def _row(seq: int, columns: Sequence[Any]) -> DocumentRow:
    source, id, streams, timestamp, dated, revision, xml, error, place = columns
    names = _streams(streams)
    return DocumentRow(
        source, id, names, timestamp, bool(dated), seq, bool(revision), xml, error, place
    )


def _documents(pack: DocumentRow, count: int, where: Where) -> list[DocumentRow]:
    """The rows of the documents of a pack."""
    source, _, streams, _, dated, last, revision = pack[:7]
    first = (last or 0) - count + 1
    try:
        return [
            DocumentRow(
                source, id, streams, at, dated, seq, revision, xml, None, packs.place_of(source, id)
            )
            for seq, (id, at, xml, _) in zip(
                range(first, first + count), packs.unpack(pack.xml), strict=True
            )
        ]
    except ValueError as error:
        path = where.path if isinstance(where, Reader) else where
        raise SpoolError(f"spool: {path}: documents {first} to {last} are damaged") from error


def _count(db: sqlite3.Connection) -> str:
    """How many documents a row has, as SQL: a file that is still of a former version has no column
    for it."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    return "count" if found >= _COUNTED else "1"


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
        found = start_seq
        for seq, count in db.execute(
            f"SELECT seq, {_count(db)} FROM document WHERE seq > ? ORDER BY seq", (start_seq,)
        ):
            before = max(seq - count, start_seq)
            if seq - before >= rows:
                return int(before + rows)
            rows -= seq - before
            found = seq
        return int(found)


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

"""Packs of documents that were matched and may be needed again, in the file of a spool.

In: packs as the log has them, inside a transaction of the spool, and references to their documents.
Out: these documents. The log is short: what was matched leaves it. Documents of one pack are much
alike, so together they take a fourth to a fifth of their bytes.
"""

from __future__ import annotations

import sqlite3
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from feeds import recent, row_log, row_reader
from feeds.references import Reference

TABLE = "CREATE TABLE IF NOT EXISTS pack (seq INTEGER PRIMARY KEY, size INTEGER, body BLOB)"
"""By the number of its last document: the bytes of a pack, how many they are and compressed."""

_CODEC = "zstd"
_CHUNK = 500
"""Packs that are deleted in one transaction."""
_NOTHING = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT}
"""Errors of SQLite where there is no such table, or its pages are damaged."""


class Lost(row_log.SpoolError):
    """A document is not in the spool any more, or not as it was stored."""


def compressed(packs: Iterable[tuple[int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Rows of the table, of packs by number."""
    return [(seq, len(body), pa.compress(body, _CODEC, asbytes=True)) for seq, body in packs]


def insert(db: sqlite3.Connection, rows: Sequence[tuple[int, int, bytes]]) -> None:
    """Keep packs, which may be there already."""
    db.executemany("INSERT OR REPLACE INTO pack VALUES (?, ?, ?)", rows)


def delete(db: sqlite3.Connection, before: int) -> int:
    """Delete the packs with numbers before this one, at most `_CHUNK` of them; returns how many
    those were."""
    return db.execute(
        "DELETE FROM pack WHERE seq IN (SELECT seq FROM pack WHERE seq < ? ORDER BY seq LIMIT ?)",
        (before, _CHUNK),
    ).rowcount


def documents(where: row_reader.Where, references: Iterable[bytes]) -> dict[bytes, bytes]:
    """The documents of packed references. Raises SpoolError, and Lost for one that is missing or
    damaged."""
    wanted = sorted({*references})
    if not wanted:
        return {}
    reader = row_reader.as_reader(where)
    found: dict[bytes, bytes] = {}
    for packed, document in _documents(where, wanted):
        if document is None:
            reader.lacks = True
            what = f"pack {Reference.of(packed).seq:,}, which was matched"
            raise Lost(f"spool: {reader.path}: {what}, is missing or damaged")
        found[packed] = document
    return found


def lost(where: row_reader.Where, references: Iterable[bytes]) -> list[bytes]:
    """The packed references whose documents are missing or damaged. Raises SpoolError."""
    wanted = sorted({*references})
    return [packed for packed, document in _documents(where, wanted) if document is None]


def _documents(
    where: row_reader.Where, wanted: list[bytes]
) -> Iterator[tuple[bytes, bytes | None]]:
    """The documents of references in order; None for one that is missing or damaged."""
    reader = row_reader.as_reader(where)
    seq, body = 0, b""
    with row_reader.reading(where) as db:
        for packed in wanted:
            each = Reference.of(packed)
            if each.seq != seq:
                seq, body = each.seq, b"" if db is None else _pack(reader, db, each.seq)
            found = body[each.begin : each.begin + each.size]
            whole = len(found) == each.size and zlib.crc32(found) == each.sum
            yield packed, found if whole else None


def _pack(reader: row_reader.Reader, db: sqlite3.Connection, seq: int) -> bytes:
    """The bytes of a pack; none if it is nowhere."""
    newer = reader.recent
    # In the order in which it moves on: meanwhile it is at both places.
    found = b"" if newer is None else _of_rows(newer.after(seq - 1)[1], seq)
    if found := found or _waiting(db, seq) or _kept(db, seq):
        return found
    if newer is None:  # a process has stored it beside the tables, and ended
        return _of_rows(recent.read(reader.path, row_log.secret(db), row_log.newest(db)), seq)
    return b""


def _of_rows(rows: list[recent.Row], seq: int) -> bytes:
    at = bisect_left(rows, seq, key=recent.number)
    there = at < len(rows) and rows[at].seq == seq
    return bytes(rows[at].values[recent.XML]) if there else b""


def _waiting(db: sqlite3.Connection, seq: int) -> bytes:
    return bytes(
        _read(db, "SELECT CAST(xml AS BLOB) FROM document WHERE seq = ? AND count > 1", seq)[0]
    )


def _kept(db: sqlite3.Connection, seq: int) -> bytes:
    body, *size = _read(db, "SELECT CAST(body AS BLOB), size FROM pack WHERE seq = ?", seq)
    try:
        return bytes(pa.decompress(body, *size, _CODEC, asbytes=True)) if body else b""
    except (OSError, TypeError, ValueError, OverflowError, MemoryError):
        return b""


def _read(db: sqlite3.Connection, sql: str, seq: int) -> tuple[Any, ...]:
    try:
        return db.execute(sql, (seq,)).fetchone() or (b"",)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in _NOTHING:
            raise
        return (b"",)

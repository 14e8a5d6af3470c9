"""Reading the log of a spool, in any process.

In: the path of a spool, or connections to it that stay open. Out: rows by number, also those that
its tables lack yet (`recent`), and what is known of them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from feeds import packs, recent, row_log
from feeds.references import Reference
from feeds.rows import DocumentRow

_COLUMNS = row_log.ROW.split(", ")
_TAKEN = len(_COLUMNS)
"""The place of `taken` among the values of a row."""


def read_rows(where: Where, start_seq: int, end_seq: int) -> Iterator[DocumentRow]:
    """The rows of a spool with start_seq < seq <= end_seq, in order; those of packs with
    references if the reader says that they are kept.

    Raises SpoolError if the file is there and is no spool; without a file there are no rows.
    """
    with reading(where) as db:
        if db is None:
            return
        begin, newer = _recent(where, db, start_seq)
        if start_seq < begin:
            cursor = db.execute(
                f"SELECT seq, {row_log.counts(db)}, {row_log.ROW} FROM document WHERE seq > ?"
                " ORDER BY seq",
                (start_seq,),
            )
            end = min(begin, end_seq)
            with closing(cursor):
                for seq, count, *columns in cursor:
                    if seq - count >= end:
                        break
                    yield from _wanted(_row(seq, columns), count, where, start_seq, end_seq)
        for seq, values, _ in newer:
            if seq - values[-2] >= end_seq:
                break
            row = _row(seq, values[: len(_COLUMNS)])
            yield from _wanted(row, values[-2], where, start_seq, end_seq)


def _wanted(
    row: DocumentRow, count: int, where: Where, start_seq: int, end_seq: int
) -> Iterator[DocumentRow]:
    """The documents of a row with start_seq < seq <= end_seq."""
    if count == 1:
        yield row
        return
    for each in _documents(row, count, where):
        if start_seq < (each.seq or 0) <= end_seq:
            yield each


def _recent(where: Where, db: sqlite3.Connection, after: int) -> tuple[int, list[recent.Row]]:
    """The rows with documents after a number that the table lacks, and the number up to which the
    table has to be read."""
    reader = as_reader(where)
    if reader.recent is not None:
        return reader.recent.after(after)
    path = reader.path
    while True:
        last = row_log.newest(db)
        if not recent.file_of(path).exists():
            return last, []
        rows = recent.read(path, row_log.secret(db), last)
        if row_log.newest(db) == last:  # else the table has got some of them meanwhile
            return last, [row for row in rows if row.seq > after]


def _row(seq: int, columns: Sequence[Any]) -> DocumentRow:
    source, id, streams, timestamp, dated, revision, xml, error, place = columns
    names = _streams(streams)
    return DocumentRow(
        source, id, names, timestamp, bool(dated), seq, bool(revision), xml, error, place
    )


@lru_cache(maxsize=256)
def _streams(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _documents(pack: DocumentRow, count: int, where: Where) -> list[DocumentRow]:
    """The rows of the documents of a pack."""
    source, _, streams, _, dated, seq, revision = pack[:7]
    last, reader = seq or 0, as_reader(where)
    first = last - count + 1
    keeps = reader.keeps and count >= packs.KEPT
    if keeps:
        reader.given = max(reader.given, last)
    try:
        rows = []
        for seq, (id, at, xml, sum, begin) in zip(
            range(first, first + count), packs.unpack(pack.xml), strict=True
        ):
            place = packs.place_of(source, id)
            logged = Reference(last, begin, len(xml), sum).packed() if keeps else b""
            # One is made for each document, and names would take twice as long.
            own = (source, id, streams, at, dated, seq, revision, xml, None, place)
            rows.append(DocumentRow(*own, None, "", logged))
        return rows
    except ValueError as error:
        raise row_log.SpoolError(
            f"spool: {reader.path}: documents {first} to {last} are damaged"
        ) from error


def last_seq(where: Where) -> int:
    """The highest number given so far in a spool, 0 if there is none."""
    with reading(where) as db:
        if db is None:
            return 0
        last, newer = _recent(where, db, 0)
        return newer[-1].seq if newer else last


def packs_of(where: Where, first: int, last: int, size: int) -> Iterator[list[tuple[int, bytes]]]:
    """The packs with numbers from the first to the last that are worth to be kept, in lists of at
    most `size`."""
    while first <= last:
        with reading(where) as db:
            if db is None:
                return
            begin, newer = _recent(where, db, first - 1)
            found = db.execute(
                "SELECT seq, xml FROM document WHERE seq BETWEEN ? AND ? AND count >= ?"
                " ORDER BY seq LIMIT ?",
                (first, min(last, begin), packs.KEPT, size),
            ).fetchall()
        beside = (row for row in newer if row.seq <= last and row.documents >= packs.KEPT)
        left = size - len(found)
        found += [(row.seq, row.values[recent.XML]) for row in islice(beside, left)]
        if found:
            yield found
        if len(found) < size:
            return
        first = found[-1][0] + 1


def seq_after(where: Where, start_seq: int, rows: int) -> int:
    """The number of the last of the next `rows` rows after `start_seq`; `start_seq` if none is
    left."""
    with reading(where) as db:
        if db is None:
            return start_seq
        begin, newer = _recent(where, db, start_seq)
        found = start_seq
        for seq, count in (
            *_numbers(db, start_seq, begin),
            *[(row.seq, row.documents) for row in newer],
        ):
            before = max(seq - count, start_seq)
            if seq - before >= rows:
                return int(before + rows)
            rows -= seq - before
            found = seq
        return int(found)


def _numbers(db: sqlite3.Connection, after: int, upto: int) -> Iterator[tuple[int, int]]:
    """The numbers and counts of the rows of the table after a number, up to another."""
    return db.execute(
        f"SELECT seq, {row_log.counts(db)} FROM document WHERE seq > ? AND seq <= ? ORDER BY seq",
        (after, upto),
    )


def sources(where: Where) -> list[str]:
    """The distinct sources of the rows in a spool."""
    with reading(where) as db:
        if db is None:
            return []
        _, newer = _recent(where, db, 0)
        found = [source for (source,) in db.execute("SELECT DISTINCT source FROM document")]
    return [*dict.fromkeys([*found, *[row.values[0] for row in newer]])]


def stored_at(where: Where, after: int) -> int | None:
    """When the first row after number `after` was stored, in microseconds; None if there is
    none."""
    ask = "SELECT taken FROM document WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT 1"
    with reading(where) as db:
        if db is None:
            return None
        begin, newer = _recent(where, db, after)
        row = db.execute(ask, (after, begin)).fetchone() if after < begin else None
    if row is not None:
        return int(row[0])
    return int(newer[0].values[_TAKEN]) if newer else None


class Reader:
    """Connections to the spool at `path` that stay open between readings, until `close`: to open
    one takes many times as long as to read a few rows. For a process in which no other file takes
    that place meanwhile, in any thread. Where it `keeps` packs they are there until nobody has
    references to them, see `Spool.trim`."""

    def __init__(self, path: str | Path, *, keeps: bool = False) -> None:
        self.path = Path(path)
        self.keeps = keeps
        self.given = 0
        """The highest number of a pack to which there may be references."""
        self.lacks = False
        """Whether a document that is kept was missed."""
        self.recent: recent.Recent | None = None
        """The rows beside the file, in the process that writes it."""
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


def as_reader(where: Where) -> Reader:
    """What is known of a spool: a new reader for a path, which has opened nothing."""
    return where if isinstance(where, Reader) else Reader(where)


@contextmanager
def reading(where: Where) -> Iterator[sqlite3.Connection | None]:
    """A read-only connection; None if the file is missing or empty."""
    reader = as_reader(where)
    try:
        db = reader.take()
        sound = True  # also when whoever reads has enough
        try:
            yield db
        except Exception:
            sound = False
            raise
        finally:
            if db is not None and sound:
                reader.put(db)
            elif db is not None:
                db.close()
    except sqlite3.Error as error:
        raise row_log.problem(reader.path, error) from error
    finally:
        if reader is not where:
            reader.close()


def _connected(path: Path) -> sqlite3.Connection | None:
    if not path.exists():
        return None
    uri = path.resolve().as_uri() + "?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=30)
    try:
        if row_log.version(db, path):
            return db
    except BaseException:
        db.close()
        raise
    db.close()
    return None

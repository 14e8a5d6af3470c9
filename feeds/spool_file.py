"""The file of a spool, as one SQLite database: made or brought to the form of today, and copied.

In: the path. Out: a connection to a file that has all tables, in transactions of its own.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from feeds import feed_state, handed, hubs, kept_packs, requested, row_log, row_reader, seen
from feeds.write_ahead import write_ahead

_TABLES = ";".join(
    (
        *(row_log.TABLE, seen.TABLE, feed_state.TABLE, hubs.TABLE, requested.TABLE),
        *(kept_packs.TABLE, handed.TABLE),
    )
).split(";")
_LOG_LIMIT = 64 << 20
"""Bytes to which SQLite's write-ahead log is truncated."""
_PAGE = 8_192
"""Bytes of a page of a new file: of items of 2 KB, a page of SQLite's 4 KB holds but one."""
_CHECKED_BYTES = 64 << 20
"""A file up to this size is checked completely when it is opened, in a fraction of a second."""
_AT_ONCE = 32
"""Free pages that are given back in one transaction, of half a millisecond."""
_CHECKPOINT = 32 * _AT_ONCE
"""Pages between two times that the write-ahead log is written into the file meanwhile."""
_VACUUMED = 3
"""The version from which on files are made with incremental vacuum."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, which any thread may use; it is made if it is missing, and migrated if it is
    of a former version. Raises sqlite3.Error, and SpoolError for a file that is not a spool."""
    row_log.create(path)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    old = row_log.version(db, path)
    if old and path.stat().st_size <= _CHECKED_BYTES:
        row_log.check(db, path)
    if old < _VACUUMED:
        # Only with this setting can pages be given back to the file system in pieces.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute(f"PRAGMA page_size = {_PAGE}")
        db.execute("VACUUM")
    write_ahead(db)
    db.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT}")
    with transaction(db):
        if old == 1:
            feed_state.migrate(db)
            seen.migrate(db)
        if 0 < old < row_log.VERSION:
            row_log.migrate(db, old)
        for statement in _TABLES:
            db.execute(statement)
        if not row_log.secret(db):
            db.execute(f"PRAGMA application_id = {1 + secrets.randbelow(2**31 - 1)}")
        set_version(db)
    return db


def set_version(db: sqlite3.Connection) -> None:
    """Write the version of today into the file."""
    db.execute(f"PRAGMA user_version = {row_log.VERSION}")


def give_back(path: Path, lock: AbstractContextManager[object], pages: int) -> None:
    """Give so many free pages back to the file system. `lock` is held by those who write, and here
    for a few pages at a time: nobody waits for more, nor for the disk."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as db:
        write_ahead(db)
        # What the next writer syncs has these pages, too, and nobody needs them before.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        for done in range(0, pages, _AT_ONCE):
            with lock:
                # The pragma frees one page a step; only `executescript` runs all of its steps.
                db.executescript(f"PRAGMA incremental_vacuum({min(_AT_ONCE, pages - done)})")
            if done % _CHECKPOINT == 0:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


@contextmanager
def unsynced(db: sqlite3.Connection) -> Iterator[None]:
    """A block whose transactions are on the disk when the next one behind it is."""
    db.execute("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        db.execute("PRAGMA synchronous = FULL")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """A block that is stored entirely or, after an exception, not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk ends some transactions by itself
            db.execute("ROLLBACK")
        raise


def backup(path: Path, to: Path) -> None:
    """Write a consistent copy to a path where nothing is; readers and writers go on meanwhile.
    Raises SpoolError."""
    try:
        with row_reader.reading(path) as db:
            assert db is not None
            db.execute("VACUUM INTO ?", (str(to),))
        with to.open("rb") as copy:
            os.fsync(copy.fileno())
    except OSError as error:
        raise row_log.SpoolError(f"spool: {to}: {error.strerror}") from error

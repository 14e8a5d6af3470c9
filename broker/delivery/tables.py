"""The mailbox's SQLite file: its tables, its versions, and concurrent access.

One connection writes, under a lock; reads have connections of their own, so that a long read (a
backup, a page of the log) delays no writer. Every commit is synced. A thread writes the write-ahead
log into the file, beside the transactions that follow.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from broker.state.beside import beside
from feeds.write_ahead import write_ahead

_MARKS = 500
"""Parameters of one statement."""

_TOGETHER = (256, 32, 1)
"""Rows that are inserted by one statement."""

VERSION = 5
APPLICATION = 0x58424D42
"""The application id in the file's header ("XBMB"), by which `file` and this program recognise a
mailbox."""

_CHANGES = 12_000
"""Changed rows after which the write-ahead log is written into the file, by a thread: of documents
and matches these are some 4,000 pages. A page is written once, however often it was changed."""

_MOST_PAGES = 16_000
"""Pages of the write-ahead log that one who commits writes into the file himself."""

_INTO_FILE = "PRAGMA wal_checkpoint(PASSIVE)"

_CHECKED_BYTES = 64 << 20
"""A file up to this size is checked completely when it is opened, in a fraction of a second."""

_WAY_OUT = (
    "Restore the state from a backup (broker restore), or move the file away with its -wal and "
    "-shm: the broker then starts with an empty mailbox, matches still in the engine's outbox are "
    "delivered, and the channels must be made again."
)

_COMMITS = "commits"
_COUNTED = f"SELECT value FROM counter WHERE name = '{_COMMITS}'"
_COUNT = f"UPDATE counter SET value = ? WHERE name = '{_COMMITS}' AND kind = ''"

_TO_VERSION = {
    1: """
CREATE TABLE subscription (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
CREATE INDEX subscription_name ON subscription (name);
CREATE TABLE match (
    n INTEGER PRIMARY KEY AUTOINCREMENT, subscription INTEGER NOT NULL, taken INTEGER NOT NULL,
    left_out INTEGER NOT NULL, head BLOB NOT NULL, result BLOB NOT NULL);
CREATE INDEX match_subscription ON match (subscription);
CREATE TABLE taken (
    batch INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, first INTEGER NOT NULL,
    ids BLOB NOT NULL, left_out BLOB NOT NULL);
CREATE TABLE channel (
    number INTEGER PRIMARY KEY AUTOINCREMENT, version INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, subscription TEXT, settings TEXT NOT NULL,
    ordered INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'active', cursor INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, next_try INTEGER NOT NULL DEFAULT 0, last_error TEXT,
    last_success INTEGER, failing_since INTEGER, reason TEXT, delivered INTEGER NOT NULL DEFAULT 0,
    draining INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT '{}',
    told INTEGER NOT NULL DEFAULT 0);
CREATE INDEX channel_subscription ON channel (subscription);
CREATE TABLE retry (
    channel INTEGER NOT NULL, n INTEGER NOT NULL, attempts INTEGER NOT NULL,
    next_try INTEGER NOT NULL, PRIMARY KEY (channel, n)) WITHOUT ROWID;
CREATE INDEX retry_due ON retry (channel, next_try);
CREATE INDEX retry_n ON retry (n);
CREATE TABLE dead (
    number INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, n INTEGER NOT NULL,
    match_id TEXT NOT NULL, subscription TEXT NOT NULL, reason TEXT NOT NULL,
    attempts INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE INDEX dead_n ON dead (n);
CREATE TABLE throttle (
    subscription TEXT PRIMARY KEY, variable TEXT, period INTEGER NOT NULL,
    left_out INTEGER NOT NULL DEFAULT 0);
CREATE TABLE throttled (
    subscription TEXT NOT NULL, value BLOB NOT NULL, "end" INTEGER NOT NULL,
    left_out INTEGER NOT NULL, PRIMARY KEY (subscription, value, "end")) WITHOUT ROWID;
CREATE INDEX throttled_end ON throttled (subscription, "end");
CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL,
    channel TEXT, subscription TEXT, text TEXT NOT NULL);
CREATE TABLE counter (
    name TEXT NOT NULL, kind TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (name, kind)) WITHOUT ROWID;
""",
    # Until then a row was the match of one subscription, with its id in the head.
    2: """
CREATE TABLE audience (number INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE);
CREATE TABLE member (
    subscription INTEGER NOT NULL, audience INTEGER NOT NULL, back INTEGER NOT NULL,
    PRIMARY KEY (subscription, audience)) WITHOUT ROWID;
CREATE UNIQUE INDEX member_place ON member (audience, back);
INSERT INTO audience SELECT DISTINCT subscription, subscription FROM match;
INSERT INTO member SELECT number, number, 0 FROM audience;
DROP INDEX match_subscription;
ALTER TABLE match RENAME COLUMN subscription TO audience;
ALTER TABLE match ADD COLUMN ids BLOB;
CREATE INDEX match_audience ON match (audience)
""",
    # Until then the failures in a row of a channel began anew with each start.
    3: """
ALTER TABLE channel ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
UPDATE channel SET failures = attempts WHERE failing_since IS NOT NULL
""",
    # Until then each match had its result as text.
    4: """
CREATE TABLE document (number INTEGER PRIMARY KEY, xml BLOB NOT NULL);
CREATE TABLE referred (document INTEGER PRIMARY KEY, matches INTEGER NOT NULL);
ALTER TABLE match ADD COLUMN docs BLOB
""",
    # Until then each document was a row by itself, as it is. Such a one has no head. And channels
    # of which all matches were given up were past all that were to come.
    5: """
ALTER TABLE document RENAME COLUMN xml TO body;
ALTER TABLE document ADD COLUMN head BLOB;
UPDATE channel SET cursor = (SELECT max(seq) FROM sqlite_sequence WHERE name = 'match')
WHERE cursor >= 4611686018427387904
""",
}
"""The migration to each version from the one before; version 0 is an empty file."""


class MailboxError(RuntimeError):
    """The mailbox cannot be used; the message names the file, the reason and the way out."""


class DamagedMatch(MailboxError):
    """One match of the mailbox cannot be read, the others can."""

    def __init__(self, number: int, reason: object) -> None:
        super().__init__(
            f"match {number} of the mailbox is damaged: {reason}. Restore a backup, or go on behind"
            f" it: readers with after={number}, channels by `broker channels reset NAME --after"
            f" {number}`"
        )


class Database:
    """The open file. Raises MailboxError if it is not a mailbox, or damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        self._readers: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self._closed = False
        self._written = 0
        """The changes that had been made when its log was last written into the file."""
        self._checkpoint: Future[None] | None = None
        self._into_file = threading.Lock()
        """Held while the log is written into the file: where two do it at once, the second one does
        nothing."""
        self.commits = 0
        """How many transactions the file has but those that append matches, whose batches are
        numbered; it is stored with each."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # It holds the secrets of webhooks.
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        with self.translated():
            self._writer = self._connect()
            try:
                self._open()
            except BaseException:
                self._writer.close()
                raise

    def _open(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        (application,) = self._writer.execute("PRAGMA application_id").fetchone()
        (tables,) = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION:
            raise MailboxError(f"{self.path}: a database, but not a mailbox. {_WAY_OUT}")
        if version > VERSION:
            raise MailboxError(
                f"{self.path}: this mailbox has version {version}, but this program reads up to "
                f"{VERSION}"
            )
        if tables and self.path.stat().st_size <= _CHECKED_BYTES:
            self.check(self._writer)
        if not tables:
            self._writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
        write_ahead(self._writer)
        # For the case that the thread never comes to an end.
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {_MOST_PAGES}")
        self._writer.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        self._writer.execute("PRAGMA cache_size = -32768")
        with self.transaction(counted=False) as db:
            for step in range(version + 1, VERSION + 1):
                for statement in _TO_VERSION[step].split(";"):
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            count(db, _COMMITS, "", version != VERSION)
            ((self.commits,),) = db.execute(_COUNTED)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raises SQLite's errors as MailboxError, which says what to do."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            text = str(error)
            damaged = "malformed" in text or "not a database" in text
            advice = f" {_WAY_OUT}" if damaged else ""
            raise MailboxError(f"{self.path}: {text}.{advice}") from error

    @contextmanager
    def transaction(self, *, counted: bool = True) -> Iterator[sqlite3.Connection]:
        """A write transaction, on the disk when the block ends; within another one, part of it. It
        is one of `commits` unless it is not `counted`."""
        with self.lock, self.translated():
            if self._writer.in_transaction:
                yield self._writer
                return
            self._writer.execute("BEGIN IMMEDIATE")
            before = self._writer.total_changes
            try:
                yield self._writer
                changed = counted and self._writer.total_changes != before
                if changed:
                    self._writer.execute(_COUNT, (self.commits + 1,))
                self._writer.execute("COMMIT")
                self.commits += changed
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            if self._writer.total_changes - self._written >= _CHANGES:
                self._begin_checkpoint()

    def _begin_checkpoint(self) -> None:
        """Have a thread write the write-ahead log into the file, beside the transactions that
        follow."""
        if self._checkpoint is None or self._checkpoint.done():
            self._written = self._writer.total_changes
            with suppress(RuntimeError):  # no thread can be started: the next transaction tries
                self._checkpoint = beside("mailbox", self.checkpoint)

    def checkpoint(self) -> None:
        """Write the write-ahead log into the file while others write; where nobody reads an older
        state, it is begun anew then. Raises MailboxError."""
        with self._into_file:
            with self.reading() as db:
                db.execute(_INTO_FILE).fetchall()
            # It can be begun anew only if the file has all of it.
            self.maintain(_INTO_FILE)

    def truncate(self) -> None:
        """Write the write-ahead log into the file, and make it empty, if there is no reader. Raises
        MailboxError."""
        self.checkpoint()  # so that nobody waits for what follows
        with self._into_file:
            self.maintain("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees what is committed, for one thread at a time."""
        with self.translated():
            if self._closed:
                raise MailboxError(f"{self.path}: the mailbox is closed")
            try:
                reader = self._readers.get_nowait()
            except queue.Empty:
                reader = self._connect()
                reader.execute("PRAGMA query_only = ON")
            try:
                yield reader
            finally:
                if self._closed:
                    reader.close()
                else:
                    self._readers.put(reader)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """`reading`, with the same state for all its queries."""
        with self.reading() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("COMMIT")

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        with self.reading() as db:
            return db.execute(sql, parameters).fetchall()

    def counted(self, db: sqlite3.Connection) -> tuple[int, int]:
        """How many transactions the file has, and the last number of its log."""
        ((commits,),) = db.execute(_COUNTED)
        last = db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'match'").fetchone()[0]
        return commits, last or 0

    def last(self) -> int:
        """The highest number that the log has used so far, as committed; 0 if none."""
        with self.reading() as db:
            return self.counted(db)[1]

    def check(self, db: sqlite3.Connection) -> None:
        """Look at every page. Raises MailboxError."""
        problems = [text for (text,) in db.execute("PRAGMA quick_check(3)") if text != "ok"]
        if problems:
            raise MailboxError(
                f"{self.path}: damaged: {' '.join('; '.join(problems).split())}. {_WAY_OUT}"
            )

    def maintain(self, sql: str) -> list[Any]:
        """Run a statement that is not allowed in a transaction, under the lock."""
        with self.lock, self.translated():
            return self._writer.execute(sql).fetchall()

    def vacuum(self, pages: int) -> None:
        """Give at most `pages` free pages back to the file system."""
        with self.lock, self.translated():
            # Each page is a step of the statement, and `execute` makes only the first.
            self._writer.executescript(f"PRAGMA incremental_vacuum({pages})")

    def close(self) -> None:
        if self._checkpoint is not None:
            wait([self._checkpoint])
        with self.lock:
            self._closed = True
            while not self._readers.empty():
                self._readers.get().close()
            self._writer.close()


def insert(
    db: sqlite3.Connection, into: str, rows: Sequence[Sequence[Any]], behind: str = ""
) -> None:
    """Insert rows `into` a table with these columns; `behind` ends the statement. One of many rows
    takes less time than as many of one row each, before each of which other threads may run."""
    row = f"({', '.join('?' * (into.count(',') + 1))})"
    begin = 0
    for size in _TOGETHER:
        end = len(rows) - (len(rows) - begin) % size
        if begin < end:
            many = [[*chain.from_iterable(rows[at : at + size])] for at in range(begin, end, size)]
            db.executemany(f"INSERT INTO {into} VALUES {', '.join([row] * size)} {behind}", many)
        begin = end


def marked(values: Sequence[Any]) -> Iterator[tuple[Sequence[Any], str]]:
    """Parameters in as many parts as one statement each may have, with the marks for `IN (…)`."""
    for start in range(0, len(values), _MARKS):
        part = values[start : start + _MARKS]
        yield part, ",".join("?" * len(part))


def count(db: sqlite3.Connection, name: str, kind: str, more: int) -> None:
    """Add to a counter of the figures."""
    if more:
        db.execute(
            "INSERT INTO counter VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + ?",
            (name, kind, more, more),
        )

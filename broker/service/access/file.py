"""The file of tokens, owners and changes: `access.sqlite` in the state directory.

Of a token only the SHA-256 is stored: it is random enough that nobody finds it by trying. Every
change is on the disk when the call returns.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.state.store import StateError
from feeds.write_ahead import write_ahead

_VERSION = 1
_APPLICATION = 0x58424143
"""The application id in the file's header ("XBAC")."""

_SCHEMA = """
CREATE TABLE token (
    name TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, former BLOB, former_until INTEGER,
    scopes TEXT NOT NULL, quota TEXT NOT NULL, made INTEGER NOT NULL, rotated INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE owned (subscription TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE change (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, who TEXT NOT NULL,
    address TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL)
"""


class AccessError(StateError):
    """The file cannot be used; the message names it, the reason and the way out."""


class AccessFile:
    """The open file. Raises AccessError. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        with self._translated():
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=30
            )
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def _open(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION:
            raise AccessError(f"{self.path}: a database, but not one of tokens")
        if version > _VERSION:
            raise AccessError(
                f"{self.path}: it has version {version}, but this program reads up to {_VERSION}"
            )
        if [text for (text,) in self._db.execute("PRAGMA quick_check(3)")] != ["ok"]:
            raise AccessError(f"{self.path}: damaged. {_WAY_OUT}")
        write_ahead(self._db)
        if not tables:
            with self.transaction() as db:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
                db.execute(f"PRAGMA application_id = {_APPLICATION}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise AccessError(f"{self.path}: {error}. {_WAY_OUT}") from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction, on the disk when the block ends."""
        with self._lock, self._translated():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._lock, self._translated():
            return self._db.execute(sql, parameters).fetchall()

    def backup(self, path: Path) -> None:
        """Copy the file."""
        with self._lock, self._translated():
            self._db.execute("VACUUM INTO ?", (str(path),))
        path.chmod(0o600)

    def close(self) -> None:
        with self._lock:
            self._db.close()


_WAY_OUT = (
    "Restore the state from a backup, or move the file away with its -wal and -shm: then only the "
    "service's own token is taken, the others must be made again, and subscriptions are operators'"
)

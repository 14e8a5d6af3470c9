"""SQLite's write-ahead log, for files in which a commit has to be on the disk."""

from __future__ import annotations

import sqlite3


def write_ahead(db: sqlite3.Connection) -> None:
    """Let a file have a write-ahead log that each commit syncs. Raises sqlite3.Error, also where
    SQLite has gone back to a rollback journal without a word: there the last commit may be undone
    by a power cut, since the journal's removal is not synced."""
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError(
            f"no write-ahead log can be made here, only the journal mode {mode!r}: the disk has"
            " failed, or its file system has no shared memory"
        )
    db.execute("PRAGMA synchronous = FULL")
    # Some builds of SQLite overwrite what is deleted: each document would be written once more, as
    # zeros. This one overwrites only in pages that are written anyway.
    db.execute("PRAGMA secure_delete = FAST")

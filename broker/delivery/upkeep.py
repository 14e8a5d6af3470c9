"""The file of the mailbox: compaction, backup, figures."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from broker.delivery import channels, places
from broker.delivery.model import Channel, Figures
from broker.delivery.tables import Database, MailboxError
from broker.state.disk import sync

_PAGES = 500
"""Pages that one step of compaction gives back."""
_COUNTED = 10_000
"""A backlog is counted up to this; a larger one is estimated from numbers of the log."""
_SKIPPED = 10**9
"""More matches than a log gets between two backups."""


def compact(db: Database) -> int:
    """Give free pages back, a few at a time; then truncate the write-ahead log, if there is no
    reader."""
    given = 0
    ((size,),) = db.maintain("PRAGMA page_size")
    while True:
        ((free,),) = db.maintain("PRAGMA freelist_count")
        if not free:
            break
        db.vacuum(_PAGES)
        ((left,),) = db.maintain("PRAGMA freelist_count")
        if left >= free:
            break
        given += (free - left) * size
    db.truncate()
    return given


def backup(db: Database, path: Path) -> None:
    """Copy the file in one read transaction; the copy gets its name when it is completely on the
    disk."""
    if path.exists():
        raise MailboxError(f"{path}: exists already; a backup does not overwrite files")
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_WRONLY, 0o600))
    try:
        with db.reading() as reader, closing(sqlite3.connect(part)) as copy:
            reader.backup(copy)
        sync(part)
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def skip_numbers(db: sqlite3.Connection) -> int:
    """Skip very many numbers of matches and of events; returns the last one of matches."""
    for table in ("event", "match"):
        ((last,),) = db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (table,))
        db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        last = (last or 0) + _SKIPPED
        db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, last))
    return int(last)


def figures(db: sqlite3.Connection, last: int) -> Figures:
    counters: dict[str, dict[str, int]] = {}
    for name, kind, value in db.execute("SELECT name, kind, value FROM counter"):
        counters.setdefault(name, {})[kind] = value
    by_status: Counter[tuple[str, str]] = Counter()
    backlog: dict[str, int] = {}
    oldest: dict[str, int | None] = {}
    for channel in channels.load(db):
        by_status[channel.kind, channel.status] += 1
        backlog[channel.name], oldest[channel.name] = _backlog(db, channel)
    first = places.of_all(db, 0, 1)
    (newest,) = db.execute("SELECT coalesce(max(n), 0) FROM match").fetchone()
    matches = newest - places.number(first[0]) + 1 if first else 0
    if matches <= _COUNTED:
        (matches,) = db.execute(
            "SELECT count(*) FROM match JOIN member USING (audience)"
        ).fetchone()
    matches = min(matches, counters.get("taken", {}).get("", 0))  # numbers may have been left out
    size = 1
    for name in ("page_count", "page_size"):
        size *= db.execute(f"PRAGMA {name}").fetchone()[0]
    (dead,) = db.execute("SELECT count(*) FROM dead").fetchone()
    (retries,) = db.execute("SELECT count(*) FROM retry").fetchone()
    return Figures(
        matches=matches,
        bytes=size,
        last=last,
        taken=counters.get("taken", {}).get("", 0),
        repeated=counters.get("repeated", {}).get("", 0),
        left_out=counters.get("left_out", {}).get("", 0),
        dead=dead,
        retries=retries,
        channels=by_status,
        delivered=counters.get("delivered", {}),
        failed=counters.get("failed", {}),
        given_up=counters.get("given_up", {}),
        backlog=backlog,
        oldest=oldest,
    )


def _backlog(db: sqlite3.Connection, channel: Channel) -> tuple[int, int | None]:
    """How many matches a channel has still to deliver, and when the first was taken."""
    ahead = channels.pending(db, channel, 2**62, _COUNTED)
    oldest = channels.oldest(db, channel) if ahead else None
    (late,) = db.execute(
        "SELECT count(*) FROM retry WHERE channel = ?", (channel.number,)
    ).fetchone()
    return ahead + late, oldest

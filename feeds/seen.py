"""The items that were seen of each feed, with hashes of their content: this makes fetching
idempotent.

In: a document of a feed, and the spool's database inside a transaction of the spool. Out: rows of
the items that are new, and of those that have changed.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from feeds.adapter import Channel
from feeds.identity import is_history, reuse_ids, trace
from feeds.rows import DocumentRow, item_row

TABLE = """
CREATE TABLE IF NOT EXISTS seen (
    source TEXT NOT NULL, id TEXT NOT NULL, hash BLOB NOT NULL, timestamp INTEGER NOT NULL,
    gone INTEGER, trace BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (source, id)
) WITHOUT ROWID;
"""

FORGET_AFTER = 90 * 86_400 * 1_000_000
"""Microseconds for which an item that left its feed is remembered as seen."""


def record_items(
    db: sqlite3.Connection,
    source: str,
    channel: Channel,
    arrival: int,
    since: int,
    *,
    whole: bool,
    unread: bool,
) -> list[DocumentRow]:
    """Record the items of a document as seen; returns rows of the new and the changed ones, the
    document's last item first.

    Of the first document of a feed, which was `unread` until now, items from before `since` are
    history: recorded, but no rows. Items that a `whole` document lacks are marked as gone; a
    partial one (a push) marks nothing.
    """
    columns = "SELECT id, hash, timestamp, gone, trace FROM seen WHERE source = ?"
    seen: dict[str, tuple[bytes, int, int | None, bytes]] = {
        id: values for id, *values in db.execute(columns, (source,))
    }
    # Both conditions are needed. A feed whose documents were empty so far has no seen items, but
    # was read; a feed that was removed and added again is unread, but its items were seen.
    first = unread and not seen
    items = reuse_ids(channel.items, {id: mark for id, (*_, mark) in seen.items()})
    rows: list[DocumentRow] = []
    changed: list[tuple[str, str, bytes, int, bytes]] = []
    for item in reversed(items):  # documents list the newest first
        known = seen.pop(item.id, None)
        digest = item.content_hash()
        if known is None:
            timestamp = item.timestamp
            if not (first and is_history(item, since, arrival)):
                rows.append(item_row(item, source, channel.streams, source))
        else:
            # An undated item keeps the time at which it was first seen.
            timestamp = item.timestamp if item.dated else known[1]
            if digest != known[0]:
                revised = replace(item, timestamp=timestamp)
                rows.append(item_row(revised, source, channel.streams, source, revision=True))
            elif known[2] is None:
                continue
        changed.append((source, item.id, digest, timestamp, trace(item)))
    db.executemany(
        "INSERT OR REPLACE INTO seen (source, id, hash, timestamp, gone, trace) "
        "VALUES (?, ?, ?, ?, NULL, ?)",
        changed,
    )
    if whole:
        left = [(arrival, source, id) for id, (_, _, gone, _) in seen.items() if gone is None]
        db.executemany("UPDATE seen SET gone = ? WHERE source = ? AND id = ?", left)
        db.execute(
            "DELETE FROM seen WHERE source = ? AND gone < ?", (source, arrival - FORGET_AFTER)
        )
    return rows


def migrate(db: sqlite3.Connection) -> None:
    """Convert the table from version 1 of the spool."""
    db.execute("ALTER TABLE seen ADD COLUMN trace BLOB NOT NULL DEFAULT x''")

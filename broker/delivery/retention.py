"""What the mailbox lets go: matches that are delivered or too old, those of dropped subscriptions,
and what no longer fits.

All in small transactions, so that other writers need not wait long.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker.delivery import channels, places
from broker.delivery.caches import Caches
from broker.delivery.documents import Documents
from broker.delivery.ids import Ids
from broker.delivery.letters import EVENTS_KEPT, record_event
from broker.delivery.model import Channel
from broker.delivery.tables import Database
from broker.shared_match import MOST

_CHUNK = 1_000
"""Rows per transaction."""


class Keep(NamedTuple):
    """The bounds of retention, see `Mailbox.retain`."""

    delivered: int | None
    undelivered: int | None
    max_bytes: int | None
    dead: int | None


def left_of(db: sqlite3.Connection, prefix: str) -> set[str]:
    """The ids that begin so of subscriptions of which there is something that is removed when they
    are dropped."""
    found = db.execute(
        "SELECT subscription FROM channel WHERE draining = 0 AND substr(subscription, 1, ?)"
        " = ? UNION SELECT subscription FROM throttle WHERE substr(subscription, 1, ?) = ?"
        " UNION SELECT name FROM (SELECT name, max(number) AS latest FROM subscription"
        " WHERE substr(name, 1, ?) = ? GROUP BY name)"
        " WHERE EXISTS (SELECT 1 FROM member CROSS JOIN match USING (audience)"
        " WHERE member.subscription = latest)",
        (len(prefix), prefix) * 3,
    )
    return {id for (id,) in found}


_NEEDED = """
SELECT g.n, m.subscription, m.back FROM match g CROSS JOIN member m ON m.audience = g.audience
WHERE g.n = ?1 AND (
    g.n - m.back > (SELECT coalesce(min(cursor), 9223372036854775807)
                    FROM channel WHERE subscription IS NULL)
    OR EXISTS (SELECT 1 FROM retry WHERE retry.n = g.n - m.back)
    OR EXISTS (
        SELECT 1 FROM subscription s JOIN channel c ON c.subscription = s.name
        WHERE s.number = m.subscription AND c.cursor < g.n - m.back
        AND (c.draining = 0 OR g.n - m.back <= c.draining))
    OR EXISTS (SELECT 1 FROM dead WHERE dead.n = g.n - m.back))
"""
"""The members of a row whose match a channel has still to deliver, or a dead letter needs."""


def retain(
    db: Database,
    known: Ids,
    caches: Caches,
    keep: Keep,
    now: int,
) -> int:
    """See `Mailbox.retain`."""
    with db.transaction() as tx:
        # Retries of removed channels: they would never run, and would keep their matches.
        tx.execute("DELETE FROM retry WHERE channel NOT IN (SELECT number FROM channel)")
    if keep.dead is not None:
        with db.transaction() as tx:
            # Those of lower numbers are older, whatever a wrong clock has dated them.
            oldest = "(SELECT max(number) FROM dead WHERE at < ?)"
            tx.execute(f"DELETE FROM dead WHERE number <= {oldest}", (now - keep.dead,))
    if keep.undelivered is not None:
        late = _place(db, now - keep.undelivered, now)
        _give_up(db, late, now, "not delivered within the time for it")
    removed = 0
    if keep.delivered is not None:
        removed += _remove(db, caches, _place(db, now - keep.delivered, now))
    if keep.max_bytes is not None:
        removed += _shrink(db, caches, keep.max_bytes, now)
    more = True
    while more:
        with caches.changing(db) as tx:
            more = caches.audiences.forget_unused(tx, _CHUNK)
    with db.transaction() as tx:
        (oldest,) = tx.execute("SELECT coalesce(min(n), 9223372036854775807) FROM match").fetchone()
        known.trim(tx, oldest)
        tx.execute(
            "DELETE FROM event WHERE number <= (SELECT max(number) FROM event) - ?", (EVENTS_KEPT,)
        )
        # Dropped subscriptions without matches, if a newer one has the same name.
        tx.execute(
            "DELETE FROM subscription WHERE number < (SELECT max(number) FROM subscription s "
            "WHERE s.name = subscription.name) AND NOT EXISTS "
            "(SELECT 1 FROM member WHERE member.subscription = subscription.number)"
        )
    return removed


def _place(db: Database, time: int, now: int) -> int:
    """The highest number of the log such that all matches up to it entered the log before a time.

    A batch dated in the future, by a wrong clock, counts as old as its neighbours.
    """
    # Where all that are not older are dated in the future, they may be new: they stay.
    found = db.rows(
        "SELECT first FROM taken WHERE at BETWEEN ? AND ? ORDER BY batch LIMIT 1", time, now
    ) or db.rows(
        "SELECT first FROM taken WHERE batch >"
        " (SELECT coalesce(max(batch), 0) FROM taken WHERE at < ?) ORDER BY batch LIMIT 1",
        time,
    )
    if found:
        return int(found[0][0]) - 1
    # Not more: what channels are past becomes their place, and the next match has to be behind it.
    return db.last()


def _remove(db: Database, caches: Caches, upto: int, needed: bool = True) -> int:
    """Delete matches up to a number; those that are `needed` only if this is not set."""
    removed = last = 0
    while True:
        with caches.changing(db) as tx:
            rows = _chunk(tx, last, upto)
            if not rows:
                return removed
            last = rows[-1].n
            removed += _remove_rows(tx, caches, rows, needed)


class _Row(NamedTuple):
    """A row of the log, its audience and how many members that has."""

    n: int
    audience: int
    members: int


def _chunk(db: sqlite3.Connection, after: int, upto: int) -> list[_Row]:
    """The next rows up to a number, of about so many matches as one transaction should change."""
    rows: list[_Row] = []
    members = 0
    for row in db.execute(
        "SELECT n, audience, (SELECT count(*) FROM member WHERE audience = match.audience)"
        " FROM match WHERE n > ? AND n <= ? ORDER BY n LIMIT ?",
        (after, upto, _CHUNK),
    ):
        rows.append(_Row(*row))
        members += rows[-1].members
        if members >= _CHUNK:
            break
    return rows


def _remove_rows(db: sqlite3.Connection, caches: Caches, rows: Sequence[_Row], needed: bool) -> int:
    """Delete the matches of some rows, of each row for those members that do not need theirs."""
    some = _needed(db, rows) if needed else {}
    removed = 0
    gone: list[int] = []
    for row in rows:
        members = some.get(row.n, [])
        removed += row.members - len(members)
        if not members:
            gone.append(row.n)
        elif len(members) < row.members:
            audience = caches.audiences.among(db, members)
            db.execute("UPDATE match SET audience = ? WHERE n = ?", (audience, row.n))
    caches.documents.delete_rows(db, gone)
    return removed


def _needed(db: sqlite3.Connection, rows: Sequence[_Row]) -> dict[int, list[tuple[int, int]]]:
    """By row, the members whose match is still needed."""
    (cursor,) = db.execute(
        "SELECT coalesce(min(cursor), 9223372036854775807) FROM channel"
    ).fetchone()
    first, last = rows[0].n - MOST, rows[-1].n
    single = db.execute(
        "SELECT n FROM retry WHERE n BETWEEN ?1 AND ?2 UNION SELECT n FROM dead WHERE n BETWEEN ?1"
        " AND ?2 ORDER BY 1",
        (first, last),
    )
    wanted = [n for (n,) in single]
    found: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        near = bisect_left(wanted, row.n - MOST + 1)
        if row.n > cursor or (near < len(wanted) and wanted[near] <= row.n):
            for n, subscription, back in db.execute(_NEEDED, (row.n,)):
                found.setdefault(n, []).append((subscription, back))
    return found


def _give_up(db: Database, upto: int, now: int, reason: str) -> None:
    """Turn the undelivered matches up to a number into dead letters."""
    with db.reading() as reader:
        waiting = channels.load(reader, "cursor < ?", upto)
        late = reader.execute("SELECT DISTINCT channel FROM retry WHERE n <= ?", (upto,)).fetchall()
        waiting += [
            channel
            for (number,) in late
            for channel in channels.load(reader, "number = ? AND cursor >= ?", number, upto)
        ]
    for channel in waiting:
        while _give_up_some(db, channel, upto, now, reason):
            pass


def _give_up_some(db: Database, stale: Channel, upto: int, now: int, reason: str) -> bool:
    with db.transaction() as tx:
        found = channels.load(tx, "number = ?", stale.number)
        if not found:
            return False
        channel = found[0]
        upto = min(upto, channel.draining or upto)
        late = tx.execute(
            "SELECT n FROM retry WHERE channel = ? AND n <= ? ORDER BY n LIMIT ?",
            (channel.number, upto, _CHUNK),
        )
        ahead = channels.ahead(tx, channel, _CHUNK, upto)
        chosen = sorted({*map(places.number, ahead), *[n for (n,) in late]})[:_CHUNK]
        given_up = [
            delivered
            for delivered in places.load(tx, places.at(tx, chosen))
            if channel.subscription in (None, delivered.match.query)
        ]
        if not given_up:
            return False
        for n, match in [(delivered.n, delivered.match) for delivered in given_up]:
            channels.add_dead_letter(
                tx, channel, n, match.id, match.query, reason, channel.attempts, now
            )
            tx.execute("DELETE FROM retry WHERE channel = ? AND n = ?", (channel.number, n))
        end = upto if len(chosen) < _CHUNK else chosen[-1]
        # The new generation makes reports of attempts that are under way void.
        tx.execute(
            "UPDATE channel SET cursor = max(cursor, ?), attempts = 0, next_try = 0, "
            "version = version + 1, generation = generation + 1 WHERE number = ?",
            (end, channel.number),
        )
        text = f"given up, {len(given_up)} matches: {reason}"
        record_event(tx, now, "delivery.dead", channel.name, channel.subscription, text)
        return len(chosen) == _CHUNK


def _shrink(db: Database, caches: Caches, max_bytes: int, now: int) -> int:
    """Delete the oldest matches until the file's contents fit, delivered ones first."""
    removed = 0
    for delivered in (True, False):
        for start in _oldest(db, max_bytes):
            if not delivered:
                _give_up(db, start, now, "the mailbox has reached its size limit: not kept")
            removed += _remove(db, caches, start, needed=delivered)
    return removed


def _oldest(db: Database, max_bytes: int) -> Iterator[int]:
    """Numbers up to which to delete, one chunk after another, while too much is in use."""
    last = 0
    while _used(db) > max_bytes:
        with db.reading() as reader:
            rows = _chunk(reader, last, places.LAST)
        if not rows:
            return
        last = rows[-1].n
        yield last


def _used(db: Database) -> int:
    """Bytes in use, without free pages."""
    with db.reading() as reader:
        pages, free, size = (
            reader.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def last_before(db: sqlite3.Connection, subscription: str, number: int | None) -> int:
    """The highest number in the log of matches of earlier subscriptions of a name, those below
    `number`; 0 if there are none."""
    rows = db.execute(
        "SELECT number FROM subscription WHERE name = ? AND number < ?", (subscription, number)
    )
    earlier = [each for (each,) in rows]
    found = places.of_subscriptions(db, earlier, 0, 1, newest=True)
    return places.number(found[0]) if found else 0


def remove_member(db: sqlite3.Connection, number: int) -> list[int]:
    """Delete the matches of a dropped subscription, with their dead letters; returns the audiences
    that have no members now, whose rows are left (`remove_some_of`)."""
    for table in ("dead", "retry"):
        db.execute(
            f"DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM match g JOIN member m"
            f" ON m.audience = g.audience AND m.back = g.n - {table}.n AND m.subscription = ?"
            f" WHERE g.n = (SELECT min(n) FROM match WHERE n >= {table}.n))",
            (number,),
        )
    rows = db.execute("SELECT audience FROM member WHERE subscription = ?", (number,))
    own = [audience for (audience,) in rows]
    db.execute("DELETE FROM member WHERE subscription = ?", (number,))
    empty = "SELECT 1 FROM member WHERE audience = ? LIMIT 1"
    return [audience for audience in own if not db.execute(empty, (audience,)).fetchone()]


def remove_some_of(db: sqlite3.Connection, documents: Documents, audience: int) -> bool:
    """Delete a chunk of the rows of an audience; returns whether there are more."""
    rows = db.execute("SELECT n FROM match WHERE audience = ? LIMIT ?", (audience, _CHUNK))
    gone = [n for (n,) in rows]
    documents.delete_rows(db, gone)
    return len(gone) == _CHUNK

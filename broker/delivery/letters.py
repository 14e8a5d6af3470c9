"""What the mailbox notes of deliveries: events, and deliveries that were given up, which may be
sent again."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from broker.delivery import places
from broker.delivery.model import Channel, Dead, Event

EVENTS_KEPT = 10_000


def event(db: sqlite3.Connection, at: int, kind: str, channel: Channel, text: str) -> Event:
    """Enter an event of a channel."""
    return record_event(db, at, kind, channel.name, channel.subscription, text)


def record_event(
    db: sqlite3.Connection,
    at: int,
    kind: str,
    channel: str | None,
    subscription: str | None,
    text: str,
) -> Event:
    number = db.execute(
        "INSERT INTO event (at, kind, channel, subscription, text) VALUES (?, ?, ?, ?, ?)",
        (at, kind, channel, subscription, text),
    ).lastrowid
    assert number is not None
    return Event(number, at, kind, channel, subscription, text)


_EVENT = "SELECT number, at, kind, channel, subscription, text FROM event WHERE "


def events(db: sqlite3.Connection, after: int, limit: int) -> list[Event]:
    """Those with higher numbers, in order."""
    rows = db.execute(f"{_EVENT} number > ? ORDER BY number LIMIT ?", (after, limit))
    return [Event(*row) for row in rows]


def events_before(db: sqlite3.Connection, before: int, limit: int) -> list[Event]:
    """Those with lower numbers, the newest first."""
    rows = db.execute(f"{_EVENT} number < ? ORDER BY number DESC LIMIT ?", (before, limit))
    return [Event(*row) for row in rows]


def unreported(
    db: sqlite3.Connection, channel: Channel, kinds: Sequence[str], limit: int
) -> list[Event]:
    """Events of these kinds that concern a channel and were not sent to it."""
    rows = db.execute(
        f"{_EVENT} number > (SELECT told FROM channel WHERE number = ?) "
        f"AND kind IN ({','.join('?' * len(kinds))}) "
        "AND (? IS NULL OR subscription IS NULL OR subscription = ?) "
        "ORDER BY number LIMIT ?",
        (channel.number, *kinds, channel.subscription, channel.subscription, limit),
    )
    return [Event(*row) for row in rows]


def dead(db: sqlite3.Connection, after: int, limit: int, channel: str | None) -> list[Dead]:
    """Deliveries that were given up, by number, of all channels or of one."""
    rows = db.execute(
        "SELECT number, channel, n, match_id, subscription, reason, attempts, at FROM dead "
        "WHERE number > ? AND (? IS NULL OR channel = ?) ORDER BY number LIMIT ?",
        (after, channel, channel, limit),
    )
    return [Dead(*row) for row in rows]


def resend(db: sqlite3.Connection, numbers: Sequence[int] | None, channel: str | None) -> int:
    rows = db.execute(
        "SELECT d.number, d.n, c.number FROM dead d JOIN channel c ON c.name = d.channel "
        "WHERE (? IS NULL OR d.channel = ?) AND c.kind != 'pull'",
        (channel, channel),
    ).fetchall()
    wanted = None if numbers is None else set(numbers)
    chosen = [
        row for row in rows if (wanted is None or row[0] in wanted) and places.at(db, [row[1]])
    ]
    db.executemany(
        "INSERT INTO retry VALUES (?, ?, 0, 0) ON CONFLICT DO UPDATE SET next_try = 0",
        [(to, n) for _, n, to in chosen],
    )
    db.executemany("DELETE FROM dead WHERE number = ?", [(number,) for number, _, _ in chosen])
    return len(chosen)


def forget_dead(
    db: sqlite3.Connection,
    numbers: Sequence[int] | None,
    before: int | None,
    channel: str | None,
) -> int:
    condition, parameters = "(? IS NULL OR at < ?) AND (? IS NULL OR channel = ?)", [before] * 2
    where = (*parameters, channel, channel)
    if numbers is None:
        return db.execute(f"DELETE FROM dead WHERE {condition}", where).rowcount
    return sum(
        db.execute(f"DELETE FROM dead WHERE number = ? AND {condition}", (number, *where)).rowcount
        for number in set(numbers)
    )

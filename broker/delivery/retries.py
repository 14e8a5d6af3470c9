"""The table of retries: matches that a channel delivers out of order, because they failed or were
asked for once more. Functions of the mailbox, inside its transactions."""

from __future__ import annotations

import sqlite3

from broker.delivery.model import Channel


def due(db: sqlite3.Connection, channel: Channel, now: int, limit: int) -> list[tuple[int, int]]:
    """The numbers of matches whose retry is due, and how often each was tried."""
    return db.execute(
        "SELECT n, attempts FROM retry WHERE channel = ? AND next_try <= ? "
        "ORDER BY next_try, n LIMIT ?",
        (channel.number, now, limit),
    ).fetchall()


def next_due(db: sqlite3.Connection, channel: Channel) -> int | None:
    """When the next retry of a channel is due, None if it has none."""
    ((found,),) = db.execute("SELECT min(next_try) FROM retry WHERE channel = ?", (channel.number,))
    return None if found is None else int(found)


def schedule(db: sqlite3.Connection, channel: Channel, n: int) -> None:
    """Schedule a match for another delivery, out of order."""
    if channel.kind == "pull":
        raise ValueError(
            f"{channel.name}: a pull channel is not sent to; reset it to an earlier match"
        )
    db.execute(
        "INSERT INTO retry VALUES (?, ?, 0, 0) ON CONFLICT DO UPDATE SET next_try = 0",
        (channel.number, n),
    )


def make_due(db: sqlite3.Connection, beyond: int) -> None:
    """Make what is scheduled after this time due now, the next attempts of channels included."""
    late = "next_try = 0 WHERE next_try > ?"
    db.execute(f"UPDATE retry SET {late}", (beyond,))
    db.execute(f"UPDATE channel SET version = version + 1, {late}", (beyond,))

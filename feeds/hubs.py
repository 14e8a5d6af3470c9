"""Subscriptions of feeds at their hubs (WebSub): the tables only; `websub` has the protocol.

In: the spool's database, inside a transaction of the spool. Out: `Subscription`s.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, fields
from typing import Any, Literal

TABLE = """
CREATE TABLE IF NOT EXISTS hub (
    url TEXT PRIMARY KEY, hub TEXT NOT NULL, topic TEXT NOT NULL, private INTEGER NOT NULL,
    token TEXT NOT NULL UNIQUE, secret TEXT NOT NULL, state TEXT NOT NULL,
    next_try INTEGER NOT NULL,
    expires INTEGER NOT NULL, errors INTEGER NOT NULL, problem TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS callback (address TEXT NOT NULL);
"""
RENEW_AT = 0.8
"""The share of a lease after which it is renewed."""

_DAY = 86_400 * 1_000_000
# An active subscription is renewed at RENEW_AT of its lease, so the rest of the lease behind
# `next_try` bounds how far ahead `next_try` can be; all others are tried within a day. A `next_try`
# further ahead (the day is also the tolerance) was set by a wrong clock, and is due now.
_DUE = f"""
(next_try <= ?1 OR
 next_try - ?1 > {_DAY} + {RENEW_AT / (1 - RENEW_AT):.1f} * max(0, expires - next_try))
AND url IN (SELECT url FROM feed WHERE status = 'active')
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A feed's subscription at its hub. Times are in microseconds since the epoch.

    `url` is the feed, `topic` what the hub calls it, and `private` says that the feed came from a
    private address, so that its hub may have one too. `token` is the last part of the callback's
    address and `secret` signs what is pushed; neither is guessed or shown. `state` is "wanted"
    (nothing asked yet), "asked" (the hub has still to verify it), "active" until `expires`, or
    "denied". `next_try` is when the hub is asked next; `errors` counts failures in a row.
    """

    url: str
    hub: str
    topic: str
    private: bool
    token: str = field(repr=False)
    secret: str = field(repr=False)
    state: Literal["wanted", "asked", "active", "denied"] = "wanted"
    next_try: int = 0
    expires: int = 0
    errors: int = 0
    problem: str | None = None


_NAMES = [field.name for field in fields(Subscription)]
_COLUMNS = ", ".join(_NAMES)


def load(db: sqlite3.Connection, where: str = "TRUE", *values: object) -> list[Subscription]:
    """The subscriptions that fulfil an SQL condition."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM hub WHERE {where}", values).fetchall()
    return [_of(*row) for row in rows]


def due(db: sqlite3.Connection, now: int) -> list[Subscription]:
    """The subscriptions of active feeds whose `next_try` has come, or was set by a wrong clock."""
    return load(db, _DUE, now)


def set_callback(db: sqlite3.Connection, address: str) -> None:
    """Store the address that all callbacks begin with. If it has changed, all subscriptions are
    made anew, because hubs still push to the former address."""
    if db.execute("SELECT address FROM callback").fetchone() == (address,):
        return
    db.execute("DELETE FROM callback")
    db.execute("INSERT INTO callback VALUES (?)", (address,))
    db.execute("UPDATE hub SET state = 'wanted', next_try = 0, expires = 0, errors = 0")


def save(db: sqlite3.Connection, subscription: Subscription) -> None:
    """Store a subscription in place of the feed's former one."""
    values = [getattr(subscription, name) for name in _NAMES]
    marks = ", ".join("?" * len(_NAMES))
    db.execute(f"INSERT OR REPLACE INTO hub ({_COLUMNS}) VALUES ({marks})", values)


def _of(*row: Any) -> Subscription:
    values = dict(zip(_NAMES, row, strict=True))
    values["private"] = bool(values["private"])
    return Subscription(**values)

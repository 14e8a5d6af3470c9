"""The state of each feed: its addresses, its HTTP validators, its health.

In: the spool's database, inside a transaction of the spool. Out: `FeedState`s. The columns of the
table `feed` are the fields of the dataclass, in its order.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Status = Literal["active", "gone", "paused"]

TABLE = """
CREATE TABLE IF NOT EXISTS feed (
    url TEXT PRIMARY KEY, address TEXT NOT NULL, title TEXT NOT NULL, etag TEXT,
    last_modified TEXT, next_fetch INTEGER NOT NULL, errors INTEGER NOT NULL, problem TEXT,
    status TEXT NOT NULL, last_fetch INTEGER, last_success INTEGER, last_full INTEGER,
    items_per_day REAL, wish INTEGER NOT NULL, body_hash BLOB, trusted INTEGER NOT NULL, login TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS feed_due ON feed (status, next_fetch)
"""


@dataclass(frozen=True, slots=True)
class FeedState:
    """The state of a feed. All times are in microseconds since the epoch, None for never.

    `url` is the feed as the user typed it, without a login, and its identity; `address` is where to
    fetch it now (they differ after a permanent redirect). `etag` and `last_modified` are the
    validators of the last response, verbatim, and `trusted` says that they may be sent: it is false
    once they stayed the same although items were new.

    `status` is "active", "paused" by the user, or "gone" (410); only active feeds are fetched.
    `last_fetch` is the last attempt, `last_success` the last response that was a readable feed or
    "not modified", or a push; `last_full` the last whole document. `errors` counts failures in a
    row and `problem` is the last one, None while all is well. `items_per_day` is an estimate of the
    current rate of new items, None before the first document. `wish` is the shortest time in
    seconds between two fetches that the publisher asks for. `body_hash` is that of the last
    document. `login` is "user:password" for the feed's own host, where `$NAME` stands for a
    variable of the environment.
    """

    url: str
    address: str
    title: str = ""
    etag: str | None = None
    last_modified: str | None = None
    next_fetch: int = 0
    errors: int = 0
    problem: str | None = None
    status: Status = "active"
    last_fetch: int | None = None
    last_success: int | None = None
    last_full: int | None = None
    items_per_day: float | None = None
    wish: int = 0
    body_hash: bytes | None = field(default=None, repr=False)
    trusted: bool = True
    login: str | None = field(default=None, repr=False)

    @property
    def was_read(self) -> bool:
        """Whether a readable document was ever fetched; from then on the feed has a rate."""
        return self.items_per_day is not None


_NAMES = [field.name for field in fields(FeedState)]
COLUMNS = ", ".join(_NAMES)
# What a user sets while a fetch is under way is not overwritten when the fetch ends.
_KEPT = {
    "url": "feed.url",
    "login": "feed.login",
    "status": "CASE WHEN feed.status = 'paused' THEN 'paused' ELSE excluded.status END",
}
_SAVE = (
    f"INSERT INTO feed ({COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))}) "
    "ON CONFLICT (url) DO UPDATE SET "
    + ", ".join(f"{name} = {_KEPT.get(name, f'excluded.{name}')}" for name in _NAMES[1:])
)


def load(db: sqlite3.Connection, where: str = "TRUE", *values: object) -> list[FeedState]:
    """The feeds that fulfil an SQL condition, with what may follow it (ORDER BY, LIMIT)."""
    rows = db.execute(f"SELECT {COLUMNS} FROM feed WHERE {where}", values)
    return [_of(*row) for row in rows]


def save(db: sqlite3.Connection, state: FeedState) -> None:
    """Store a feed's state; a pause and a login that were set meanwhile stay."""
    db.execute(_SAVE, [getattr(state, name) for name in _NAMES])


def migrate(db: sqlite3.Connection) -> None:
    """Convert the table from version 1 of the spool, which had fewer columns."""
    db.execute("ALTER TABLE feed RENAME TO feed_1")
    for statement in TABLE.split(";"):
        db.execute(statement)
    db.execute(
        f"INSERT INTO feed ({COLUMNS}) SELECT url, address, title, etag, last_modified, "
        "next_fetch, errors, problem, iif(gone, 'gone', 'active'), NULL, NULL, NULL, NULL, 0, "
        "NULL, 1, NULL FROM feed_1"
    )
    db.execute("DROP TABLE feed_1")


def _of(*row: Any) -> FeedState:
    state = dict(zip(_NAMES, row, strict=True))
    state["trusted"] = bool(state["trusted"])
    return FeedState(**state)

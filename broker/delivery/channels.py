"""The table of channels: adding, changing, moving cursors. Functions of the mailbox, inside its
transactions."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from broker.delivery import places
from broker.delivery.model import Channel, Disabled, Done, EventsSent, Failed, Report, Status
from broker.delivery.tables import count, marked
from broker.delivery.targets import FileTarget, check_name, prepared, target

_COLUMNS = (
    "name, kind, subscription, settings, ordered, status, cursor, attempts, next_try, last_error, "
    "failures, "
    "last_success, failing_since, reason, delivered, draining, number, "
    "generation, version, state"
)


def load(db: sqlite3.Connection, condition: str = "TRUE", *parameters: Any) -> list[Channel]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM channel WHERE {condition} ORDER BY name", parameters)
    return [_channel(row) for row in rows]


def of(db: sqlite3.Connection, subscriptions: Sequence[str]) -> list[Channel]:
    """The channels of these subscriptions alone, which go with them and have not been told yet."""
    own = "subscription IN (SELECT value FROM json_each(?)) AND draining = 0"
    return load(db, own, json.dumps(subscriptions))


def _channel(row: tuple[Any, ...]) -> Channel:
    fields = dict(zip(_COLUMNS.split(", "), row, strict=True))
    fields |= {name: json.loads(fields[name]) for name in ("settings", "state")}
    return Channel(**fields | {"ordered": bool(fields["ordered"])})


def get(db: sqlite3.Connection, name: str) -> Channel:
    """KeyError if there is none of that name."""
    found = load(db, "name = ?", name)
    if not found:
        raise KeyError(name)
    return found[0]


class Replaces(Exception):
    """A channel of that name exists and has another goal. `channel` is the existing one."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel.name)
        self.channel = channel


def put(
    db: sqlite3.Connection, wanted: Channel, cursor: int, now: int, replace: bool
) -> Channel | None:
    """Add a channel, or change one, which keeps its cursor, its status and its failures.

    A channel of another kind replaces the old one and starts anew. With another subscription,
    pending retries are deleted. ValueError says which setting is wrong. Unless `replace` is set, a
    change of the goal (kind, address or subscription) is refused with `Replaces`. Returns the
    former channel, None if there was none.
    """
    name, kind, subscription = wanted.name, wanted.kind, wanted.subscription
    check_name(name)
    was = old = next(iter(load(db, "name = ?", name)), None)
    if old is not None and not replace and wanted.goal != old.goal:
        raise Replaces(old)
    if old is not None and old.kind != kind:
        remove(db, old)
        old = None
    checked = prepared(kind, wanted.settings, old.settings if old else None, now)
    if kind == "file":
        _check_path(db, name, checked)
    stored = json.dumps(checked)
    if old is None:
        db.execute(
            "INSERT INTO channel (name, kind, subscription, settings, ordered, cursor, told) "
            "VALUES (?, ?, ?, ?, ?, ?, (SELECT coalesce(max(number), 0) FROM event))",
            (name, kind, subscription, stored, wanted.ordered, cursor),
        )
    else:
        db.execute(
            "UPDATE channel SET subscription = ?, settings = ?, ordered = ?, draining = 0, "
            "next_try = 0, version = version + 1 WHERE number = ?",
            (subscription, stored, wanted.ordered, old.number),
        )
        if subscription != old.subscription:
            # The retries are matches of the former subscription. A new generation makes the reports
            # of attempts that are under way void.
            db.execute("DELETE FROM retry WHERE channel = ?", (old.number,))
            db.execute(
                "UPDATE channel SET attempts = 0, generation = generation + 1 WHERE number = ?",
                (old.number,),
            )
    return was


def _check_path(db: sqlite3.Connection, name: str, settings: Mapping[str, Any]) -> None:
    """Refuse a path that another channel writes to, since each would take the other's lines for
    torn ones; and one that rotation of either would overwrite. Raises ValueError."""
    file = target("file", settings)
    assert isinstance(file, FileTarget)
    for other in load(db, "kind = 'file' AND name != ?", name):
        taken = target("file", other.settings)
        assert isinstance(taken, FileTarget)
        if "-" in (file.path, taken.path):
            continue
        if os.path.realpath(file.path) == os.path.realpath(taken.path):
            raise ValueError(f"path: the channel {other.name} writes to {taken.path} already")
        if _rotates_over(file, taken.path) or _rotates_over(taken, file.path):
            raise ValueError(
                f"path: the channel {other.name} writes to {taken.path}, "
                "and rotation would replace the file of one with an old one of the other"
            )


def _rotates_over(file: FileTarget, path: str) -> bool:
    """Whether a path is one to which rotation renames the file."""
    if file.rotate_bytes is None:
        return False
    # Renaming does not follow a link at the end of a path, writing does.
    beginning = f"{_entry(file.path)}."
    for place in (_entry(path), os.path.realpath(path)):
        number = place.removeprefix(beginning) if place.startswith(beginning) else ""
        if number.isdecimal() and number == str(int(number[:20])) and 1 <= int(number) <= file.keep:
            return True
    return False


def _entry(path: str) -> str:
    """The directory's real path and the name in it."""
    directory, name = os.path.split(path)
    return os.path.join(os.path.realpath(directory), name)


def remove(db: sqlite3.Connection, channel: Channel) -> None:
    """Delete a channel with its retries. Its dead letters stay."""
    db.execute("DELETE FROM retry WHERE channel = ?", (channel.number,))
    db.execute("DELETE FROM channel WHERE number = ?", (channel.number,))


def drain(db: sqlite3.Connection, channel: Channel, upto: int) -> None:
    """Make a channel deliver up to number `upto` of the log and then be removed; with 0 it is
    removed now."""
    if not upto:
        remove(db, channel)
        return
    db.execute(
        "UPDATE channel SET draining = ?, version = version + 1 WHERE number = ?",
        (upto, channel.number),
    )
    db.execute("DELETE FROM retry WHERE channel = ? AND n > ?", (channel.number, upto))


def set_status(
    db: sqlite3.Connection, channel: Channel, status: Status, reason: str | None = None
) -> None:
    """Set a channel's status. One that becomes active tries at once, as if it had never failed."""
    fresh = ""
    if status == "active":
        fresh = ", attempts = 0, failures = 0, next_try = 0, failing_since = NULL"
    db.execute(
        f"UPDATE channel SET status = ?, reason = ?, version = version + 1{fresh} WHERE number = ?",
        (status, reason, channel.number),
    )
    if status == "active":
        db.execute("UPDATE retry SET next_try = 0 WHERE channel = ?", (channel.number,))


def move(db: sqlite3.Connection, channel: Channel, cursor: int) -> None:
    """Move a channel's cursor, forwards or backwards. Reports of attempts that are under way become
    void."""
    db.execute(
        "UPDATE channel SET cursor = ?, attempts = 0, next_try = 0, version = version + 1, "
        "generation = generation + 1 WHERE number = ?",
        (cursor, channel.number),
    )


def pending(db: sqlite3.Connection, channel: Channel, upto: int, limit: int = -1) -> int:
    """How many matches after its cursor and up to number `upto` a channel has to deliver; counted
    up to `limit`."""
    if channel.subscription is None:
        sql = f"SELECT count(*) FROM (SELECT 1 {places.OF_ALL} LIMIT ?3)"
        return int(db.execute(sql, (channel.cursor, upto, limit)).fetchone()[0])
    numbers = subscription_numbers(db, [channel.subscription])
    return places.count_of(db, numbers, channel.cursor, upto, limit)


def ahead(
    db: sqlite3.Connection, channel: Channel, limit: int, upto: int = places.LAST
) -> list[places.Place]:
    """The places of the next matches after its cursor and up to number `upto` that a channel has to
    deliver."""
    if channel.subscription is None:
        return places.of_all(db, channel.cursor, limit, upto)
    numbers = subscription_numbers(db, [channel.subscription])
    return places.of_subscriptions(db, numbers, channel.cursor, limit, upto)


def oldest(db: sqlite3.Connection, channel: Channel) -> int | None:
    """When the first match that a channel has to deliver entered the log (microseconds)."""
    found = ahead(db, channel, 1)
    if not found:
        return None
    ((row, _),) = found
    (taken,) = db.execute("SELECT taken FROM match WHERE n = ?", (row,)).fetchone()
    return int(taken)


def subscription_numbers(db: sqlite3.Connection, names: Sequence[str]) -> list[int]:
    """The numbers of the subscriptions of these names, also of dropped ones."""
    found: list[int] = []
    for part, marks in marked(names):
        rows = db.execute(f"SELECT number FROM subscription WHERE name IN ({marks})", part)
        found += [number for (number,) in rows]
    return found


def acknowledge(db: sqlite3.Connection, channel: Channel, n: int, now: int) -> None:
    """Count the matches up to n as delivered, and move the cursor there."""
    done = pending(db, channel, n)
    db.execute(
        "UPDATE channel SET cursor = ?, delivered = delivered + ?, last_success = ? "
        "WHERE number = ?",
        (n, done, now, channel.number),
    )
    count(db, "delivered", channel.kind, done)


def remove_drained(db: sqlite3.Connection) -> int:
    """Remove the channels of dropped subscriptions that have nothing left to deliver; returns how
    many."""
    gone = [
        channel
        for channel in load(db, "draining > 0")
        if not pending(db, channel, channel.draining, limit=1)
        and not db.execute("SELECT 1 FROM retry WHERE channel = ?", (channel.number,)).fetchone()
    ]
    for channel in gone:
        remove(db, channel)
    return len(gone)


# -- what the worker reports ---------------------------------------------------------------------


def apply_report(db: sqlite3.Connection, report: Report) -> bool:
    """Apply the report of a delivery. Cursor and failures of a channel that was replaced or reset
    meanwhile stay as they are. False for a failure of such a channel, which is ignored."""
    channel = report.channel
    if isinstance(report, Done):
        _done(db, report)
    elif isinstance(report, Failed):
        return _failed(db, report)
    elif isinstance(report, Disabled):
        db.execute(
            "UPDATE channel SET status = 'disabled', reason = ?, version = version + 1 "
            "WHERE number = ?",
            (report.reason, channel.number),
        )
    elif isinstance(report, EventsSent):
        db.execute(
            "UPDATE channel SET told = max(told, ?) WHERE number = ?",
            (report.event, channel.number),
        )
    return True


def _done(db: sqlite3.Connection, done: Done) -> None:
    channel = done.channel
    well = ""
    if done.count:  # otherwise nothing was sent, so the receiver's failures stay
        well = ", attempts = 0, failures = 0, next_try = 0, last_error = NULL, failing_since = NULL"
        db.execute(
            "UPDATE channel SET delivered = delivered + ?, last_success = ? WHERE number = ?",
            (done.count, done.at, channel.number),
        )
    db.execute(
        "UPDATE channel SET cursor = max(cursor, coalesce(?, cursor)), "
        f"state = coalesce(?, state){well} WHERE number = ? AND generation = ?",
        (
            done.cursor,
            None if done.state is None else json.dumps(done.state),
            channel.number,
            channel.generation,
        ),
    )
    for n in done.retried:
        db.execute("DELETE FROM retry WHERE channel = ? AND n = ?", (channel.number, n))
    count(db, "delivered", channel.kind, done.count)


def _failed(db: sqlite3.Connection, failed: Failed) -> bool:
    channel, key = failed.channel, (failed.channel.number, failed.n)
    count(db, "failed", channel.kind, 1)
    passed = failed.later or failed.dead
    # A retry out of order does not change the attempts of the channel's next match.
    attempts = None if failed.again else 0 if passed else failed.attempts
    entered = db.execute(
        "UPDATE channel SET last_error = ?, failing_since = coalesce(failing_since, ?), "
        "cursor = max(cursor, coalesce(?, cursor)), attempts = coalesce(?, attempts), "
        "next_try = ?, failures = ? WHERE number = ? AND generation = ?",
        (
            failed.reason,
            failed.at,
            failed.cursor,
            attempts,
            failed.pause,
            failed.failures,
            channel.number,
            channel.generation,
        ),
    )
    if not entered.rowcount:
        # The channel was removed, or was reset and starts from its cursor: no retry.
        return False
    if failed.dead:
        db.execute("DELETE FROM retry WHERE channel = ? AND n = ?", key)
        add_dead_letter(
            db,
            channel,
            failed.n,
            failed.match_id,
            failed.subscription,
            failed.reason,
            failed.attempts,
            failed.at,
        )
    elif failed.later:
        db.execute(
            "INSERT INTO retry VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET attempts = excluded.attempts, next_try = excluded.next_try",
            (*key, failed.attempts, failed.next_try),
        )
    return True


def add_dead_letter(
    db: sqlite3.Connection,
    channel: Channel,
    n: int,
    match_id: str,
    subscription: str,
    reason: str,
    attempts: int,
    at: int,
) -> None:
    """Store a delivery that is given up as a dead letter."""
    count(db, "given_up", channel.kind, 1)
    db.execute(
        "INSERT INTO dead (channel, n, match_id, subscription, reason, attempts, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (channel.name, n, match_id, subscription, reason, attempts, at),
    )

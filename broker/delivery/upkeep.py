"""Upkeep of the mailbox: retention, dead letters, events, compaction, backup, figures.

All in small transactions, so that other writers need not wait long.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from broker.delivery import channels
from broker.delivery.ids import Ids
from broker.delivery.model import Channel, Event, Figures
from broker.delivery.tables import Database, MailboxError
from broker.model import Match
from broker.state.disk import sync

_CHUNK = 1_000
"""Rows per transaction."""
_PAGES = 500
"""Pages that one step of compaction gives back."""
_COUNTED = 10_000
"""A backlog is counted up to this; a larger one is estimated from numbers of the log."""
_SKIPPED = 10**9
"""More matches than a log gets between two backups."""

EVENTS_KEPT = 10_000

_WAITED_FOR = """
(match.n > (SELECT coalesce(min(cursor), 9223372036854775807)
            FROM channel WHERE subscription IS NULL)
 OR EXISTS (SELECT 1 FROM retry WHERE retry.n = match.n)
 OR EXISTS (
    SELECT 1 FROM subscription s JOIN channel c ON c.subscription = s.name
    WHERE s.number = match.subscription AND c.cursor < match.n
    AND (c.draining = 0 OR match.n <= c.draining)))
"""


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


# -- dead letters --------------------------------------------------------------------------------


def resend(db: sqlite3.Connection, numbers: Sequence[int] | None, channel: str | None) -> int:
    rows = db.execute(
        "SELECT d.number, d.n, c.number FROM dead d JOIN channel c ON c.name = d.channel "
        "JOIN match m ON m.n = d.n WHERE (? IS NULL OR d.channel = ?) AND c.kind != 'pull'",
        (channel, channel),
    ).fetchall()
    wanted = None if numbers is None else set(numbers)
    chosen = [row for row in rows if wanted is None or row[0] in wanted]
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


# -- retention -----------------------------------------------------------------------------------


def retain(
    db: Database,
    known: Ids,
    delivered: int | None,
    undelivered: int | None,
    max_bytes: int | None,
    dead: int | None,
    now: int,
) -> int:
    """See `Mailbox.retain`."""
    with db.transaction() as tx:
        # Retries of removed channels: they would never run, and would keep their matches.
        tx.execute("DELETE FROM retry WHERE channel NOT IN (SELECT number FROM channel)")
    if dead is not None:
        with db.transaction() as tx:
            forget_dead(tx, None, now - dead, None)
    if undelivered is not None:
        _give_up(
            db, _place(db, now - undelivered, now), now, "not delivered within the time for it"
        )
    removed = 0
    if delivered is not None:
        removed += _remove(db, _place(db, now - delivered, now))
    if max_bytes is not None:
        removed += _shrink(db, max_bytes, now)
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
            "(SELECT 1 FROM match WHERE match.subscription = subscription.number)"
        )
    return removed


def _place(db: Database, time: int, now: int) -> int:
    """The highest number of the log such that all matches up to it entered the log before a time.

    A batch dated in the future, by a wrong clock, counts as old as its neighbours.
    """
    found = db.rows(
        "SELECT first FROM taken WHERE at BETWEEN ? AND ? ORDER BY batch LIMIT 1", time, now
    )
    return int(found[0][0]) - 1 if found else 2**62


def _remove(db: Database, upto: int, kept: str = f"{_WAITED_FOR} OR {{dead}}") -> int:
    """Delete matches up to a number that no channel has still to deliver and no dead letter
    needs."""
    needed = kept.format(dead="EXISTS (SELECT 1 FROM dead WHERE dead.n = match.n)")
    removed = last = 0
    while True:
        with db.transaction() as tx:
            (end,) = tx.execute(
                "SELECT max(n) FROM (SELECT n FROM match WHERE n > ? AND n <= ? ORDER BY n LIMIT "
                "?)",
                (last, upto, _CHUNK),
            ).fetchone()
            if end is None:
                return removed
            removed += tx.execute(
                f"DELETE FROM match WHERE n > ? AND n <= ? AND NOT ({needed})", (last, end)
            ).rowcount
            last = end


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
        condition = "n <= ? AND (n > ? OR n IN (SELECT n FROM retry WHERE channel = ?))"
        parameters: list[object] = [upto, channel.cursor, channel.number]
        if channel.subscription is not None:
            condition += " AND subscription IN (SELECT number FROM subscription WHERE name = ?)"
            parameters.append(channel.subscription)
        rows = tx.execute(
            f"SELECT n, head FROM match WHERE {condition} ORDER BY n LIMIT ?",
            (*parameters, _CHUNK),
        ).fetchall()
        if not rows:
            return False
        for n, head in rows:
            match = Match.loads(head.decode("utf-8", "surrogatepass"), b"")
            channels.add_dead_letter(
                tx, channel, n, match.id, match.query, reason, channel.attempts, now
            )
            tx.execute("DELETE FROM retry WHERE channel = ? AND n = ?", (channel.number, n))
        end = upto if len(rows) < _CHUNK else rows[-1][0]
        # The new generation makes reports of attempts that are under way void.
        tx.execute(
            "UPDATE channel SET cursor = max(cursor, ?), attempts = 0, next_try = 0, "
            "version = version + 1, generation = generation + 1 WHERE number = ?",
            (end, channel.number),
        )
        text = f"given up, {len(rows)} matches: {reason}"
        record_event(tx, now, "delivery.dead", channel.name, channel.subscription, text)
        return len(rows) == _CHUNK


def _shrink(db: Database, max_bytes: int, now: int) -> int:
    """Delete the oldest matches until the file's contents fit, delivered ones first."""
    removed = 0
    for delivered in (True, False):
        for start in _oldest(db, max_bytes):
            if delivered:
                removed += _remove(db, start)
            else:
                _give_up(db, start, now, "the mailbox has reached its size limit: not kept")
                removed += _remove(db, start, "FALSE")
    return removed


def _oldest(db: Database, max_bytes: int) -> Iterator[int]:
    """Numbers up to which to delete, one chunk after another, while too much is in use."""
    last = 0
    while _used(db) > max_bytes:
        ((end,),) = db.rows(
            "SELECT max(n) FROM (SELECT n FROM match WHERE n > ? ORDER BY n LIMIT ?)", last, _CHUNK
        )
        if end is None:
            return
        last = end
        yield end


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
    (last,) = db.execute(
        "SELECT coalesce(max(n), 0) FROM match WHERE subscription IN "
        "(SELECT number FROM subscription WHERE name = ? AND number < ?)",
        (subscription, number),
    ).fetchone()
    return int(last)


def remove_some_of(db: sqlite3.Connection, number: int) -> bool:
    """Delete a chunk of matches of a dropped subscription, with their dead letters; returns whether
    there are more."""
    chosen = "SELECT n FROM match WHERE subscription = ? ORDER BY n LIMIT ?"
    db.execute(f"DELETE FROM dead WHERE n IN ({chosen})", (number, _CHUNK))
    db.execute(f"DELETE FROM retry WHERE n IN ({chosen})", (number, _CHUNK))
    gone = db.execute(f"DELETE FROM match WHERE n IN ({chosen})", (number, _CHUNK)).rowcount
    return gone == _CHUNK


# -- the file ------------------------------------------------------------------------------------


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
    db.maintain("PRAGMA wal_checkpoint(TRUNCATE)")
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
    (matches,) = db.execute("SELECT coalesce(max(n) - min(n) + 1, 0) FROM match").fetchone()
    if matches <= _COUNTED:
        (matches,) = db.execute("SELECT count(*) FROM match").fetchone()
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

"""The spool: what the feeds brought, durable before anything else sees it.

In: waves, the batches of feeds that were fetched together. Out: numbered document rows, in order,
to any process. One SQLite file (write-ahead log, every commit synced) holds the rows, the items
that were `seen`, the `state` of each feed, and the `hubs` that push it.

Guarantees, also when the process is killed or the power fails at any moment:

- A wave is there entirely or not at all: its rows, the items seen and the feeds' new validators.
  So a feed whose items are not in the spool is asked for them again.
- An item gets one row when it is first seen and one more each time its content has changed.
- Numbers only grow, also across `trim`; a number that was read never names another row.

One process fetches; any number read, by `read_rows` and `last_seq`, or manage the feeds.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from feeds import hubs, seen
from feeds import state as states
from feeds.adapter import Channel
from feeds.hubs import Subscription
from feeds.identity import ALL
from feeds.rows import DocumentRow, dead_row
from feeds.schedule import first_rate, next_rate
from feeds.state import FeedState as FeedState
from feeds.state import Status

_SCHEMA = """
CREATE TABLE IF NOT EXISTS document (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL, id TEXT NOT NULL, streams TEXT NOT NULL, timestamp INTEGER NOT NULL,
    dated INTEGER NOT NULL, revision INTEGER NOT NULL, xml BLOB NOT NULL, error TEXT,
    place TEXT NOT NULL
);
"""
_VERSION = 2
_ROW = "source, id, streams, timestamp, dated, revision, xml, error, place"


class SpoolError(Exception):
    """The file is no spool, or not one that this version reads."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one fetch of one feed brought, or one push of its hub.

    `state` is the feed's state from now on. `channel` is None where there was no document (an
    error, or nothing new); a channel that could not be read becomes a dead letter with the `body`.
    A document that was `pushed` says nothing of the items that it does not hold, nor of the fetches
    to come, so of `state` it changes the health only. `withheld` says that the validators were
    not sent although there were some. Items of the feed's first document from before `since`
    are history: seen, but no rows. `hub` is the one that the document names, if it was fetched.
    `rows` are more documents to store with it.
    """

    state: FeedState
    arrival: int
    channel: Channel | None = None
    body: bytes = b""
    pushed: bool = False
    withheld: bool = False
    since: int = ALL
    hub: Subscription | None = None
    rows: tuple[DocumentRow, ...] = ()


class Spool(AbstractContextManager["Spool"]):
    """The spool at `path`, made if it is not there, for the process that writes it.

    May be used from several threads. Raises SpoolError for a file that is something else.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=30
            )
            old = _check(self._db, self.path)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                if old == 1:
                    states.migrate(self._db)
                    seen.migrate(self._db)
                for statement in ";".join((_SCHEMA, seen.TABLE, states.TABLE, hubs.TABLE)).split(
                    ";"
                ):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
        except sqlite3.Error as error:
            raise SpoolError(f"spool: {self.path}: {error}") from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def append(self, wave: Batch | Iterable[Batch], *, known_only: bool = False) -> int:
        """Store a wave in one transaction; returns how many rows it added.

        The rows of all its feeds are in order of time, so that the first fetches of many feeds
        arrive as their items happened. With `known_only` a feed that was removed while it was
        being fetched stays removed.
        """
        batches = [wave] if isinstance(wave, Batch) else list(wave)
        with self._transaction():
            rows: list[DocumentRow] = []
            for batch in batches:
                known = self._known(batch.state.url)
                if known is None and known_only:
                    continue
                new = self._new_rows(batch, known)
                states.save(self._db, _accounted(batch, known, new))
                self._note_hub(batch)
                rows += new
                rows += batch.rows
            rows.sort(key=lambda row: row.timestamp)  # stable: ties stay oldest first per feed
            self._db.executemany(
                f"INSERT INTO document ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        row.source,
                        row.id,
                        json.dumps(row.streams, ensure_ascii=False),
                        row.timestamp,
                        row.dated,
                        row.revision,
                        row.xml,
                        row.error,
                        row.place,
                    )
                    for row in rows
                ],
            )
        return len(rows)

    def read(self, start_seq: int, end_seq: int) -> Iterator[DocumentRow]:
        """The rows with start_seq < seq <= end_seq, in order."""
        return read_rows(self.path, start_seq, end_seq)

    def last_seq(self) -> int:
        """The highest number given so far, 0 if none."""
        with self._lock:
            return _last_seq(self._db)

    def trim(self, up_to_seq: int) -> int:
        """Delete the rows up to and including a number; what was seen stays. Returns how many."""
        with self._transaction():
            return self._db.execute("DELETE FROM document WHERE seq <= ?", (up_to_seq,)).rowcount

    # -- the feeds -----------------------------------------------------------------------------

    def state(self, url: str) -> FeedState:
        """The state of a feed, a fresh one for a feed never added."""
        with self._lock:
            return self._known(url) or FeedState(url, url)

    def feeds(self) -> list[FeedState]:
        """All feeds there are, by address as typed."""
        with self._lock:
            return states.load(self._db, "TRUE ORDER BY url")

    def schedule(self, until: int | None = None) -> list[tuple[int, str]]:
        """When each active feed is next due, with its url, the longest due first; up to a time."""
        with self._lock:
            return self._db.execute(
                "SELECT next_fetch, url FROM feed WHERE status = 'active' AND next_fetch <= ? "
                "ORDER BY next_fetch, url",
                (2**63 - 1 if until is None else until,),
            ).fetchall()

    def add(self, url: str, login: str | None = None) -> bool:
        """Subscribe to a feed, due at once; whether it is new. A known one only gets the login."""
        return self.add_all({url: login}) > 0

    def add_all(self, logins: Mapping[str, str | None]) -> int:
        """Subscribe to feeds, given with their logins, in one transaction; how many are new."""
        new = 0
        with self._transaction():
            for url, login in logins.items():
                if self._known(url) is None:
                    states.save(self._db, FeedState(url, url, login=login))
                    new += 1
                elif login is not None:
                    self._db.execute("UPDATE feed SET login = ? WHERE url = ?", (login, url))
        return new

    def remove(self, url: str) -> bool:
        """Forget a feed, but not its items: added again it brings only what is new. Was it there?"""
        with self._transaction():
            self._db.execute("DELETE FROM hub WHERE url = ?", (url,))
            return self._db.execute("DELETE FROM feed WHERE url = ?", (url,)).rowcount > 0

    def set_status(self, url: str, status: Status) -> bool:
        """Pause a feed, or make it active and due at once, also one that was gone. Is it there?"""
        with self._transaction():
            changed = self._db.execute(
                "UPDATE feed SET status = ?, next_fetch = 0 WHERE url = ?", (status, url)
            )
            return changed.rowcount > 0

    def hubs(self, due: int | None = None) -> list[Subscription]:
        """All subscriptions at hubs; or those of active feeds that are to be tried by a time."""
        active = "next_try <= ? AND url IN (SELECT url FROM feed WHERE status = 'active')"
        with self._lock:
            return hubs.load(self._db) if due is None else hubs.load(self._db, active, due)

    def hub(self, *, url: str | None = None, token: str | None = None) -> Subscription | None:
        """The subscription of a feed, or the one that a callback's token belongs to."""
        with self._lock:
            found = hubs.load(self._db, "url = ? OR token = ?", url, token)
        return found[0] if found else None

    def save_hub(self, subscription: Subscription) -> None:
        """Store a subscription in place of the feed's former one."""
        with self._transaction():
            hubs.save(self._db, subscription)

    # -- inside a transaction ------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _known(self, url: str) -> FeedState | None:
        found = states.load(self._db, "url = ?", url)
        return found[0] if found else None

    def _new_rows(self, batch: Batch, before: FeedState | None) -> list[DocumentRow]:
        channel, state = batch.channel, batch.state
        if channel is None:
            return []
        if channel.error is not None:
            known = before.problem if before else None
            # One dead letter for each time that a feed breaks, not one for each fetch meanwhile.
            if known is not None and known == state.problem:
                return []
            return [dead_row(state.url, batch.body, channel.error, state.url, batch.arrival)]
        return seen.take(
            self._db, state.url, channel, batch.arrival, batch.since, whole=not batch.pushed
        )

    def _note_hub(self, batch: Batch) -> None:
        """Keep the feed's subscription while its documents name the same hub and topic."""
        if batch.channel is None or batch.channel.error is not None or batch.pushed:
            return
        url, hub = batch.state.url, batch.hub
        known = hubs.load(self._db, "url = ?", url)
        if hub is not None and [(k.hub, k.topic) for k in known] != [(hub.hub, hub.topic)]:
            hubs.save(self._db, hub)
        elif hub is None and known:
            self._db.execute("DELETE FROM hub WHERE url = ?", (url,))


def _accounted(batch: Batch, before: FeedState | None, rows: Sequence[DocumentRow]) -> FeedState:
    """The state of a feed with what only the spool can tell: how many items were new."""
    state = batch.state
    if batch.pushed and before is not None:
        state = replace(before, last_success=batch.arrival, title=state.title)
    # Validators that stay while items come would go on to hide them.
    if batch.withheld and before is not None and rows:
        same = (state.etag, state.last_modified) == (before.etag, before.last_modified)
        state = replace(state, trusted=not same)
    return replace(state, items_per_day=_rate(batch, before, rows))


def _rate(batch: Batch, before: FeedState | None, rows: Sequence[DocumentRow]) -> float | None:
    now = batch.arrival / 1e6
    known = before.items_per_day if before else None
    read = batch.channel is not None and batch.channel.error is None
    if known is None and batch.channel is not None and read:
        return first_rate((i.timestamp / 1e6 for i in batch.channel.items if i.dated), now)
    answered = batch.pushed or batch.state.last_success == batch.arrival
    if known is None or before is None or before.last_success is None or not answered:
        return known
    new = sum(not row.revision for row in rows) if read else 0
    return next_rate(known, new, now - before.last_success / 1e6)


# -- for readers in any process --------------------------------------------------------------


def read_rows(path: str | Path, start_seq: int, end_seq: int) -> Iterator[DocumentRow]:
    """The rows of the spool at `path` with start_seq < seq <= end_seq, in order.

    Raises SpoolError if the file is there and is no spool; without a file there are no rows.
    """
    with _reading(path) as db:
        if db is None:
            return
        cursor = db.execute(
            f"SELECT seq, {_ROW} FROM document WHERE seq > ? AND seq <= ? ORDER BY seq",
            (start_seq, end_seq),
        )
        for seq, source, id, streams, timestamp, dated, revision, xml, error, place in cursor:
            yield DocumentRow(
                source,
                id,
                tuple(json.loads(streams)),
                timestamp,
                bool(dated),
                seq,
                bool(revision),
                xml,
                error,
                place,
            )


def last_seq(path: str | Path) -> int:
    """The highest number given so far in the spool at `path`, 0 if there is none."""
    with _reading(path) as db:
        return 0 if db is None else _last_seq(db)


def seq_after(path: str | Path, start_seq: int, rows: int) -> int:
    """The number of the last of the next `rows` rows after `start_seq`; `start_seq` if none is left."""
    with _reading(path) as db:
        if db is None:
            return start_seq
        (last,) = db.execute(
            "SELECT max(seq) FROM (SELECT seq FROM document WHERE seq > ? ORDER BY seq LIMIT ?)",
            (start_seq, rows),
        ).fetchone()
        return start_seq if last is None else int(last)


@contextmanager
def _reading(path: str | Path) -> Iterator[sqlite3.Connection | None]:
    path = Path(path)
    if not path.exists():
        yield None
        return
    try:
        uri = path.resolve().as_uri() + "?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)) as db:
            yield db if _check(db, path) else None
    except sqlite3.Error as error:
        raise SpoolError(f"spool: {path}: {error}") from error


def _check(db: sqlite3.Connection, path: Path) -> int:
    """The file's version, 0 if it is empty; raises SpoolError if it belongs to something else."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= _VERSION:
        raise SpoolError(f"spool: {path}: version {version}, this program reads {_VERSION}")
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and tables:
        raise SpoolError(f"spool: {path}: a database, but not a spool")
    return int(version)


def _last_seq(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'document'").fetchone()
    return 0 if row is None else int(row[0])

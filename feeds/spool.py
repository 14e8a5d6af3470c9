"""The spool: what the feeds brought, durable before anything else sees it.

In: waves, the batches of feeds that were fetched together. Out: numbered document rows, in order,
to any process. One SQLite file (write-ahead log, every commit synced) holds the rows, which items
of which feed were seen with what content, and the state of each feed's fetches.

Guarantees, also when the process is killed or the power fails at any moment:

- A wave is there entirely or not at all: its rows, the items seen and the feeds' new validators.
  So a feed whose items are not in the spool is asked for them again.
- An item gets one row when it is first seen and one more each time its content has changed.
- Numbers only grow, also across `trim`; a number that was read never names another row.

One process writes; any number read, by `read_rows` and `last_seq`.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from feeds.adapter import Channel
from feeds.rows import DocumentRow, dead_row, item_row

_SCHEMA = """
CREATE TABLE IF NOT EXISTS document (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL, id TEXT NOT NULL, streams TEXT NOT NULL, timestamp INTEGER NOT NULL,
    dated INTEGER NOT NULL, revision INTEGER NOT NULL, xml BLOB NOT NULL, error TEXT,
    place TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS seen (
    source TEXT NOT NULL, id TEXT NOT NULL, hash BLOB NOT NULL, timestamp INTEGER NOT NULL,
    gone INTEGER,
    PRIMARY KEY (source, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feed (
    url TEXT PRIMARY KEY, address TEXT NOT NULL, title TEXT NOT NULL, etag TEXT,
    last_modified TEXT, next_fetch INTEGER NOT NULL, errors INTEGER NOT NULL, problem TEXT,
    gone INTEGER NOT NULL
) WITHOUT ROWID;
"""
_VERSION = 1
_ROW = "source, id, streams, timestamp, dated, revision, xml, error, place"
_FEED = "url, address, title, etag, last_modified, next_fetch, errors, problem, gone"

FORGET_AFTER = 90 * 86_400 * 1_000_000
"""Microseconds for which an item that left its feed is remembered as seen."""


class SpoolError(Exception):
    """The file is no spool, or not one that this version reads."""


@dataclass(frozen=True, slots=True)
class FeedState:
    """What is known of a feed's fetches.

    `url` is the feed as subscribed, `address` where to ask (they differ after a permanent
    redirect), `etag` and `last_modified` the validators of the last answer verbatim. `next_fetch`
    is in microseconds since the epoch, `errors` counts failures in a row, `problem` is the last
    one, and a feed that is `gone` is not asked again.
    """

    url: str
    address: str
    title: str = ""
    etag: str | None = None
    last_modified: str | None = None
    next_fetch: int = 0
    errors: int = 0
    problem: str | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What one fetch of one feed brought.

    `state` is the feed's state from now on. `channel` is None where there was no document (an
    error, or nothing new); a channel that could not be read becomes a dead letter with the `body`.
    """

    state: FeedState
    arrival: int
    channel: Channel | None = None
    body: bytes = b""


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
            _check(self._db, self.path)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
        except sqlite3.Error as error:
            raise SpoolError(f"spool: {self.path}: {error}") from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def append(self, wave: Batch | Iterable[Batch]) -> int:
        """Store a wave in one transaction; returns how many rows it added.

        The rows of all its feeds are in order of time, so that the first fetches of many feeds
        arrive as their items happened.
        """
        batches = [wave] if isinstance(wave, Batch) else list(wave)
        with self._transaction():
            rows: list[DocumentRow] = []
            for batch in batches:
                rows += self._new_rows(batch)
                self._save_state(batch)
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

    def state(self, url: str) -> FeedState:
        """The state of a feed, a fresh one for a feed never fetched."""
        with self._lock:
            row = self._db.execute(f"SELECT {_FEED} FROM feed WHERE url = ?", (url,)).fetchone()
        return _feed_state(row) if row else FeedState(url, url)

    def states(self) -> list[FeedState]:
        with self._lock:
            rows = self._db.execute(f"SELECT {_FEED} FROM feed ORDER BY url").fetchall()
        return [_feed_state(row) for row in rows]

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

    def _new_rows(self, batch: Batch) -> list[DocumentRow]:
        channel, state = batch.channel, batch.state
        if channel is None:
            return []
        if channel.error is not None:
            known = self.state(state.url).problem
            # One dead letter for each time that a feed breaks, not one for each fetch meanwhile.
            if known is not None and known == state.problem:
                return []
            return [dead_row(state.url, batch.body, channel.error, state.url, batch.arrival)]
        return self._unseen(channel, state.url, batch.arrival)

    def _unseen(self, channel: Channel, source: str, arrival: int) -> list[DocumentRow]:
        seen: dict[str, tuple[bytes, int, int | None]] = {
            id: (hash, timestamp, gone)
            for id, hash, timestamp, gone in self._db.execute(
                "SELECT id, hash, timestamp, gone FROM seen WHERE source = ?", (source,)
            )
        }
        rows: list[DocumentRow] = []
        changed: list[tuple[str, str, bytes, int]] = []
        for item in reversed(channel.items):  # documents list the newest first
            known = seen.pop(item.id, None)
            digest = item.content_hash()
            if known is None:
                timestamp = item.timestamp
                rows.append(item_row(item, source, channel.streams, source))
            else:
                # An undated item keeps the time at which it was first seen.
                timestamp = item.timestamp if item.dated else known[1]
                if digest != known[0]:
                    revised = replace(item, timestamp=timestamp)
                    rows.append(item_row(revised, source, channel.streams, source, revision=True))
                elif known[2] is None:
                    continue
            changed.append((source, item.id, digest, timestamp))
        self._db.executemany(
            "INSERT OR REPLACE INTO seen (source, id, hash, timestamp, gone) VALUES (?, ?, ?, ?, NULL)",
            changed,
        )
        left = [id for id, (_, _, gone) in seen.items() if gone is None]
        self._db.executemany(
            "UPDATE seen SET gone = ? WHERE source = ? AND id = ?",
            [(arrival, source, id) for id in left],
        )
        self._db.execute(
            "DELETE FROM seen WHERE source = ? AND gone < ?", (source, arrival - FORGET_AFTER)
        )
        return rows

    def _save_state(self, batch: Batch) -> None:
        state = batch.state
        self._db.execute(
            f"INSERT OR REPLACE INTO feed ({_FEED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                state.url,
                state.address,
                state.title,
                state.etag,
                state.last_modified,
                state.next_fetch,
                state.errors,
                state.problem,
                state.gone,
            ),
        )


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
            ready = _check(db, path)
            yield db if ready else None
    except sqlite3.Error as error:
        raise SpoolError(f"spool: {path}: {error}") from error


def _check(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the tables are there; raises SpoolError if the file belongs to something else."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, _VERSION):
        raise SpoolError(f"spool: {path}: version {version}, this program reads {_VERSION}")
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and tables:
        raise SpoolError(f"spool: {path}: a database, but not a spool")
    return bool(version)


def _last_seq(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'document'").fetchone()
    return 0 if row is None else int(row[0])


def _feed_state(row: Sequence[object]) -> FeedState:
    url, address, title, etag, last_modified, next_fetch, errors, problem, gone = row
    return FeedState(
        str(url),
        str(address),
        str(title),
        None if etag is None else str(etag),
        None if last_modified is None else str(last_modified),
        int(str(next_fetch)),
        int(str(errors)),
        None if problem is None else str(problem),
        bool(gone),
    )

"""The spool: documents of feeds and publishers, durable before any other stage reads them.

In: waves, the batches of feeds that were fetched together, and rows that are published. Out:
numbered document rows, in order, to any process. One SQLite file (write-ahead log, every commit
synced) holds the rows (`row_log`), the items that were `seen`, the `feed_state` of each, and the
`hubs` that push it.

Guarantees, also when the process is killed or the power fails at any moment:

- Rows for which `publish` has returned numbers are stored. Threads that publish at the same time
  share one sync.
- A wave is stored entirely or not at all: its rows, the items seen and the feeds' new validators.
  So the items of a wave that was not stored are fetched again.
- An item gets one row when it is first seen and one more each time its content has changed.
- Numbers only grow, also across `trim`; a number that was read never names another row.

One process fetches and publishes; any number read, by `read_rows` and `last_seq`, or manage the
feeds.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from feeds import damage, hubs, requested, row_log, spool_file
from feeds import feed_state as states
from feeds.batches import Batch as Batch
from feeds.batches import new_rows, state_after, update_hub
from feeds.fair_lock import FairLock
from feeds.feed_state import FeedState as FeedState
from feeds.feed_state import Status
from feeds.hubs import Subscription
from feeds.row_log import Reader as Reader
from feeds.row_log import SpoolError as SpoolError
from feeds.row_log import SpoolFull as SpoolFull
from feeds.row_log import last_seq as last_seq
from feeds.row_log import read_rows as read_rows
from feeds.row_log import seq_after as seq_after
from feeds.row_log import sources as sources
from feeds.row_log import stored_at as stored_at
from feeds.rows import DocumentRow

_SLACK = 2_048
"""Free pages that `compact` leaves in the file, for rows to come."""
_TOGETHER = 250
"""Feeds after which it is reported how many were added."""
_NEVER = 2**63 - 1
_SPOILED = "damaged on the disk: it is not as it was stored; publish it again"


@dataclass(slots=True)
class _Group:
    """The rows of one call of `publish`, and their result: numbers, or an error."""

    rows: list[row_log.Values]
    numbers: range = range(0)
    done: bool = False
    error: BaseException | None = None


class Spool(AbstractContextManager["Spool"]):
    """The spool at `path`, made if it is missing, for the process that writes it.

    `on_rows` is called after new rows were stored, by the thread that stored them; `prove` with the
    number of the last row and its chained checksum, before they count as stored: it may raise
    OSError. `now` returns seconds since the epoch. May be used from several threads. Raises
    SpoolError for a file that is not a spool.
    """

    def __init__(
        self,
        path: str | Path,
        on_rows: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
        prove: Callable[[int, int], None] = lambda last, chain: None,
    ) -> None:
        self.path = Path(path)
        self.on_rows = on_rows
        self._prove = prove
        self._now = now
        self._lock = FairLock()
        self._waiting: deque[_Group] = deque()
        self._end = (0, 0)
        """The last number and its chained checksum; `_next` becomes it with the commit."""
        self._next: tuple[int, int] | None = None
        try:
            self._db = spool_file.connect(self.path)
            last = row_log.newest(self._db)
            self._end = last, row_log.chain_at(self._db, last) or 0
        except sqlite3.Error as error:
            raise row_log.problem(self.path, error) from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def append(self, wave: Batch | Iterable[Batch], *, known_only: bool = False) -> int:
        """Store a wave in one transaction; returns how many rows it added.

        The rows of all its feeds are sorted by timestamp, so that the first fetches of many feeds
        arrive as their items happened; those of first documents, which are requested history, come
        before the new items of other feeds. With `known_only` a feed that was removed while it was
        being fetched stays removed.
        """
        batches = [wave] if isinstance(wave, Batch) else list(wave)
        with self._transaction():
            rows: list[DocumentRow] = []
            history: list[DocumentRow] = []
            for batch in batches:
                known = self._known(batch.state.url)
                if known is None and known_only:
                    continue
                new = new_rows(self._db, batch, known)
                states.save(self._db, state_after(batch, known, new))
                update_hub(self._db, batch)
                first = known is None or not known.was_read
                for row in new:
                    (history if first and row.error is None else rows).append(row)
                rows += batch.rows
            for part in (history, rows):
                part.sort(key=lambda row: row.timestamp)  # stable: ties stay oldest first per feed
            rows = history + rows
            now = self._microseconds()
            numbers, chain = row_log.insert(
                self._db, [row_log.values(row, now) for row in rows], self._end[1]
            )
            if history:
                names = {row.source for row in history}
                requested.insert(self._db, names, numbers[: len(history)])
            self._next = numbers.stop - 1, chain
        if rows:
            self.on_rows()
            self._prove_stored()
        return len(rows)

    def publish(self, rows: Sequence[DocumentRow]) -> range:
        """Append rows of a publisher, all or none; returns their numbers. They are on disk when it
        returns.

        Concurrent calls are written in one transaction (group commit), so they share one sync.
        ValueError for a text that cannot be stored; SpoolFull if the disk is full; SpoolError for
        another failure of the file.
        """
        now = self._microseconds()
        group = _Group(row_log.packed(rows, now))
        self._waiting.append(group)
        with self._lock:
            # The first thread that gets the lock writes the groups of all that wait for it.
            if not group.done:
                self._write_waiting()
        if group.error is not None:
            raise row_log.problem(self.path, group.error) from group.error
        self._prove_stored()
        return group.numbers

    def _prove_stored(self) -> None:
        last, chain = self._end
        try:
            self._prove(last, chain)
        except OSError as error:
            raise SpoolError(f"spool: {self.path}: its proof: {error.strerror}") from error

    def _write_waiting(self) -> None:
        groups = [self._waiting.popleft() for _ in range(len(self._waiting))]
        error: BaseException | None = None
        last, chain = self._end
        try:
            if len(groups) == 1 and len(groups[0].rows) == 1:
                # A statement by itself is a transaction: one call of SQLite instead of three.
                groups[0].numbers, chain = row_log.insert(self._db, groups[0].rows, chain)
            else:
                with self._transaction():
                    for group in groups:
                        group.numbers, chain = row_log.insert(self._db, group.rows, chain)
        except BaseException as raised:
            error = raised
            if not isinstance(raised, sqlite3.Error):
                raise
        finally:
            for group in groups:
                group.done, group.error = True, error
        if error is None:
            last = max(last, *[group.numbers.stop - 1 for group in groups])
            self._end = last, chain
            self.on_rows()

    def read(self, start_seq: int, end_seq: int) -> Iterator[DocumentRow]:
        """The rows with start_seq < seq <= end_seq, in order."""
        return read_rows(self.path, start_seq, end_seq)

    def last_seq(self) -> int:
        """The highest number given so far, 0 if none."""
        with self._lock:
            last = row_log.newest(self._db)
            if last != self._end[0]:
                self._end = last, row_log.chain_at(self._db, last) or 0
            return last

    def skip_to(self, seq: int) -> None:
        """Make the numbers to come greater than `seq`, so that none is used twice after the file
        was lost. Raises SpoolError."""
        try:
            with self._transaction():
                row_log.skip_numbers(self._db, seq)
                self._next = max(self._end, (seq, 0))
        except sqlite3.Error as error:
            raise row_log.problem(self.path, error) from error

    def backlog(self, applied: int) -> int:
        """How many rows were stored after number `applied`; takes no lock."""
        return max(0, self._end[0] - applied)

    def end(self) -> tuple[int, int]:
        """The highest number given so far, and its chained checksum."""
        return self._end

    def chain_at(self, seq: int) -> int | None:
        """The chained checksum of a row; None if it is not there, or has none. Raises
        SpoolError."""
        with row_log.reading(self.path) as db:
            return None if db is None else row_log.chain_at(db, seq)

    def verify(self, after: int) -> tuple[list[str], list[range]]:
        """Look at the rows after a number: the places of those that are not as they were stored,
        which become dead letters, and the numbers that are missing between two of them. Raises
        SpoolError."""
        try:
            with self._transaction():
                wrong, missing = damage.find(self._db, after)
                places = [damage.spoil(self._db, each, _SPOILED) for each in wrong]
                return [place for each in places for place in each], missing
        except sqlite3.Error as error:
            raise row_log.problem(self.path, error) from error

    def check_writing(self) -> None:
        """Write something and have it synced. Raises SpoolError."""
        try:
            with self._transaction():
                spool_file.set_version(self._db)
        except sqlite3.Error as error:
            raise row_log.problem(self.path, error) from error

    def trim(self, up_to_seq: int) -> int:
        """Delete the rows up to and including a number; returns how many. Their items stay recorded
        as seen.

        Each chunk is a transaction of its own, so that publishers need not wait long.
        """
        total = 0
        while True:
            with self._transaction():
                deleted = row_log.delete(self._db, up_to_seq)
                requested.delete(self._db, up_to_seq)
            if not deleted:
                return total
            total += deleted

    def compact(self) -> int:
        """Give free pages back to the file system, if there are more than `_SLACK`; returns how
        many."""
        with self._lock:
            (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
        pages = int(free) - _SLACK
        for _ in range(0, pages, 1_000):
            with self._lock:
                # The pragma frees one page a step; only `executescript` runs all of its steps.
                self._db.executescript("PRAGMA incremental_vacuum(1000)")
        return max(0, pages)

    def backup(self, path: Path) -> None:
        """Write a consistent copy to `path`, which must not exist; readers and writers go on
        meanwhile. Raises SpoolError."""
        spool_file.backup(self.path, path)

    # -- the feeds -----------------------------------------------------------------------------

    def state(self, url: str) -> FeedState:
        """The state of a feed, a fresh one for a feed never added."""
        with self._lock:
            return self._known(url) or FeedState(url, url)

    def feeds(self) -> list[FeedState]:
        """All feeds there are, by address as typed."""
        with self._lock:
            return states.load(self._db, "TRUE ORDER BY url")

    def schedule(self, until: int = _NEVER, beyond: int = _NEVER) -> list[tuple[int, str]]:
        """(next_fetch, url) of the active feeds due at `until` or before, or later than `beyond`,
        the longest due first."""
        with self._lock:
            return self._db.execute(
                "SELECT next_fetch, url FROM feed WHERE status = 'active' "
                "AND (next_fetch <= ? OR next_fetch > ?) ORDER BY next_fetch, url",
                (until, beyond),
            ).fetchall()

    def add(self, url: str, login: str | None = None) -> bool:
        """Subscribe to a feed, due at once; returns whether it is new. A known one only gets the
        login."""
        return self.add_all({url: login}) > 0

    def add_all(
        self, logins: Mapping[str, str | None], on_feeds: Callable[[int], object] = lambda _: None
    ) -> int:
        """Subscribe to feeds, given with their logins, in one transaction; returns how many are
        new. `on_feeds` is called with how many more are done, now and then."""
        new = 0
        with self._transaction():
            for number, (url, login) in enumerate(logins.items(), 1):
                if number % _TOGETHER == 0:
                    on_feeds(_TOGETHER)
                if self._known(url) is None:
                    states.save(self._db, FeedState(url, url, login=login))
                    new += 1
                elif login is not None:
                    self._db.execute("UPDATE feed SET login = ? WHERE url = ?", (login, url))
        if rest := len(logins) % _TOGETHER:
            on_feeds(rest)
        return new

    def remove(self, url: str) -> bool:
        """Delete a feed, but not the record of its items: added again it brings only new ones.
        Returns whether it was there."""
        with self._transaction():
            self._db.execute("DELETE FROM hub WHERE url = ?", (url,))
            return self._db.execute("DELETE FROM feed WHERE url = ?", (url,)).rowcount > 0

    def refresh(self, url: str) -> FeedState | None:
        """Make an active feed due at once; returns its state, None if there is no such feed."""
        with self._transaction():
            self._db.execute(
                "UPDATE feed SET next_fetch = 0 WHERE url = ? AND status = 'active'", (url,)
            )
            return self._known(url)

    def set_status(self, url: str, status: Status) -> bool:
        """Pause a feed, or make it active and due at once, also one that was gone. Returns whether
        there is such a feed."""
        with self._transaction():
            changed = self._db.execute(
                "UPDATE feed SET status = ?, next_fetch = 0 WHERE url = ?", (status, url)
            )
            return changed.rowcount > 0

    def hubs(self, due: int | None = None) -> list[Subscription]:
        """All subscriptions at hubs; or those of active feeds that are due at a time."""
        with self._lock:
            return hubs.load(self._db) if due is None else hubs.due(self._db, due)

    def hub(self, *, url: str | None = None, token: str | None = None) -> Subscription | None:
        """The subscription of a feed, or the one that a callback's token belongs to."""
        with self._lock:
            found = hubs.load(self._db, "url = ? OR token = ?", url, token)
        return found[0] if found else None

    def save_hub(self, subscription: Subscription) -> None:
        """Store a subscription in place of the feed's former one."""
        with self._transaction():
            hubs.save(self._db, subscription)

    def set_callback(self, address: str) -> None:
        """Store the address under which hubs reach us; if it has changed, all subscriptions are
        made anew."""
        with self._transaction():
            hubs.set_callback(self._db, address)

    # -- inside a transaction ------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                with spool_file.transaction(self._db):
                    yield
                self._end = self._next or self._end
            finally:
                self._next = None

    def _microseconds(self) -> int:
        return int(self._now() * 1_000_000)

    def _known(self, url: str) -> FeedState | None:
        found = states.load(self._db, "url = ?", url)
        return found[0] if found else None

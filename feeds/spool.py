"""The spool: documents of feeds and publishers, durable before any other stage reads them.

In: waves, the batches of feeds that were fetched together, and rows that are published. Out:
numbered document rows, in order, to any process. One SQLite file (write-ahead log, every commit
synced) holds the rows (`row_log`), the items that were `seen`, the `feed_state` of each, and the
`hubs` that push it; a second one the rows that were published a few at a time lately (`recent`).

Guarantees, also when the process is killed or the power fails at any moment:

- Rows for which `publish` has returned numbers are stored. Threads that publish at the same time
  share one sync.
- A wave is stored entirely or not at all: its rows, the items seen and the feeds' new validators.
  So the items of a wave that was not stored are fetched again.
- An item gets one row when it is first seen and one more each time its content has changed.
- Numbers only grow, also across `trim`; a number that was read never names another row.

One process fetches and publishes; any number read, by `read_rows` and `last_seq`, manage the
feeds, or append waves. A reader may see a recent row a moment before `publish` has returned its
number.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from feeds import damage, handed, kept_packs, requested, row_log, row_reader, spool_file
from feeds import feed_state as states
from feeds.batches import Batch as Batch
from feeds.batches import new_rows, state_after, update_hub
from feeds.feed_state import FeedState as FeedState
from feeds.numbering import Numbering
from feeds.recent import Recent, Row
from feeds.row_log import SpoolError as SpoolError
from feeds.row_log import SpoolFull as SpoolFull
from feeds.row_reader import Reader as Reader
from feeds.row_reader import last_seq as last_seq
from feeds.row_reader import read_rows as read_rows
from feeds.row_reader import seq_after as seq_after
from feeds.row_reader import sources as sources
from feeds.row_reader import stored_at as stored_at
from feeds.rows import DocumentRow

_SLACK = 2_048
"""Free pages that `compact` leaves in the file, for rows to come."""
_KEPT_AT_ONCE = 32
"""Packs that are kept in one transaction."""


@dataclass(slots=True)
class _Group:
    """The rows of one call of `publish`, and their result: numbers, or an error."""

    rows: list[row_log.Values]
    numbers: range = range(0)
    done: bool = False
    error: BaseException | None = None
    needs_proof: bool = True


class Spool(Numbering, AbstractContextManager["Spool"]):
    """The spool at `path`, made if it is missing, for the process that writes it.

    `on_rows` is called after new rows were stored, by the thread that stored them; `prove` with the
    number of the last row and its chained checksum, before they count as stored: it may raise
    OSError. `note` is called instead of it for rows that are stored beside the tables, each twice,
    where these are wanted (`beside`). `now` returns seconds since the epoch. May be used from
    several threads. Raises SpoolError for a file that is not a spool.
    """

    def __init__(
        self,
        path: str | Path,
        on_rows: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
        prove: Callable[[int, int], None] = lambda last, chain: None,
        note: Callable[[int, int], None] = lambda last, chain: None,
        *,
        beside: bool = False,
    ) -> None:
        self.path = Path(path)
        self.on_rows = on_rows
        self._prove = prove
        self._note = note
        self._now = now
        self._waiting: deque[_Group] = deque()
        self._reader = Reader(self.path)
        """What reads the tables while others write."""
        try:
            super().__init__(self.path)
            self._open_recent(beside)
            self._reader.recent = self.recent
        except (sqlite3.Error, OSError) as error:
            raise row_log.problem(self.path, error) from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self.recent is not None:
                needed = True
                with suppress(sqlite3.Error):
                    self._bring_recent()
                    needed = False  # as that is committed
                self.recent.close(needed)
            self._reader.close()
            self._db.close()

    def append(self, wave: Batch | Iterable[Batch], *, known_only: bool = False) -> int:
        """Store a wave in one transaction; returns how many rows it added.

        The rows of all its feeds are sorted by timestamp, so that the first fetches of many feeds
        arrive as their items happened; those of first documents, which are requested history, come
        before the new items of other feeds. With `known_only` a feed that was removed while it was
        being fetched stays removed.
        """
        batches = [wave] if isinstance(wave, Batch) else list(wave)
        with self._numbering() as own:
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
            now = self._microseconds()
            parts = []
            for is_history, part in ((True, history), (False, rows)):
                part.sort(key=lambda row: row.timestamp)  # stable: ties stay oldest first per feed
                parts.append((is_history, [row_log.values(row, now) for row in part]))
            if own:
                added = self._insert([*handed.take(self._db), *parts])
            else:
                added = 0
                handed.store(self._db, parts)
        if added:
            self._tell_of_rows()
        return len(history) + len(rows)

    def take_handed(self) -> int:
        """Store the rows that other processes have handed over; returns how many."""
        with self._lock:
            if not handed.any_there(self._db):
                return 0
            with self._numbering() as own:
                added = self._insert(handed.take(self._db)) if own else 0
        if added:
            self._tell_of_rows()
        return added

    def _tell_of_rows(self) -> None:
        self.on_rows()
        self._prove_stored()

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
        self._prove_stored(self._prove if group.needs_proof else self._note)
        return group.numbers

    @property
    def is_ready(self) -> bool:
        """Whether to publish a few rows takes one record and its sync: nobody else writes, and no
        rows have to be brought into the tables."""
        return self.recent is not None and self.recent.is_ready and self._lock.is_free

    def _prove_stored(self, prove: Callable[[int, int], None] | None = None) -> None:
        last, chain = self._end
        try:
            (prove or self._prove)(last, chain)
        except OSError as error:
            raise SpoolError(f"spool: {self.path}: its proof: {error.strerror}") from error

    def _write_waiting(self) -> None:
        groups = [self._waiting.popleft() for _ in range(len(self._waiting))]
        error: BaseException | None = None
        last, chain = self._end
        recent, rows = self.recent, [row for group in groups for row in group.rows]
        try:
            if recent is not None and recent.takes(rows):
                chain = self._store_recent(recent, groups)
            elif recent is None and len(rows) == 1:
                # A statement by itself is a transaction: one call of SQLite instead of three.
                groups[0].numbers, chain = row_log.insert(self._db, groups[0].rows, chain)
            else:
                with self._adding():
                    for group in groups:
                        group.numbers, chain = row_log.insert(self._db, group.rows, chain)
        except BaseException as raised:
            error = raised
            if not isinstance(raised, (sqlite3.Error, OSError)):
                raise
        finally:
            for group in groups:
                group.done, group.error = True, error
        if error is None:
            last = max(last, *[group.numbers.stop - 1 for group in groups])
            self._end = last, chain
            self.on_rows()

    def _store_recent(self, recent: Recent, groups: Sequence[_Group]) -> int:
        """Store rows beside the tables; returns the chained checksum of the last."""
        last, chain = self._end
        rows: list[Row] = []
        for group in groups:
            first = last + 1
            for values in group.rows:
                last += values[-2]
                chain = row_log.linked(values[-1], chain)
                rows.append(Row(last, values, chain))
            group.numbers = range(first, last + 1)
            group.needs_proof = False
        recent.append(rows)
        return chain

    def read(self, start_seq: int, end_seq: int) -> Iterator[DocumentRow]:
        """The rows with start_seq < seq <= end_seq, in order."""
        return read_rows(self.path, start_seq, end_seq)

    def last_seq(self) -> int:
        """The highest number given so far, 0 if none."""
        with self._lock:
            last = row_log.newest(self._db)
            if last > self._end[0]:
                self._end = last, row_log.chain_at(self._db, last) or 0
            return self._end[0]

    def skip_to(self, seq: int) -> None:
        """Make the numbers to come greater than `seq`, so that none is used twice after the file
        was lost. Raises SpoolError."""
        try:
            with self._adding():
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
        with row_reader.reading(self.path) as db:
            return None if db is None else row_log.chain_at(db, seq)

    def verify(self, after: int) -> tuple[list[str], list[range]]:
        """Look at the rows after a number: the places of those that are not as they were stored,
        which become dead letters, and the numbers that are missing between two of them. Raises
        SpoolError."""
        try:
            with self._adding():
                wrong, missing = damage.find(self._db, after)
                places = [damage.spoil(self._db, each) for each in wrong]
                return [place for each in places for place in each], missing
        except sqlite3.Error as error:
            raise row_log.problem(self.path, error) from error

    def check_writing(self) -> None:
        """Write something and have it synced. Raises SpoolError."""
        try:
            with self._adding():
                spool_file.set_version(self._db)
        except sqlite3.Error as error:
            raise row_log.problem(self.path, error) from error

    def trim(self, up_to_seq: int, needed: int | None = None) -> int:
        """Delete the rows up to and including a number; returns how many. Their items stay recorded
        as seen. Those beside the tables are forgotten here; other processes may see them until
        others are written over them.

        There may be references to the documents of packs from number `needed` on, by default to
        none. These packs are kept, see `kept_packs`, and those before them are not any longer.

        Each chunk is a transaction of its own, so that publishers need not wait long.
        """
        total = 0
        first = up_to_seq + 1 if needed is None else needed
        self._keep_packs(first, up_to_seq)
        if self.recent is not None:
            with self._lock:
                total += self.recent.forget(up_to_seq)
                if self.recent.is_large:
                    self._bring_recent()
        while True:
            with self._transaction():
                deleted = row_log.delete(self._db, up_to_seq)
                requested.delete(self._db, up_to_seq)
                gone = kept_packs.delete(self._db, first)
            total += deleted
            if not (deleted or gone):
                return total

    def _keep_packs(self, first: int, last: int) -> None:
        """Keep the packs with numbers from the first to the last."""
        any_kept = False
        for packs in row_reader.packs_of(self._reader, first, last, _KEPT_AT_ONCE):
            rows = kept_packs.compressed(packs)  # while publishers go on
            with self._lock, spool_file.unsynced(self._db), self._transaction():
                kept_packs.insert(self._db, rows)
            any_kept = True
        if any_kept:
            with self._transaction():
                spool_file.set_version(self._db)  # with one sync for all

    def compact(self) -> int:
        """Give free pages back to the file system, if there are more than `_SLACK`, while
        publishers go on; returns how many."""
        with self._lock:
            (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
        pages = int(free) - _SLACK
        if pages > 0:
            spool_file.give_back(self.path, self._lock, pages)
        return max(0, pages)

    def backup(self, path: Path) -> None:
        """Write a consistent copy to `path`, which must not exist; readers and writers go on
        meanwhile. Raises SpoolError."""
        try:
            self._bring_recent()
        except sqlite3.Error as error:
            raise row_log.problem(self.path, error) from error
        spool_file.backup(self.path, path)

    def _microseconds(self) -> int:
        return int(self._now() * 1_000_000)

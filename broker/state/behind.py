"""Transactions that are committed in the journal, and that the tables do not hold yet.

A batch of few documents inserts a few rows into the same tables. Its transaction is committed by a
record in the journal, and many such ones are brought into the tables at once: before anything is
read, or when they are many. So whoever reads a table sees all that was committed.
"""

from __future__ import annotations

from threading import Lock, RLock

import pyarrow as pa
import pyarrow.compute as pc

from broker.model import UNBOUNDED
from broker.state.journal import Inserts, Journal, Record, Rows

PROGRESS = "progress"
"""The table that says up to which record of the journal the tables are."""
JOURNAL = "journal"
"""Its column for that; also the file, and the number in the state that its checksums begin with."""

_DOCUMENTS = "documents"

_MANY = 256
_MANY_BYTES = 4 << 20
"""How many transactions wait, and how many bytes of them, when they are brought to the tables."""
_BESIDE = 4
"""By what the first is divided where a thread brings them: it is nobody's time, and short."""
_FEW = 8
"""So many take hardly longer to bring there than one."""
_MOST = 8
"""How many times as many may wait while others are being brought there."""
_FEW_BYTES = 512 << 10
"""A transaction of more takes less time in DuckDB alone than in both, unless it is a thread that
brings it into the tables: then nobody waits for DuckDB."""


class Behind:
    """The transactions that wait for the tables. `bringing` is held, by any thread, while some of
    them are brought there: first `begin`, then `brought` or `failed`. Others may be committed
    meanwhile. Where that is done `beside` them, fewer are many.

    `number` is that of the last record, or of one that could not be written.
    """

    def __init__(self, journal: Journal, after: int, *, beside: bool = False) -> None:
        self.journal = journal
        self._many = _MANY // _BESIDE if beside else _MANY
        self.bringing = RLock()
        self._lock = Lock()
        """Held for a moment, where what follows is changed."""
        self._waiting = journal.read(after)
        self._moving: list[Record] = []
        """Those that are being brought into the tables."""
        self._bytes = 0
        self._looked, self._oldest, self._oldest_moving = 0, UNBOUNDED, UNBOUNDED
        """How many of those that wait were looked at for `oldest`, and what was found."""
        self.number = self._waiting[-1].number if self._waiting else after
        self._doubtful = self._settling = False
        """Whether a record could not be written, and may be there or not; and whether the tables
        are being told of its number."""

    @property
    def waits(self) -> bool:
        """Whether the tables lack anything."""
        return bool(self._waiting or self._moving) or self._doubtful

    @property
    def few(self) -> bool:
        """Whether the tables lack few transactions, or none."""
        return len(self._waiting) + len(self._moving) <= _FEW

    @property
    def oldest(self) -> int:
        """The lowest number of a document that the tables lack; UNBOUNDED for none."""
        with self._lock:
            self._look()
            return min(self._oldest, self._oldest_moving)

    def _look(self) -> None:
        for record in self._waiting[self._looked :]:
            self._oldest = min(self._oldest, oldest(record.inserts))
        self._looked = len(self._waiting)

    def takes(self, size: int, by_thread: bool = False) -> bool:
        """Whether a transaction that does nothing but insert rows of so many bytes can be committed
        here; one of many rows only where a thread brings them into the tables."""
        if self._doubtful:
            return False
        return size <= _FEW_BYTES or (by_thread and self._bytes + size <= _MOST * _MANY_BYTES)

    def many(self, size: int) -> bool:
        """Whether those that wait are to be brought into the tables before one of so many bytes is
        committed."""
        return self._beyond(size, self._many, _MANY_BYTES)

    def too_many(self, size: int) -> bool:
        """Whether it has to wait for that."""
        return self._beyond(size, _MOST * _MANY, _MOST * _MANY_BYTES)

    def _beyond(self, size: int, most: int, most_bytes: int) -> bool:
        return len(self._waiting) >= most or (
            bool(self._waiting) and self._bytes + size > most_bytes
        )

    def commit(self, inserts: Inserts, size: int) -> None:
        """Commit a transaction by a record; its rows have so many bytes. Raises OSError: it has not
        happened then."""
        with self._lock:
            record = Record(self.number + 1, inserts)
            self.number = record.number
            self._doubtful = True
            self.journal.append(record)
            self._waiting.append(record)
            self._bytes += size
            self._doubtful = False

    def begin(self) -> dict[str, Rows]:
        """The rows that the tables lack, by table, which are to be inserted in one transaction."""
        with self._lock:
            self._look()
            self._moving, self._waiting = self._waiting, []
            self._oldest_moving, self._oldest = self._oldest, UNBOUNDED
            self._bytes = self._looked = 0
            self._settling = self._doubtful
            number = self.number
            self.journal.turn()
        by_table: dict[str, list[pa.RecordBatch]] = {PROGRESS: []}
        for record in self._moving:
            for table, rows in record.inserts:
                parts = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
                by_table.setdefault(table, []).extend(parts)
        # A record that may be there, or the last one, may have nothing for this table.
        nothing = pa.RecordBatch.from_pydict({"next_doc": pa.nulls(1, pa.int64())})
        by_table[PROGRESS] = by_table[PROGRESS] or [nothing]
        # In one piece, as DuckDB takes as long for each as for a thousand rows.
        found = {t: pa.Table.from_batches(parts).combine_chunks() for t, parts in by_table.items()}
        found[PROGRESS] = numbered(found[PROGRESS], number)
        return found

    def brought(self) -> None:
        """Say that the tables hold what was begun, and the number of the last record then."""
        with self._lock:
            self._moving = []
            self._oldest_moving = UNBOUNDED
            self._doubtful &= not self._settling
            self.journal.release()

    def failed(self) -> None:
        """Say that the tables do not hold what was begun."""
        with self._lock:
            self._waiting = self._moving + self._waiting
            self._moving = []
            self._bytes = sum([bytes_of(record.inserts) for record in self._waiting])
            self._looked, self._oldest, self._oldest_moving = 0, UNBOUNDED, UNBOUNDED
            self.journal.restore()


def numbered(rows: Rows, number: int) -> Rows:
    """Rows of `progress` with the number of a record."""
    return rows.append_column(JOURNAL, pa.array([number] * rows.num_rows, pa.int64()))


def oldest(inserts: Inserts) -> int:
    """The lowest number of a document that is inserted; UNBOUNDED for none."""
    found = [pc.min(rows.column("doc")).as_py() for table, rows in inserts if table == _DOCUMENTS]
    return min(found, default=UNBOUNDED)


def bytes_of(inserts: Inserts) -> int:
    """The bytes of the buffers of rows."""
    # What of them is used would take thirty times as long to find out.
    return sum([int(rows.get_total_buffer_size()) for _, rows in inserts])

"""Transactions that are committed in the journal, and that the tables do not hold yet.

A batch of few documents inserts a few rows into the same tables. Its transaction is committed by a
record in the journal, and many such ones are brought into the tables at once: before anything is
read, or when they are many. So whoever reads a table sees all that was committed.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

import pyarrow as pa
import pyarrow.compute as pc

from broker.model import UNBOUNDED
from broker.state.journal import Inserts, Journal, Record, Rows

PROGRESS = "progress"
"""The table that says up to which record of the journal the tables are."""
JOURNAL = "journal"
"""Its column for that; also the file, and the number in the state that its checksums begin with."""

_DOCUMENTS = "documents"

_MOST = 256
_MOST_BYTES = 4 << 20
"""How many transactions wait, and how many bytes of them."""
_FEW_BYTES = 512 << 10
"""A transaction of more takes less time in DuckDB alone than in both."""


class Behind:
    """The transactions that wait for the tables. `lock` is held while they are brought there, and
    while another begins to read: from any thread, as DuckDB's connection is idle while any wait.

    `number` is that of the last record, or of one that could not be written.
    """

    def __init__(self, journal: Journal, after: int) -> None:
        self.journal = journal
        self.lock = RLock()
        self._waiting = journal.read(after)
        self._bytes = 0
        self._looked, self._oldest = 0, UNBOUNDED
        """How many of those that wait were looked at for `oldest`, and what was found."""
        self.number = self._waiting[-1].number if self._waiting else after
        self._doubtful = False
        """Whether a record could not be written, and may be there or not."""

    @property
    def waits(self) -> bool:
        """Whether the tables lack anything."""
        return bool(self._waiting) or self._doubtful

    @property
    def oldest(self) -> int:
        """The lowest number of a document that the tables lack; UNBOUNDED for none."""
        for record in self._waiting[self._looked :]:
            self._oldest = min(self._oldest, oldest(record.inserts))
        self._looked = len(self._waiting)
        return self._oldest

    def takes(self, inserts: Inserts) -> bool:
        """Whether a transaction that does nothing but insert these rows can be committed here."""
        if self._doubtful or PROGRESS not in [table for table, _ in inserts]:
            return False
        return _bytes(inserts) <= _FEW_BYTES

    def commit(self, inserts: Inserts, bring: Callable[[], None]) -> None:
        """Commit a transaction by a record; others are brought into the tables before, if they are
        many. Raises OSError: the transaction has not happened then."""
        size = _bytes(inserts)
        if len(self._waiting) >= _MOST or self._bytes + size > _MOST_BYTES:
            bring()
        with self.lock:
            record = Record(self.number + 1, inserts)
            self.number = record.number
            self._doubtful = True
            self.journal.append(record)
            self._waiting.append(record)
            self._bytes += size
            self._doubtful = False

    def rows(self) -> dict[str, Rows]:
        """The rows that the tables lack, by table."""
        by_table: dict[str, list[pa.RecordBatch]] = {PROGRESS: []}
        for record in self._waiting:
            for table, rows in record.inserts:
                parts = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
                by_table.setdefault(table, []).extend(parts)
        # What a record that may be there would bring is not to be brought at the next start.
        nothing = pa.RecordBatch.from_pydict({"next_doc": pa.nulls(1, pa.int64())})
        by_table[PROGRESS] = by_table[PROGRESS] or [nothing]
        # In one piece, as DuckDB takes as long for each as for a thousand rows.
        return {t: pa.Table.from_batches(parts).combine_chunks() for t, parts in by_table.items()}

    def brought(self) -> None:
        """Say that the tables hold all, and the number of the last record."""
        self._waiting.clear()
        self._bytes = self._looked = 0
        self._oldest = UNBOUNDED
        self._doubtful = False
        self.journal.rewind()


def oldest(inserts: Inserts) -> int:
    """The lowest number of a document that is inserted; UNBOUNDED for none."""
    found = [pc.min(rows.column("doc")).as_py() for table, rows in inserts if table == _DOCUMENTS]
    return min(found, default=UNBOUNDED)


def _bytes(inserts: Inserts) -> int:
    # What of them is used would take thirty times as long to find out.
    return sum([int(rows.get_total_buffer_size()) for _, rows in inserts])

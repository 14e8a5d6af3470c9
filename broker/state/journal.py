"""The journal: transactions of few rows, each a record in a file, until the tables hold them.

In: numbered transactions, as Arrow rows by table. Out: those of them that the tables do not hold
yet, when a state is opened. DuckDB takes milliseconds for a transaction, however few its rows; a
record takes a write and a sync.

The file is one of numbered records (`feeds/record_file.py`), whose numbers grow by one from record
to record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from feeds.record_file import Records

_PART = struct.Struct("<HIQ")
"""The bytes of a table's name, of the schema of its rows, and of the rows."""

Rows: TypeAlias = "pa.Table | pa.RecordBatch"
Inserts: TypeAlias = Sequence[tuple[str, Rows]]
"""Rows with the tables that they are inserted into."""


class Record(NamedTuple):
    """A transaction: its number, and all that it does."""

    number: int
    inserts: Inserts


class DamagedJournal(Exception):
    """A record is missing or damaged, but not the last one."""


class Journal:
    """The journal in a file, which is made for the first record. Raises OSError. Used by one thread
    at a time. `secret` is a number of the state, from 0 to 2**32 - 1."""

    def __init__(self, path: Path, secret: int) -> None:
        self._records = Records(path, secret)

    def close(self, needed: bool = True) -> None:
        """Close the file, and remove it if nothing that it holds is `needed` any more."""
        self._records.close(needed)

    def read(self, after: int) -> list[Record]:
        """The records with numbers above `after`, which is that of the last one in the tables; the
        next ones are written behind them. A last record that is not whole was not committed.

        Raises DamagedJournal if others follow one that is not whole.
        """
        found, later = self._records.read(after + 1)
        if later:
            missing, there = after + 1 + len(found), later[0][0]
            raise DamagedJournal(f"record {missing:,} is missing, and {there:,} is there")
        return [Record(number, [*_unpacked(body)]) for number, body in found]

    def append(self, record: Record) -> None:
        """Add a record: it is on the disk when this returns. After an error it may be there or not,
        and the tables are to be told of its number before anything else is added."""
        self._records.append(record.number, *_packed(record.inserts))

    def turn(self) -> None:
        """The records so far are being brought into the tables, while others may be added."""
        self._records.turn()

    def release(self) -> None:
        """The tables hold the records that were being brought, which may be overwritten."""
        self._records.release()

    def restore(self) -> None:
        """The records that were being brought are not in the tables."""
        self._records.restore()


class Unwritten(Journal):
    """The journal of a database in memory: it is lost with that, so nothing is written."""

    def __init__(self) -> None:
        self._kept: list[Record] = []
        self._turned: list[Record] = []

    def close(self, needed: bool = True) -> None:
        """Nothing is open."""
        self.restore()

    def read(self, after: int) -> list[Record]:
        return [record for record in self._kept if record.number > after]

    def append(self, record: Record) -> None:
        self._kept.append(record)

    def turn(self) -> None:
        self._turned, self._kept = self._kept, []

    def release(self) -> None:
        self._turned = []

    def restore(self) -> None:
        self._turned, self._kept = [], self._turned + self._kept

    def clear(self) -> None:
        """Forget all: the database that they belong to is gone."""
        self._turned, self._kept = [], []


def _packed(inserts: Inserts) -> list[bytes | memoryview]:
    parts: list[bytes | memoryview] = []
    for table, rows in inserts:
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            # A stream of Arrow would take three times as long.
            name, schema, content = table.encode(), batch.schema.serialize(), batch.serialize()
            head = _PART.pack(len(name), schema.size, content.size) + name
            parts += [head, memoryview(schema), memoryview(content)]
    return parts


def _unpacked(body: bytes) -> Iterator[tuple[str, Rows]]:
    at = 0
    while at < len(body):
        lengths = _PART.unpack_from(body, at)
        name, schema, content = _cut(body, at + _PART.size, lengths)
        at += _PART.size + sum(lengths)
        columns = pa.ipc.read_schema(pa.py_buffer(schema))
        yield name.decode(), pa.ipc.read_record_batch(pa.py_buffer(content), columns)


def _cut(body: bytes, at: int, lengths: Iterable[int]) -> Iterator[bytes]:
    for length in lengths:
        yield body[at : at + length]
        at += length

"""The journal: transactions of few rows, each a record in a file, until the tables hold them.

In: numbered transactions, as Arrow rows by table. Out: those of them that the tables do not hold
yet, when a state is opened. DuckDB takes milliseconds for a transaction, however few its rows; a
record takes a write and a sync.

Once the tables hold all records, the next one is written over the first, so the file stays small
and a sync writes no metadata. Numbers grow by one from record to record, which tells new records
from older ones behind them. Each begins at a sector of its own, so a write that is cut off damages
no other. Checksums begin with a secret of the state: no document can look like a record.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from broker.state.disk import sync

_MAGIC = b"XBJRNL01"
_HEAD = struct.Struct("<8sQQ")
"""The magic, the number, and the bytes of the content, which follows with its checksum."""
_CHECK = struct.Struct("<I")
_PART = struct.Struct("<HIQ")
"""The bytes of a table's name, of the schema of its rows, and of the rows."""
_SECTOR = 512

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
        self._path = path
        self._secret = secret
        self._file: int | None = os.open(path, os.O_RDWR) if path.exists() else None
        self._at = 0

    def close(self, needed: bool = True) -> None:
        """Close the file, and remove it if nothing that it holds is `needed` any more."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            if not needed:
                self._path.unlink()

    def read(self, after: int) -> list[Record]:
        """The records with numbers above `after`, which is that of the last one in the tables; the
        next ones are written behind them. A last record that is not whole was not committed.

        Raises DamagedJournal if others follow one that is not whole.
        """
        content = b"" if self._file is None else self._path.read_bytes()
        found: list[Record] = []
        self._at, number = 0, after + 1
        while (body := self._content(content, self._at, number)) is not None:
            found.append(Record(number, [*_unpacked(body)]))
            self._at += _padded(_HEAD.size + len(body) + _CHECK.size)
            number += 1
        at = content.find(_MAGIC)
        while at >= 0:
            if at % _SECTOR == 0 and at + _HEAD.size <= len(content):
                other = _HEAD.unpack_from(content, at)[1]
                if other >= number and self._content(content, at, other) is not None:
                    raise DamagedJournal(f"record {number:,} is missing, and {other:,} is there")
            at = content.find(_MAGIC, at + 1)
        return found

    def append(self, record: Record) -> None:
        """Add a record: it is on the disk when this returns. After an error it may be there or not,
        and the journal is to be rewound before anything else is added."""
        body = _packed(record.inserts)
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            sync(self._path.parent)
        written = _HEAD.pack(_MAGIC, record.number, len(body)) + body
        written += _CHECK.pack(zlib.crc32(written, self._secret))
        left, at = memoryview(written), self._at
        while left:
            done = os.pwrite(self._file, left, at)
            left, at = left[done:], at + done
        os.fdatasync(self._file)
        self._at += _padded(len(written))

    def _content(self, file: bytes, at: int, number: int) -> bytes | None:
        """The content of a record; None if it is not as it was written, or has another number."""
        begin = at + _HEAD.size
        if begin > len(file):
            return None
        magic, found, size = _HEAD.unpack_from(file, at)
        end = begin + size
        if magic != _MAGIC or found != number or end + _CHECK.size > len(file):
            return None
        (check,) = _CHECK.unpack_from(file, end)
        return file[begin:end] if check == zlib.crc32(file[at:end], self._secret) else None

    def rewind(self) -> None:
        """Write the next record over the first: the tables hold them all."""
        self._at = 0


class Unwritten(Journal):
    """The journal of a database in memory: it is lost with that, so nothing is written."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def close(self, needed: bool = True) -> None:
        """Nothing is open."""

    def read(self, after: int) -> list[Record]:
        return [record for record in self._records if record.number > after]

    def append(self, record: Record) -> None:
        self._records.append(record)

    def rewind(self) -> None:
        self._records.clear()


def _padded(size: int) -> int:
    return -(-size // _SECTOR) * _SECTOR


def _packed(inserts: Inserts) -> bytes:
    parts: list[bytes | pa.Buffer] = []
    for table, rows in inserts:
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            # A stream of Arrow would take three times as long.
            name, schema, content = table.encode(), batch.schema.serialize(), batch.serialize()
            parts += [_PART.pack(len(name), schema.size, content.size), name, schema, content]
    return b"".join(parts)


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

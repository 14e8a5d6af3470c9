"""Documents that were published one or a few at a time, before the tables of a spool hold them.

In: numbered rows, a record (`record_file`) for those that are stored together. Out: the same, in
memory for who reads them in this process, and from the file for others and for the next start. A
row in SQLite takes several calls and a sync of its own, and most rows would be deleted again a
moment later: when they are matched, they are forgotten here.

Each record is written twice with one sync. So a document that was accepted is there though one
place of the file is damaged, and where neither is whole the record was cut off while it was
written. The first record follows the last row of the tables; whenever the tables get rows, they get
these before, and the next record is written over the first.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from feeds.record_file import Records

_SUFFIX = "-recent"
"""What the name of the file has behind that of the spool."""
_COPIES = 2
XML = 6
"""The place of the document among the values of a row."""
_SIZE = 4
"""Bytes of the length of a record's head."""
_MOST_ROWS, _MOST_BYTES = 256, 1 << 20
"""A record with more rows or bytes is not worth while: SQLite stores them with one sync, too."""
_LARGEST = 48 << 20
"""Bytes of the file."""
_SMALL = 4 << 20
"""Bytes of the file up to which it is not worth while to begin it anew."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""`json.dumps` makes one for each record."""


_MOMENT = 0.005
"""Seconds between two times that the file is tried to be claimed."""


class Row(NamedTuple):
    """A row of the log of a spool with the number of its last document, its column values with its
    count and its checksum, and the chained checksum."""

    seq: int
    values: tuple[Any, ...]
    chain: int

    @property
    def documents(self) -> int:
        """How many documents it has."""
        return int(self.values[-2])

    @property
    def first(self) -> int:
        """The number of its first document."""
        return self.seq - self.documents + 1


class Recent:
    """The rows that the tables of the spool at `path` lack, for the process that writes it. Raises
    OSError. `secret` is a number of the spool."""

    def __init__(self, path: Path, secret: int) -> None:
        self._records = Records(file_of(path), secret, _COPIES)
        self._now: tuple[int, list[Row]] = (0, [])
        """The number before the first row that is held, and the rows."""
        self._doubtful = False
        """Whether a record could not be written, and may be there or not."""

    def claim(self, patience: float = 0.0) -> bool:
        """Make the file if it is missing; whether no other process has claimed it, or not for
        longer than so many seconds."""
        until = time.monotonic() + patience
        while not self._try_to_claim():
            if time.monotonic() >= until:
                return False
            time.sleep(_MOMENT)
        return True

    def _try_to_claim(self) -> bool:
        file = self._records.file
        file.create()
        assert file.number is not None
        with suppress(OSError):
            fcntl.flock(file.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.number).st_nlink:
                return True
        file.close()  # another process has it, or has just removed it
        return False

    def close(self, needed: bool) -> None:
        """Close the file, and remove it if nothing that it holds is `needed` any more."""
        self._records.close(needed)

    def stored(self, last: int) -> tuple[list[Row], list[range]]:
        """The rows in the file behind the `last` of the tables, and numbers that are missing
        between them."""
        return _read(self._records, last)

    @property
    def is_ready(self) -> bool:
        """Whether a few rows can be stored here."""
        return not self._doubtful and self._records.at <= _LARGEST

    def takes(self, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Whether rows with these values can be stored here."""
        if not self.is_ready or len(rows) > _MOST_ROWS:
            return False
        return sum([len(values[XML]) for values in rows]) <= _MOST_BYTES

    def append(self, rows: Sequence[Row]) -> None:
        """Store rows: they are on the disk when this returns. After an error they may be there or
        not, and nothing is stored here before the tables have got the others."""
        self._doubtful = True
        self._records.append(rows[0].first, _packed(rows))
        self._doubtful = False
        self._now[1].extend(rows)

    def after(self, seq: int) -> tuple[int, list[Row]]:
        """The rows with documents after a number; and the number before the first row that is held,
        up to which the tables have to be read."""
        begin, rows = self._now
        # All that are new since have higher numbers.
        return begin, rows[bisect_right(rows, seq, key=number) :]

    def forget(self, seq: int) -> int:
        """Forget the rows that have no document after a number; returns how many documents those
        were."""
        _, rows = self._now
        kept = rows[bisect_right(rows, seq, key=number) :]
        gone = rows[: len(rows) - len(kept)]
        if gone:
            self._now = gone[-1].seq, kept
        return sum([row.documents for row in gone])

    @property
    def is_large(self) -> bool:
        """Whether the file is worth to be begun anew."""
        return self._records.at > _SMALL

    def begin(self, last: int) -> None:
        """Say that the tables hold all, up to the `last` number."""
        self._now = last, []
        self._doubtful = False
        self._records.rewind()


def file_of(path: Path) -> Path:
    """The file with the recent documents of the spool at a path."""
    return path.with_name(path.name + _SUFFIX)


def read(path: Path, secret: int, last: int) -> list[Row]:
    """The rows of the spool at `path` behind the `last` of its tables, for any process."""
    if not file_of(path).exists():
        return []
    records = Records(file_of(path), secret, _COPIES)
    try:
        return _read(records, last)[0]
    finally:
        records.close()


def number(row: Row) -> int:
    """The number of a row, by which rows are ordered."""
    return row.seq


def _read(records: Records, last: int) -> tuple[list[Row], list[range]]:
    found, later = records.read(last + 1, lambda _, content: _last(content) + 1)
    rows = [row for _, content in found for row in _unpacked(content)]
    missing = []
    for number, content in later:
        end = rows[-1].seq if rows else last
        if number > end + 1:
            missing.append(range(end + 1, number))
        rows += _unpacked(content)
    return rows, missing


def _packed(rows: Sequence[Row]) -> bytes:
    heads = [
        (row.seq, row.chain, len(row.values[XML]), *row.values[:XML], *row.values[XML + 1 :])
        for row in rows
    ]
    head = _ENCODER.encode(heads).encode()
    bodies = [row.values[XML] for row in rows]
    return b"".join([len(head).to_bytes(_SIZE, "little"), head, *bodies])


def _heads(content: bytes) -> tuple[list[Any], int]:
    """What a record says of its rows, and where their documents begin."""
    begin = _SIZE + int.from_bytes(content[:_SIZE], "little")
    return json.loads(content[_SIZE:begin]), begin


def _last(content: bytes) -> int:
    return int(_heads(content)[0][-1][0])


def _unpacked(content: bytes) -> Iterator[Row]:
    heads, at = _heads(content)
    for seq, chain, size, *values in heads:
        xml = content[at : at + size]
        yield Row(seq, (*values[:XML], xml, *values[XML:]), chain)
        at += size

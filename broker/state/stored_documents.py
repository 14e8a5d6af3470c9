"""What the match relations say of a document: its row, its interval, its identity, its versions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

COLUMNS = {
    "doc": pa.int64(),
    "base": pa.int64(),
    "key": pa.uint64(),
    "source": pa.string(),
    "id": pa.string(),
    "streams": pa.list_(pa.string()),
    "start": pa.int64(),
    "end": pa.int64(),
    "dated": pa.bool_(),
    "xml": pa.binary(),
}
"""The columns of a document, as they stand in a `StoredDocument` too."""
XML = [*COLUMNS].index("xml")
_BEFORE_XML = pa.struct([*COLUMNS.items()][:XML])


class StoredDocument(NamedTuple):
    """An admitted document, as a row of the table `documents`.

    `doc` is its number, `base` that of the oldest document that it is made of: its own, unless it
    is the result of a match. `key` is a hash of `source` and `id`, which identify it; `start` and
    `end` are its interval in microseconds; `dated`: it is the document's own, not its arrival's. A
    revision that flows as a document of its own has a `version`, counted from 1. Where a log keeps
    `xml`, the table has the reference `logged` instead.
    """

    doc: int
    base: int
    key: int
    source: str
    id: str
    streams: tuple[str, ...]
    start: int
    end: int
    dated: bool
    xml: bytes
    version: int = 0
    logged: bytes = b""

    @property
    def identity(self) -> tuple[str | int, ...]:
        """Its source and id, and which version it is if it is a revision that flows by itself."""
        return (self.source, self.id, self.version) if self.version else (self.source, self.id)


class Interval(NamedTuple):
    """The number of the oldest document that a document is made of, and its interval."""

    base: int
    start: int
    end: int


class Identity(NamedTuple):
    """A document's source and id, and the hash of both."""

    key: int
    source: str
    id: str


class Newest(NamedTuple):
    """The newest version of a document: its number, its revision number, and, if requested, its
    time and bytes if they are still stored."""

    doc: int
    version: int
    said: tuple[int, bytes] | None


def columns_of(documents: Sequence[StoredDocument]) -> list[pa.Array]:
    """Documents as columns, in order of `COLUMNS`."""
    # To make each column by itself takes twice as long for a single document.
    columns: list[pa.Array] = pa.array([each[:XML] for each in documents], _BEFORE_XML).flatten()
    # Joined by Python, which gets the memory of the last batch again. Arrow makes a column of long
    # values grow step by step, in pages that are new each time, which takes four times as long.
    xml = [each.logged or each.xml for each in documents]
    ends = pa.array(accumulate(map(len, xml), initial=0), pa.int32())
    buffers = [None, ends.buffers()[1], pa.py_buffer(b"".join(xml))]
    return [*columns, pa.Array.from_buffers(pa.binary(), len(xml), buffers)]

"""Documents that were published together, packed into one row of the log of a spool.

In: rows of a publisher. Out: the bytes of a pack, and its documents again. A row of the log takes
SQLite several times as long to insert and to delete as the bytes of its document, and lets other
threads run in between; a pack takes it once.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from feeds.rows import DocumentRow

MOST = 64
"""Documents of a pack."""
KEPT = 16
"""Documents from which on a pack is kept when it was matched: those of a few, which came in
requests of their own at the same moment, take little less room together, and each would cost more.
It must not grow: there are references to packs of so many."""
_BYTES = 256 << 10
"""Bytes of a pack's documents, unless it is a single one."""
_SIZE = 4
"""Bytes of the length of a pack's head."""


class Packed(NamedTuple):
    """What a pack has of one document; all else is the same for all of them."""

    id: str
    timestamp: int
    xml: bytes
    sum: int = 0
    """A checksum of the bytes."""
    begin: int = 0
    """The place of the first of them in the pack."""

    def is_sound(self) -> bool:
        """Whether the bytes are as they were packed."""
        return zlib.crc32(self.xml) == self.sum


def together(rows: Sequence[DocumentRow]) -> Iterator[Sequence[DocumentRow]]:
    """The rows, in order, in pieces that make a pack each, or are a row by itself."""
    if len(rows) == 1:
        yield rows
        return
    begin = size = 0
    common: tuple[object, ...] | None = None
    for place, row in enumerate(rows):
        key = _common(row)
        size += len(row.xml)
        full = place - begin >= MOST or size > _BYTES
        if place > begin and (full or key is None or key != common):
            yield rows[begin:place]
            begin, size = place, len(row.xml)
        common = key
    if rows:
        yield rows[begin:]


def _common(row: DocumentRow) -> tuple[object, ...] | None:
    """What documents of one pack have in common; None for a row that is never packed."""
    if row.error is not None or row.place != place_of(row.source, row.id):
        return None
    return row.source, row.streams, row.dated, row.revision


def place_of(source: str, id: str) -> str:
    """Where a published document came from."""
    return f"{source}/{id}"


def pack(rows: Sequence[DocumentRow]) -> bytes:
    """The documents of rows with the same source, streams, date and kind. ValueError for an id
    that cannot be stored."""
    columns = (
        [row.id for row in rows],
        [row.timestamp for row in rows],
        [len(row.xml) for row in rows],
        [zlib.crc32(row.xml) for row in rows],
    )
    head = json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode()
    return b"".join([len(head).to_bytes(_SIZE, "little"), head, *[row.xml for row in rows]])


def head(body: bytes) -> bytes:
    """What a pack says of its documents, with the checksum of each."""
    return body[: _SIZE + int.from_bytes(body[:_SIZE], "little")]


def unpack(body: bytes) -> list[Packed]:
    """The documents of a pack. ValueError if it is not one, or incomplete."""
    begin = len(head(body))
    try:
        ids, timestamps, lengths, sums = json.loads(body[_SIZE:begin])
        ends = [*accumulate(lengths, initial=begin)]
        parts = [body[a:b] for a, b in pairwise(ends)]
        found = [
            Packed(*each) for each in zip(ids, timestamps, parts, sums, ends[:-1], strict=True)
        ]
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if ends[-1] != len(body):
        raise ValueError(f"{len(body)} bytes instead of {ends[-1]}")
    return found

"""The document row: what every source of documents yields, as a dataclass and as Arrow.

In: items, or bytes that could not be read. Out: rows, and record batches of the DOCUMENTS schema.
A row with an `error` is a dead letter: its `xml` then holds the bytes as they came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from feeds.item import DEFAULT_STREAM, Item

SCHEMA = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("id", pa.string()),
        pa.field("streams", pa.list_(pa.string())),
        pa.field("timestamp", pa.int64()),
        pa.field("dated", pa.bool_()),
        pa.field("seq", pa.int64()),
        pa.field("revision", pa.bool_()),
        pa.field("xml", pa.binary()),
        pa.field("error", pa.string()),
        pa.field("place", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """One document, or one dead letter.

    `source` and `id` identify it; `streams` are those it flows through; `timestamp` is in
    microseconds since the epoch, the document's own date if `dated`; `seq` numbers the rows of the
    spool; `revision` says that it replaces what was sent under this id before; `place` says to
    people where it came from; `arrival` is when an archive first saw it, and no column.
    """

    source: str
    id: str
    streams: tuple[str, ...]
    timestamp: int
    dated: bool
    seq: int | None
    revision: bool
    xml: bytes
    error: str | None = None
    place: str = ""
    arrival: int | None = None


def item_row(
    item: Item,
    source: str,
    streams: tuple[str, ...],
    place: str,
    *,
    revision: bool = False,
    timestamp: int | None = None,
) -> DocumentRow:
    """The row of an item; `timestamp` overrules the item's (an undated one keeps its arrival)."""
    return DocumentRow(
        source=source,
        id=item.id,
        streams=streams,
        timestamp=item.timestamp if timestamp is None else timestamp,
        dated=item.dated,
        seq=None,
        revision=revision,
        xml=item.to_xml(),
        place=place,
    )


def dead_row(source: str, body: bytes, error: str, place: str, arrival: int) -> DocumentRow:
    """The dead letter of a document that cannot be read; its id is a hash of its bytes."""
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    return DocumentRow(
        source=source,
        id=f"unreadable:{digest}",
        streams=(DEFAULT_STREAM,),
        timestamp=arrival,
        dated=False,
        seq=None,
        revision=False,
        xml=body,
        error=error,
        place=place,
    )


def to_batch(rows: Sequence[DocumentRow]) -> pa.RecordBatch:
    """A record batch of `SCHEMA`, one row a document."""
    columns = [
        pa.array([getattr(row, field.name) for row in rows], type=field.type) for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

"""The document row: what every source of documents yields, one by one or as Arrow columns.

In: items, or bytes that could not be parsed. Out: rows, and record batches of the DOCUMENTS schema.
A row with an `error` is a dead letter: its `xml` then holds the bytes as they came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from feeds.item import DEFAULT_STREAM, Item

DOCUMENTS = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("streams", pa.list_(pa.string()), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("dated", pa.bool_(), nullable=False),
        pa.field("seq", pa.int64()),
        pa.field("revision", pa.bool_(), nullable=False),
        pa.field("xml", pa.binary(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("place", pa.string(), nullable=False),
    ]
)
"""The columns of documents, as sources yield them and stage 1 takes them; those of
`DocumentRow`."""


class DocumentRow(NamedTuple):
    """One document on its way in, from whatever source, or one dead letter.

    `source` and `id` identify it; `streams` are those it flows through; `timestamp` is in
    microseconds since the epoch, the document's own date if `dated`; `seq` numbers the rows of its
    source; `revision` says that it replaces the document sent under this id before; `error` says
    why `xml` is not a document; `place` says where it came from, for people. Three fields are not
    columns: `arrival` is when an archive first saw the item, and `order` is a sort key for rows
    read from files. `logged` says where the log keeps `xml` until nobody needs it
    (`feeds/references.py`); it is empty where it does not.
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
    order: str = ""
    logged: bytes = b""


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
    """The dead letter of a document that cannot be parsed; its id is a hash of its bytes."""
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
    """A record batch of schema DOCUMENTS, one row a document."""
    return pa.RecordBatch.from_arrays(
        [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(DOCUMENTS)],
        schema=DOCUMENTS,
    )

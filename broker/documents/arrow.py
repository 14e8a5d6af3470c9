"""The Arrow form of documents and witnesses: what sources, stage 1 and stage 2 pass to each other.

A source yields `DOCUMENTS`, one row per document. Stage 1, on whatever machine, adds the witness
columns (`WITNESSED`). Stage 2 takes the rows as `Arrivals`.
"""

from __future__ import annotations

import io
import pickle
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.stage1.document import DocumentError, parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.witness import WIDTH, Edge, Witness

_DOCUMENT_FIELDS = [
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
_ROW_TYPES = {
    "var1": pa.int32(),
    "var2": pa.int32(),
    "node1": pa.int64(),
    "node2": pa.int64(),
    "value": pa.uint64(),
    "text": pa.string(),
    "num": pa.float64(),
}

DOCUMENTS = pa.schema(_DOCUMENT_FIELDS)
"""One row per document. `timestamp` in microseconds; `dated`: it is the document's own, not its
arrival. `error` says why `xml` is no document; `place` tells people where it came from."""

WITNESSED = pa.schema(
    [*_DOCUMENT_FIELDS, *(pa.field(name, pa.list_(kind)) for name, kind in _ROW_TYPES.items())]
)
"""DOCUMENTS with the rows of each document's witness, as lists of equal length."""

ROWS = pa.schema(
    [pa.field("position", pa.int64()), *map(pa.field, _ROW_TYPES, _ROW_TYPES.values())]
)
"""Witness rows of a batch; `position` is the index of the document in the batch."""


@dataclass(slots=True)
class Arrival:
    """One document as stage 2 sees it, its witness rows apart."""

    source: str
    id: str
    streams: tuple[str, ...]
    timestamp: int
    dated: bool
    seq: int | None
    revision: bool
    xml: bytes
    error: str | None
    place: str


@dataclass(slots=True)
class Arrivals:
    """Documents in order of arrival, and their witness rows (schema `ROWS`)."""

    documents: list[Arrival]
    rows: pa.Table


def compile_spec(edges: Iterable[tuple[int, Edge | None]]) -> bytes:
    """Stage 1's compiled form, to send to executors: edges by id, None for one that is gone. The
    form of later changes may be put behind it."""
    return pickle.dumps(tuple(edges), protocol=pickle.HIGHEST_PROTOCOL)


_matchers: dict[bytes, Matcher] = {}


def matcher_for(spec: bytes) -> Matcher:
    """The matcher of a spec, kept between tasks: only the newest few, so that old ones go. That of
    a spec to which changes were added is changed accordingly, and is the new one's from then on."""
    found = _matchers.get(spec)
    if found is None:
        known = max(filter(spec.startswith, _matchers), key=len, default=b"")
        found = _matchers.pop(known, None) or Matcher()
        while len(_matchers) >= 2:
            _matchers.pop(next(iter(_matchers)))
        parts = io.BytesIO(spec)
        parts.seek(len(known))
        while parts.tell() < len(spec):
            found.change(pickle.load(parts))
        _matchers[spec] = found
    return found


def witness_document(
    matcher: Matcher, xml: bytes, streams: tuple[str, ...]
) -> tuple[Witness, str | None]:
    """The witness of a document, or an empty one and the reason why there is none."""
    try:
        return matcher.match(parse_document(xml), streams), None
    except DocumentError as error:
        return Witness(), str(error)


def stage1(spec: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stage 1 over Arrow batches: DOCUMENTS in, WITNESSED out."""
    matcher = matcher_for(spec)
    for batch in batches:
        errors = batch.column("error").to_pylist()
        witnesses: list[Witness] = []
        for i, (xml, streams) in enumerate(
            zip(batch.column("xml"), batch.column("streams").to_pylist(), strict=True)
        ):
            witness = Witness()
            if errors[i] is None:
                witness, errors[i] = witness_document(matcher, xml.as_py(), tuple(streams))
            witnesses.append(witness)
        columns = [
            pa.array(errors, pa.string()) if name == "error" else batch.column(name)
            for name in DOCUMENTS.names
        ]
        sizes = [len(w) for w in witnesses]
        ends = pa.array(accumulate(sizes, initial=0), pa.int32())
        columns += [pa.ListArray.from_arrays(ends, flat) for flat in _flat_columns(witnesses)]
        yield pa.RecordBatch.from_arrays(columns, schema=WITNESSED)


def arrivals_from_table(table: pa.Table) -> Arrivals:
    """What stage 2 takes, from a table of schema WITNESSED."""
    plain = table.select(DOCUMENTS.names).to_pylist()
    documents = [Arrival(**{**row, "streams": tuple(row["streams"])}) for row in plain]
    flat = table.select(list(_ROW_TYPES)).combine_chunks()
    columns: list[pa.Array] = []
    for name, kind in _ROW_TYPES.items():
        column = flat.column(name)
        lists = column.chunk(0) if column.num_chunks else pa.array([], pa.list_(kind))
        if not columns:
            columns.append(pc.list_parent_indices(lists).cast(pa.int64()))
        columns.append(lists.flatten().cast(kind))
    return Arrivals(documents, pa.Table.from_arrays(columns, schema=ROWS))


def rows_from_witnesses(witnesses: Sequence[Witness]) -> pa.Table:
    """The witness rows of a batch, one witness per document, as a table of schema ROWS."""
    sizes = [len(w) for w in witnesses]
    position = pa.array(np.repeat(np.arange(len(sizes)), sizes), pa.int64())
    return pa.Table.from_arrays([position, *_flat_columns(witnesses)], schema=ROWS)


def _flat_columns(witnesses: Sequence[Witness]) -> list[pa.Array]:
    """The rows of witnesses one after the other, a column for each of `_ROW_TYPES`."""
    flat: list[int] = []
    for witness in witnesses:
        flat += witness.flat
    # In twice the time numpy would read the list by itself.
    rows = np.frombuffer(array("Q", flat), np.uint64).reshape(-1, WIDTH)
    columns = []
    for i, (name, kind) in enumerate(_ROW_TYPES.items()):
        if name in ("text", "num"):
            parts = [getattr(w, name) for w in witnesses]
            columns.append(_sparse_column(witnesses, parts, kind, len(rows)))
        elif name == "value":
            columns.append(pa.array(rows[:, i], kind, mask=rows[:, i] == 0))
        else:
            columns.append(pa.array(rows[:, i].astype(kind.to_pandas_dtype())))
    return columns


def _sparse_column(
    witnesses: Sequence[Witness], parts: Sequence[dict[int, Any]], kind: pa.DataType, size: int
) -> pa.Array:
    """A column of which the witnesses name the few rows that hold something."""
    if not any(parts):
        return pa.nulls(size, kind)
    rows = (
        part.get(row)
        for witness, part in zip(witnesses, parts, strict=True)
        for row in range(len(witness))
    )
    return pa.array(rows, kind, size=size)

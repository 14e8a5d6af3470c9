"""The Arrow form of documents and witnesses, in which sources, stage 1 and stage 2 exchange them.

A source yields `DOCUMENTS`, one row per document. Stage 1, on whatever machine, adds the witness
columns (`WITNESSED`), and the outline of each document. Stage 2 takes the rows as `Arrivals`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from feeds.rows import DOCUMENTS, DocumentRow
from xscl.stage1.outlines import Outline
from xscl.stage1.witness import WIDTH, Witness

_ROW_TYPES = {
    "var1": pa.int32(),
    "var2": pa.int32(),
    "node1": pa.int64(),
    "node2": pa.int64(),
    "value": pa.uint64(),
    "text": pa.string(),
    "num": pa.float64(),
}
_DTYPES = {name: kind.to_pandas_dtype() for name, kind in _ROW_TYPES.items()}

_OUTLINE_TYPES = {"outline": pa.uint64(), "paths": pa.list_(pa.string())}

WITNESSED = pa.schema(
    [
        *DOCUMENTS,
        *(pa.field(name, pa.list_(kind)) for name, kind in _ROW_TYPES.items()),
        *map(pa.field, _OUTLINE_TYPES, _OUTLINE_TYPES.values()),
    ]
)
"""DOCUMENTS with the rows of each document's witness, as lists of equal length, and the number of
its outline; the first document of a batch with an outline has its `paths`."""

ROWS = pa.schema(
    [pa.field("position", pa.int64()), *map(pa.field, _ROW_TYPES, _ROW_TYPES.values())]
)
"""Witness rows of a batch; `position` is the index of the document in the batch."""


class Arrivals(NamedTuple):
    """Documents in order of arrival, and their witness rows (schema `ROWS`).

    `texts` are the string values of nodes that stage 1 has made, for each document, where it ran in
    this process. `outlines` are those of the documents, None for one that is not well-formed.
    """

    documents: list[DocumentRow]
    rows: pa.Table
    texts: Sequence[dict[int, str]] = ()
    outlines: Sequence[Outline | None] = ()


def witnessed(documents: pa.RecordBatch, witnesses: Sequence[Witness]) -> pa.RecordBatch:
    """A batch of schema DOCUMENTS and the witnesses of its rows as one of schema WITNESSED."""
    sizes = [len(w) for w in witnesses]
    ends = pa.array(accumulate(sizes, initial=0), pa.int32())
    lists = [pa.ListArray.from_arrays(ends, flat) for flat in _flat_columns(witnesses)]
    outlines = _outline_columns([w.outline for w in witnesses])
    return pa.RecordBatch.from_arrays([*documents.columns, *lists, *outlines], schema=WITNESSED)


def _outline_columns(outlines: Sequence[Outline | None]) -> list[pa.Array]:
    """A column for each of `_OUTLINE_TYPES`."""
    ids = [None if outline is None else outline.id for outline in outlines]
    new = dict(zip(reversed(ids), reversed(outlines), strict=True))
    paths = [None if id is None or (o := new.pop(id, None)) is None else [*o.paths] for id in ids]
    return [
        pa.array(column, kind)
        for column, kind in zip((ids, paths), _OUTLINE_TYPES.values(), strict=True)
    ]


def _outlines(table: pa.Table) -> list[Outline | None]:
    """The outlines in a table of schema WITNESSED."""
    ids, first = (table.column(name) for name in _OUTLINE_TYPES)
    there = pc.is_valid(first)
    pairs = zip(ids.filter(there).to_pylist(), first.filter(there).to_pylist(), strict=True)
    known = {id: Outline(id, (*paths,)) for id, paths in pairs}
    return [known.get(id) for id in ids.to_pylist()]


def arrivals_from_table(table: pa.Table) -> Arrivals:
    """What stage 2 takes, from a table of schema WITNESSED."""
    plain = {name: table.column(name).to_pylist() for name in DOCUMENTS.names}
    plain["streams"] = [*map(tuple, plain["streams"])]
    documents = [*map(DocumentRow, *plain.values())]
    flat = table.select(list(_ROW_TYPES)).combine_chunks()
    columns: list[pa.Array] = []
    for name, kind in _ROW_TYPES.items():
        column = flat.column(name)
        lists = column.chunk(0) if column.num_chunks else pa.array([], pa.list_(kind))
        if not columns:
            columns.append(pc.list_parent_indices(lists).cast(pa.int64()))
        columns.append(lists.flatten().cast(kind))
    rows = pa.Table.from_arrays(columns, schema=ROWS)
    return Arrivals(documents, rows, outlines=_outlines(table))


def rows_from_witnesses(witnesses: Sequence[Witness]) -> pa.Table:
    """The witness rows of a batch, one witness per document, as a table of schema ROWS."""
    sizes = [len(w.flat) // WIDTH for w in witnesses]  # their own len() takes three times as long
    position = pa.array(np.repeat(np.arange(len(sizes)), sizes), pa.int64())
    return pa.Table.from_arrays([position, *_flat_columns(witnesses)], schema=ROWS)


def _flat_columns(witnesses: Sequence[Witness]) -> list[pa.Array]:
    """The rows of witnesses one after the other, a column for each of `_ROW_TYPES`."""
    flat: list[int] = []
    some = False
    for witness in witnesses:
        flat += witness.flat
        if witness.text or witness.num:
            some = True
    # numpy alone takes twice the time to read the list.
    rows = np.frombuffer(array("Q", flat), np.uint64).reshape(-1, WIDTH)
    columns = []
    for i, (name, kind) in enumerate(_ROW_TYPES.items()):
        if name in ("text", "num"):
            parts = [getattr(w, name) for w in witnesses] if some else ()
            columns.append(_sparse_column(witnesses, parts, kind, len(rows)))
        elif name == "value":
            columns.append(pa.array(rows[:, i], kind, mask=rows[:, i] == 0))
        else:
            columns.append(pa.array(rows[:, i].astype(_DTYPES[name])))
    return columns


def _sparse_column(
    witnesses: Sequence[Witness], parts: Sequence[dict[int, Any]], kind: pa.DataType, size: int
) -> pa.Array:
    """A column in which few rows have a value; each witness gives those by their index."""
    if not any(parts):
        return pa.nulls(size, kind)
    rows = (
        part.get(row)
        for witness, part in zip(witnesses, parts, strict=True)
        for row in range(len(witness))
    )
    return pa.array(rows, kind, size=size)

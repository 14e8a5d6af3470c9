"""The admitted documents of a batch, and their witness rows with document numbers and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from broker.documents.arrow import ROWS
from broker.state.stored_documents import StoredDocument
from feeds.rows import DocumentRow
from xscl.stage1.document import value_code

WITNESS_ROWS = pa.schema(
    [*(pa.field(name, pa.int64()) for name in ("doc", "base", "start", "end")), *list(ROWS)[1:]]
)
"""Witness rows with the numbers and times of their documents."""


class Admitted(NamedTuple):
    """An admitted document: a new one, or a `revision` that replaces the stored document of the
    same number. `position` is its index in the batch, as its witness rows name it; `highest` the
    highest time of all documents up to this one, in microseconds."""

    position: int
    document: StoredDocument
    revision: bool = False
    highest: int = 0


def document_key(source: str, id: str) -> int:
    """The hash of what identifies a document."""
    return value_code(f"{source}\0{id}")


def numbered(
    row: DocumentRow, key: int, doc: int, base: int, start: int, version: int = 0
) -> StoredDocument:
    """The stored form of a document with number `doc`; its interval begins at `start` and ends at
    the row's timestamp."""
    # One is made for each document, and `_make` takes two thirds of the time.
    source, id, streams, timestamp, dated, _, _, xml, _, _, _, _, logged = row
    return StoredDocument._make(
        (doc, base, key, source, id, streams, start, timestamp, dated, xml, version, logged)
    )


def stored_documents(run: Sequence[Admitted]) -> list[StoredDocument]:
    """The stored form of a run's documents; of a document that is revised twice, the last."""
    return [*{a.document.doc: a.document for a in run}.values()]


def witness_rows(run: Sequence[Admitted], rows: pa.Table) -> pa.Table:
    """The witness rows of a run, with document numbers and times: the columns of `rl`."""
    last = {a.document.doc: a for a in run}.values()
    documents = [a.document for a in last]
    places = [a.position for a in last]
    of_row = rows.column("position").to_numpy()
    if places != [*range(len(places))] or (len(of_row) and of_row.max() >= len(places)):
        behind = max(places) + 1
        index = np.full(behind + 1, -1)
        index[places] = np.arange(len(places))
        of_row = index[np.minimum(of_row, behind)]
        chosen = of_row >= 0
        if not chosen.all():
            rows, of_row = rows.filter(pa.array(chosen)), of_row[chosen]
    columns = (
        [d.doc for d in documents],
        [d.base for d in documents],
        [d.start for d in documents],
        [d.end for d in documents],
    )
    numbers = [pa.array(np.array(column, np.int64)[of_row]) for column in columns]
    return pa.Table.from_arrays([*numbers, *rows.columns[1:]], schema=WITNESS_ROWS)

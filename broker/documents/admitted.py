"""The admitted documents of a batch, and their witness rows with document numbers and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from broker.documents.arrow import ROWS
from broker.state.relations import StoredDocument
from feeds.rows import DocumentRow
from xscl.stage1.document import value_code


class Admitted(NamedTuple):
    """An admitted document: a new one, or a `revision` that replaces the stored document of the
    same number. `position` is its index in the batch, as its witness rows name it."""

    position: int
    document: StoredDocument
    revision: bool = False


def document_key(source: str, id: str) -> int:
    """The hash of what identifies a document."""
    return value_code(f"{source}\0{id}")


def numbered(
    row: DocumentRow, key: int, doc: int, base: int, start: int, version: int = 0
) -> StoredDocument:
    """The stored form of a document with number `doc`; its interval begins at `start` and ends at
    the row's timestamp."""
    return StoredDocument(
        *(doc, base, key, row.source, row.id, row.streams, start, row.timestamp),
        *(row.dated, row.xml, version),
    )


def stored_documents(run: Sequence[Admitted]) -> list[StoredDocument]:
    """The stored form of a run's documents; of a document that is revised twice, the last."""
    return [*{a.document.doc: a.document for a in run}.values()]


def witness_rows(run: Sequence[Admitted], rows: pa.Table) -> pa.Table:
    """The witness rows of a run, with document numbers and times: the columns of `rl`."""
    size = max(a.position for a in run) + 1
    of_document: dict[str, list[int | None]] = {
        name: [None] * size for name in ("doc", "base", "start", "end")
    }
    last = {a.document.doc: a for a in run}
    for place, document, _ in last.values():
        for name, column in of_document.items():
            column[place] = getattr(document, name)
    chosen = rows.filter(pc.less(rows.column("position"), size))
    position = chosen.column("position")
    columns = {
        name: pa.array(column, pa.int64()).take(position) for name, column in of_document.items()
    }
    columns |= {name: chosen.column(name) for name in ROWS.names if name != "position"}
    table = pa.table(columns)
    return table.filter(pc.is_valid(table.column("doc")))

"""A batch's documents and witness rows as Arrow tables, ready for the store."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from broker.documents.arrow import ROWS, Arrival
from xscl.stage1.document import value_code


@dataclass(frozen=True, slots=True)
class Admitted:
    """A document that comes in. `base` is the oldest document that it is made of, itself if none.

    `position` is that of its witness rows in the batch; `start` and `end` are in microseconds. A
    `revision` takes the place of what is stored. One that flows as a document of its own is none, and
    has a `version`, counted from 1.
    """

    position: int
    doc: int
    base: int
    start: int
    end: int
    arrival: Arrival
    revision: bool
    version: int = 0


def document_key(source: str, id: str) -> int:
    return value_code(f"{source}\0{id}")


def versions_table(run: list[Admitted]) -> pa.Table:
    """The versions of those that are revisions of others."""
    revised = [a for a in run if a.version and not a.revision]
    return pa.table(
        {
            "doc": pa.array([a.doc for a in revised], pa.int64()),
            "version": pa.array([a.version for a in revised], pa.int64()),
        }
    )


def documents_table(run: list[Admitted]) -> pa.Table:
    # A document revised twice in one run: the last one stays.
    last = {a.doc: a for a in run}
    arrivals = [a.arrival for a in last.values()]
    return pa.table(
        {
            "doc": pa.array(list(last), pa.int64()),
            "base": pa.array([a.base for a in last.values()], pa.int64()),
            "key": pa.array([document_key(a.source, a.id) for a in arrivals], pa.uint64()),
            "source": pa.array([a.source for a in arrivals], pa.string()),
            "id": pa.array([a.id for a in arrivals], pa.string()),
            "streams": pa.array([list(a.streams) for a in arrivals], pa.list_(pa.string())),
            "start": pa.array([a.start for a in last.values()], pa.int64()),
            "end": pa.array([a.end for a in last.values()], pa.int64()),
            "dated": pa.array([a.dated for a in arrivals], pa.bool_()),
            "xml": pa.array([a.xml for a in arrivals], pa.binary()),
        }
    )


def witness_rows(run: list[Admitted], rows: pa.Table) -> pa.Table:
    """The witness rows of a run, with document numbers and times."""
    size = max(a.position for a in run) + 1
    of_document: dict[str, list[int | None]] = {
        name: [None] * size for name in ("doc", "base", "start", "end")
    }
    last = {a.doc: a for a in run}
    for admitted in last.values():
        for name, column in of_document.items():
            column[admitted.position] = getattr(admitted, name)
    chosen = rows.filter(pc.less(rows.column("position"), size))
    position = chosen.column("position")
    columns = {
        name: pa.array(column, pa.int64()).take(position) for name, column in of_document.items()
    }
    columns |= {name: chosen.column(name) for name in ROWS.names if name != "position"}
    table = pa.table(columns)
    return table.filter(pc.is_valid(table.column("doc")))

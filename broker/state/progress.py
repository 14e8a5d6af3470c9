"""How far a state is: the next document number, the highest time, the position in a log.

Each batch adds a row, which takes a third of the time of updating one; from time to time the older
rows are deleted. None of the numbers ever falls, so the highest of each counts.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from broker.model import UNBOUNDED
from broker.state.store import Store

_MOST = 20_000
"""Rows before the older ones are deleted."""


class Reached(NamedTuple):
    """The number of the next document, the highest time in microseconds (-UNBOUNDED before the
    first document), and the highest number applied of the log that holds the documents of many
    sources (0 if there is none)."""

    next_doc: int
    highest: int
    position: int


class Progress:
    """What is stored of how far a state is, in `most` rows at most."""

    def __init__(self, store: Store, most: int = _MOST) -> None:
        self._store = store
        self._most = most
        ((self._rows,),) = store.stored("SELECT count(*) FROM progress") or [(0,)]

    def read(self) -> Reached:
        """What was committed last, or is written in the current transaction."""
        if not self._rows:
            return Reached(1, -UNBOUNDED, 0)
        ((doc, highest, position),) = self._store.rows(
            "SELECT max(next_doc), max(highest), max(position) FROM progress"
        )
        return Reached(doc or 1, -UNBOUNDED if highest is None else highest, position or 0)

    def write(self, reached: Reached) -> None:
        """Store the numbers, in the transaction of what brought them about."""
        if self._rows >= self._most:
            self._store.run("DELETE FROM progress")
            self._rows = 0
        self._rows += 1
        columns = [pa.array([number], pa.int64()) for number in reached]
        self._store.insert("progress", pa.RecordBatch.from_arrays(columns, Reached._fields))

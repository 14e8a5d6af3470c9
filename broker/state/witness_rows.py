"""The witness rows of `rl`, as the search, the statistics and shards read them.

In: the times, the numbers or the values of documents. Out: their rows, or what they have in common.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from broker.state.statements import AMONG, AMONG_VALUES, Statements

_RECORD = 'doc, base, "start", "end", var1, var2, node1, node2, value'


class WitnessRows:
    """The witness rows of a store, or as a snapshot of it shows them."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    def count(self) -> int:
        """How many rows rl has."""
        return self._sql.count("SELECT count(*) FROM rl")

    def end_after_newest(self, count: int) -> int | None:
        """When the newest document ended that is not among the `count` newest with rows ("newest"
        is by end); None if there are no more than `count`."""
        found = self._sql.rows(
            'SELECT "end" FROM documents WHERE doc IN (SELECT doc FROM rl)'
            ' ORDER BY "end" DESC LIMIT 1 OFFSET ?',
            [count],
        )
        return found[0][0] if found else None

    def since(self, end: int) -> Iterator[pa.RecordBatch]:
        """The rows of documents that ended at `end` or later, each document's together."""
        return self._rows('"end" >= ?', [end])

    def of(self, docs: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows of documents by number, each document's together."""
        return self._rows(f"doc {AMONG}", [docs])

    def _rows(self, condition: str, parameters: list[Any]) -> Iterator[pa.RecordBatch]:
        return self._sql.batches(
            f"SELECT {_RECORD} FROM rl WHERE {condition} ORDER BY doc, rowid", parameters
        )

    def witnessed_by(self, first: int, last: int) -> pa.Table:
        """The rows of the documents with numbers from `first` to `last`, as they were inserted, in
        order of the documents."""
        return self._sql.table(
            f"SELECT {_RECORD}, text, num FROM rl WHERE doc BETWEEN ? AND ? ORDER BY doc, rowid",
            [first, last],
        )

    def shared_values(self) -> dict[int, float]:
        """By variable, how many documents have the value that a document has in it, on average."""
        return dict(
            self._sql.rows(
                "SELECT var2, (sum(n * n) / sum(n))::DOUBLE FROM (SELECT var2, count(*) AS n"
                " FROM rl WHERE value IS NOT NULL GROUP BY var2, value) GROUP BY var2"
            )
        )

    def frequent_values(self, variables: Collection[int], more_than: int) -> dict[int, int]:
        """The codes of values that one of these variables has in more than so many rows, with how
        many they are."""
        return dict(
            self._sql.rows(
                "SELECT value, max(n) FROM (SELECT value, count(*) AS n FROM rl WHERE value IS NOT"
                " NULL AND var2 IN (SELECT unnest(?::INTEGER[])) GROUP BY var2, value"
                " HAVING n > ?) GROUP BY value",
                [[*variables], more_than],
            )
        )

    def values_before(self, end: int) -> npt.NDArray[np.uint64]:
        """The distinct value codes of documents that ended before `end`."""
        found: npt.NDArray[np.uint64] = (
            self._sql.table(
                'SELECT DISTINCT value FROM rl WHERE "end" < ? AND value IS NOT NULL', [end]
            )
            .column("value")
            .to_numpy()
        )
        return found

    def documents_with(self, values: Sequence[int], low: int, high: int) -> list[int]:
        """The documents with one of these values that ended at `low` or later and before `high`."""
        found = self._sql.rows(
            f'SELECT DISTINCT doc FROM rl WHERE value {AMONG_VALUES} AND "end" < ? AND "end" >= ?',
            [values, high, low],
        )
        return [doc for (doc,) in found]

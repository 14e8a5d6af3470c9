"""Numbers that only grow, each of a name: the sequence numbers applied by source, up to which time
event patterns have decided, and up to which number matches were handed over.

Each change adds a row, as in `broker/state/progress.py`, so that the journal can take it; from time
to time the older rows are deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from broker.state.store import Store

_MOST = 20_000
"""Rows beside one for each name, before the older ones are deleted."""


class Highest:
    """The numbers of one `kind`, in `most` rows at most and one for each name."""

    def __init__(self, store: Store, kind: str, most: int = _MOST) -> None:
        self._store = store
        self._kind = kind
        self._most = most
        self._names: set[str] = set()
        self._rows = 0
        """How many there are at most."""
        if not store.fresh:
            self._rows = store.count("SELECT count(*) FROM highest WHERE kind = ?", [kind])
            self._names.update(self.read())

    def read(self) -> dict[str, int]:
        """What was committed last, or is written in the current transaction."""
        return dict(
            self._store.rows(
                "SELECT name, max(number) FROM highest WHERE kind = ? GROUP BY name", [self._kind]
            )
        )

    def write(self, numbers: Mapping[str, int]) -> None:
        """Store numbers that have grown, in the transaction of what brought that about."""
        if not numbers:
            return
        self._names.update(numbers)
        if self._rows + len(numbers) > self._most + len(self._names):
            numbers = {**self.read(), **numbers}
            self._store.run("DELETE FROM highest WHERE kind = ?", [self._kind])
            self._rows = 0
        self._rows += len(numbers)
        columns = {
            "kind": pa.array([self._kind] * len(numbers), pa.string()),
            "name": pa.array([*numbers], pa.string()),
            "number": pa.array([*numbers.values()], pa.int64()),
        }
        self._store.insert("highest", pa.RecordBatch.from_pydict(columns))

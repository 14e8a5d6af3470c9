"""Who does what of the join: the coordinator and each shard, see `broker/join/ownership.py`."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np
import pyarrow as pa

from broker.cluster.routes import Grid, Route, shard_of_document, shard_of_hot, shard_of_value
from broker.join.records import Record
from broker.query.canonical import Canonical

_VARIABLE = 32


def edges_of(rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The id of the edge of each witness row."""
    above = rows.column("var1").to_numpy().astype(np.int64)
    edges: np.ndarray[tuple[int], np.dtype[np.int64]]
    edges = above << _VARIABLE | rows.column("var2").to_numpy()
    return edges


class Home:
    """The ownership of the coordinator: the queries that have no route, by their edges."""

    def __init__(self) -> None:
        self.routes: dict[int, Route] = {}
        """By canonical query, those that are matched in the shards."""
        self.patterns: dict[int, Route] = {}
        """By canonical query, the event patterns that are matched in the shards, with a part for
        each of their blocks."""
        self.edges = np.empty(0, np.int64)
        """The edges of all other queries, in order."""

    def holds(self, canonical: Canonical) -> bool:
        return canonical.number not in self.routes

    def decides(self, pattern: Canonical) -> bool:
        return pattern.number not in self.patterns

    def reads(self, rows: pa.Table) -> pa.Table:
        if not len(self.edges):
            return rows.slice(0, 0)
        own = np.isin(edges_of(rows), self.edges)
        return rows if own.all() else rows.filter(pa.array(own))

    def owns(
        self, canonical: Canonical, docs: Sequence[int], records: Sequence[Record | None]
    ) -> bool:
        return True


class Owner:
    """The ownership of one of several shards, by the `routes` of its queries and the `hot` values,
    see `Router`."""

    def __init__(
        self, shard: int, shards: int, routes: Mapping[int, Route], taps: Container[int]
    ) -> None:
        self.shard = shard
        self.shards = shards
        self.routes = routes
        self.taps = taps
        """The canonical queries that find documents for the event patterns of this shard."""
        self.hot: Mapping[int, int] = {}
        self._grid = Grid.of(shards)

    def holds(self, canonical: Canonical) -> bool:
        return True

    def decides(self, pattern: Canonical) -> bool:
        return True

    def reads(self, rows: pa.Table) -> pa.Table:
        return rows

    def owns(
        self, canonical: Canonical, docs: Sequence[int], records: Sequence[Record | None]
    ) -> bool:
        """A document of a pattern's block is wanted by every shard that it was sent to; whether
        others who have the same block get it too is asked by `shares`."""
        return canonical.number in self.taps or self._owns(canonical, docs, records)

    def shares(self, canonical: Canonical, docs: Sequence[int]) -> bool:
        """Whether a match of a query of one block is this shard's, where `owns` has let it pass for
        a pattern."""
        return canonical.number not in self.taps or self._owns(canonical, docs, ())

    def _owns(
        self, canonical: Canonical, docs: Sequence[int], records: Sequence[Record | None]
    ) -> bool:
        """The smallest value that all documents of the pivot have says whose a match is, or that
        of the grid's rows and that of its columns. Another shard may find it too, for which reason
        it was sent these documents is not asked."""
        pivots = self.routes[canonical.number].pivots
        rows: set[int] | None = None
        columns: set[int] | None = None
        for part in pivots:
            if part.by == "document":
                return shard_of_document(docs[part.block], self.shards) == self.shard
            record = records[part.block]
            assert record is not None, "value joins connect the documents, so they are in memory"
            if part.by == "column":
                columns = _common(columns, record, part.trigger)
                continue
            rows = _common(rows, record, part.trigger)
            if part.by == "cell":
                columns = _common(columns, record, part.second)
        # Without a common value here, it was sent only some of a document's rows for this query.
        if not rows or columns == set():
            return False
        value = min(rows)
        if columns is not None:
            owner = self._grid.cell(value, min(columns))
        elif value in self.hot:
            first, second, *_ = (docs[part.block] for part in pivots)
            owner = shard_of_hot(value, self.hot[value], first, second, self.shards)
        else:
            owner = shard_of_value(value, self.shards)
        return owner == self.shard


def _common(known: set[int] | None, record: Record, variable: int) -> set[int]:
    """The values of a variable in a document that the documents before it have too."""
    own = _values(record, variable)
    return own if known is None else known & own


def _values(record: Record, variable: int) -> set[int]:
    """The values of a variable in a document, by their codes."""
    pairs = zip(record.layout.variables, record.codes, strict=True)
    return {code for own, code in pairs if own == variable and code}

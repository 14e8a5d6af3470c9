"""Which witness rows go to which shard, for all documents of a batch at once.

In: the routes of all queries, and witness rows. Out: for each shard the places of its rows, in
their order. A shard gets of a document only the edges of the queries that brought it there, so the
rows of all shards together are about those of one machine, however many shards there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from broker.cluster.owning import edges_of
from broker.cluster.routes import BITS, Part, Route

Numbers = npt.NDArray[np.int64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - BITS)


class Router:
    """The parts of all routes, those with one trigger and one way together."""

    def __init__(self, routes: Iterable[Route], shards: int) -> None:
        self.shards = shards
        edges: dict[tuple[str, int], set[int]] = {}
        for each in routes:
            for part in each.parts:
                edges.setdefault(_way(part), set()).update(part.edges)
        ways = [*edges]
        self._triggers = {
            by: _lookup([(variable, i) for i, (own, variable) in enumerate(ways) if own == by])
            for by in ("value", "document", "every")
        }
        pairs = [(edge, i) for i, way in enumerate(ways) for edge in edges[way]]
        self._edges = _lookup(pairs)
        self._ways = len(ways)

    def divide(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """The rows of each shard."""
        whole = rows.combine_chunks().to_batches()
        if not whole:
            empty = pa.RecordBatch.from_pylist([], schema=rows.schema)
            return [empty] * self.shards
        return [whole[0].take(pa.array(places)) for places in self.places(rows)]

    def places(self, rows: pa.Table) -> list[Numbers]:
        """By shard, the places of the rows that it gets; the rows of each document stand
        together."""
        size = rows.num_rows
        if not size or not self._ways:
            return [np.empty(0, np.int64)] * self.shards
        doc = rows.column("doc").to_numpy()
        of_row = np.concatenate(([0], np.cumsum(doc[1:] != doc[:-1])))
        there = self._sent(rows, of_row, doc)
        row, way = _joined(edges_of(rows), *self._edges)
        # The shards of a document by one way stand together, so each row finds its own.
        wanted = of_row[row] * self._ways + way
        low, high = (np.searchsorted(there, bound * self.shards) for bound in (wanted, wanted + 1))
        rows_of, place = _ranges(low, high)
        keys = np.unique(there[place] % self.shards * size + row[rows_of])
        bounds = np.searchsorted(keys, np.arange(self.shards + 1) * size)
        return [keys[a:b] % size for a, b in pairwise(bounds)]

    def _sent(self, rows: pa.Table, of_row: Numbers, doc: Numbers) -> Numbers:
        """Each document, way and shard to which it is sent that way, as one number, in order."""
        variable = rows.column("var2").to_numpy().astype(np.int64)
        codes = pc.fill_null(rows.column("value"), 0).to_numpy()
        found: list[Numbers] = []
        for by, (triggers, ways) in self._triggers.items():
            if not len(triggers):
                continue
            row, way = _joined(variable, triggers, ways)
            key = (of_row[row] * self._ways + way) * self.shards
            if by == "value":
                valued = codes[row] != 0
                found.append(key[valued] + self._shards_of(codes[row[valued]]))
            elif by == "document":
                found.append(key + self._shards_of(doc[row].astype(np.uint64) * _MIX))
            else:
                key = np.unique(key)
                found.append((key[:, None] + np.arange(self.shards)).ravel())
        return np.unique(np.concatenate(found))

    def _shards_of(self, hashes: npt.NDArray[np.uint64]) -> Numbers:
        return (hashes >> _SHIFT).astype(np.int64) % self.shards


def _way(part: Part) -> tuple[str, int]:
    return part.by, part.trigger


def _lookup(pairs: list[tuple[int, int]]) -> tuple[Numbers, Numbers]:
    """Keys in order, and what each leads to."""
    pairs.sort()
    keys = np.array([key for key, _ in pairs], np.int64)
    return keys, np.array([value for _, value in pairs], np.int64)


def _joined(column: Numbers, keys: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The places of a column's numbers that are among the keys, each with what it leads to."""
    low, high = (np.searchsorted(keys, column, side) for side in ("left", "right"))
    of, place = _ranges(low, high)
    return of, values[place]


def _ranges(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """All numbers of some ranges, each with the number of its range."""
    sizes = high - low
    of = np.repeat(np.arange(len(sizes)), sizes)
    before = np.cumsum(sizes) - sizes
    return of, np.arange(len(of)) - before[of] + low[of]

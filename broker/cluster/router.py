"""Which witness rows go to which shard, for all documents of a batch at once.

In: the routes of all queries, and witness rows. Out: for each shard the places of its rows, in
their order. A shard gets of a document only the edges of the queries that brought it there, so the
rows of all shards together are about those of one machine, however many shards there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from broker.cluster.owning import edges_of
from broker.cluster.routes import BITS, HALF, MIX, Grid, Route

Numbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]

_MIX = np.uint64(MIX)
_SHIFT = np.uint64(64 - BITS)
_HALF = np.uint64(HALF)


class _Way(NamedTuple):
    """The parts of all routes that go one way: `of` are their triggers, with the way of each."""

    by: str
    of: tuple[Numbers, Numbers]
    second: tuple[Numbers, Numbers]
    """For cells, the variables of the columns."""


class Router:
    """The parts of all routes, those with one trigger and one way together. `hot` gives of each hot
    value, by its code, the side of its square."""

    def __init__(self, routes: Iterable[Route], shards: int, hot: Mapping[int, int]) -> None:
        self.shards = shards
        self._grid = Grid.of(shards)
        self._hot = np.array(sorted(hot), np.uint64)
        self._sides = np.array([hot[code] for code in sorted(hot)], np.int64)
        edges: dict[tuple[str, int, int], set[int]] = {}
        for each in routes:
            for part in each.parts:
                by = f"hot {part.hot}" if part.by == "value" and hot else part.by
                edges.setdefault((by, part.trigger, part.second), set()).update(part.edges)
        ways = [*edges]
        self._triggers: list[_Way] = []
        for by in dict.fromkeys(own for own, *_ in ways):
            mine = [(v, w, i) for i, (own, v, w) in enumerate(ways) if own == by]
            first = _lookup([(variable, i) for variable, _, i in mine])
            self._triggers.append(_Way(by, first, _lookup([(second, i) for _, second, i in mine])))
        self._homes = np.array([second for _, _, second in ways], np.int64)
        """By way the bucket, of those that lead to the home of a pattern."""
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
        mixed = doc.astype(np.uint64) * _MIX
        bucket, own = _bucket(codes), (mixed >> _HALF).astype(np.int64)
        hot = np.isin(codes, self._hot) if len(self._hot) else np.zeros(len(codes), bool)

        def triggered(triggers: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
            """The documents and ways of some triggers as one number, and their rows."""
            row, way = _joined(variable, *triggers)
            return of_row[row] * self._ways + way, row

        found: list[Numbers] = []
        for by, triggers, others in self._triggers:
            key, row = triggered(triggers)
            if by == "every":
                found.append(self._to(np.unique(key), np.arange(self.shards)[None]))
                continue
            if by == "home":
                key = np.unique(key)
                found.append(self._to(key, self._homes[key % self._ways][:, None]))
                continue
            if by == "document":
                found.append(self._to(key, _bucket(mixed[row])[:, None]))
                continue
            key, row = _where(codes[row] != 0, key, row)
            if by == "key":
                found.append(self._to(key, bucket[row, None]))
            elif by == "row":
                found.append(self._to(key, self._in_row(bucket[row])))
            elif by == "column":
                found.append(self._to(key, self._in_column(bucket[row])))
            elif by == "cell":
                other, column = triggered(others)
                other, column = _where(codes[column] != 0, other, column)
                first, second = _pairs(key, other)
                cells = self._cell(bucket[row[first]], bucket[column[second]])
                found.append(self._to(key[first], cells[:, None]))
            else:
                cold_key, cold_row = _where(~hot[row], key, row)
                found.append(self._to(cold_key, bucket[cold_row, None]))
                key, row = _where(hot[row], key, row)
                of, shard = self._cells_of_hot(by, codes[row], own[row])
                found.append(self._to(key[of], shard[:, None]))
        return np.unique(np.concatenate(found))

    def _to(self, key: Numbers, shards: Numbers) -> Numbers:
        """Each key with the shards of its row, which are counted round."""
        return (key[:, None] * self.shards + shards % self.shards).ravel()

    def _cells_of_hot(self, by: str, codes: Codes, own: Numbers) -> tuple[Numbers, Numbers]:
        """The shards of documents of hot values, each with the place of its document."""
        side = self._sides[np.searchsorted(self._hot, codes)]
        match by:
            case "hot row":
                first, step, count = own % side * side, np.ones_like(side), side
            case "hot column":
                first, step, count = own % side, side, side
            case _:
                first, step, count = np.zeros_like(side), np.ones_like(side), side * side
        of, nth = _ranges(np.zeros_like(count), count)
        return of, _bucket(codes)[of] + first[of] + nth * step[of]

    def _cell(self, row: Numbers, column: Numbers) -> Numbers:
        return row % self._grid.rows * self._grid.columns + column % self._grid.columns

    def _in_row(self, row: Numbers) -> Numbers:
        return self._cell(row[:, None], np.arange(self._grid.columns))

    def _in_column(self, column: Numbers) -> Numbers:
        return self._cell(np.arange(self._grid.rows), column[:, None])


def _bucket(hashes: Codes) -> Numbers:
    return (hashes >> _SHIFT).astype(np.int64)


def _where(wanted: npt.NDArray[np.bool_], key: Numbers, row: Numbers) -> tuple[Numbers, Numbers]:
    return key[wanted], row[wanted]


def _pairs(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """The places of equal keys of both sides, each with each."""
    order = np.argsort(right, kind="stable")
    return _joined(left, right[order], order)


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

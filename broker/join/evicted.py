"""What the index in memory has let go: older documents, which stay in the store.

The posting lists are bounded. Documents beyond the bound, those that ended first, are forgotten and
read again when a batch has a value of theirs, once per batch and not per value. A filter over the
values that were let go keeps the many values never seen before (addresses, titles) from asking the
store at all; it may ask in vain, but never fails to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from broker.join.records import Reader, Record, whole_documents
from broker.model import UNBOUNDED
from broker.state.store import Store

_BITS = 26
"""The filter has two to this power places, a byte each; made when something is first let go."""

_COLUMNS = 'doc, base, "start", "end", var1, var2, node1, node2, value'


class History:
    """Reads records from RL, and knows which may not be in memory: those that ended before `floor`."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self.store = store
        self.floor = -UNBOUNDED
        self._reader = reader
        self._filter: np.ndarray[Any, np.dtype[np.bool_]] | None = None

    def newest(self, count: int) -> Iterator[Record]:
        """The records of about the newest documents; the others count as let go."""
        beyond = self.store.rows(
            'SELECT "end" FROM documents WHERE doc IN (SELECT doc FROM rl)'
            ' ORDER BY "end" DESC LIMIT 1 OFFSET ?',
            [count],
        )
        if beyond:
            self.floor = beyond[0][0] + 1
            sql = 'SELECT DISTINCT value FROM rl WHERE "end" < ? AND value IS NOT NULL'
            self._note(self._table(sql, [self.floor])["value"])
        yield from self._read('"end" >= ?', [self.floor])

    def let_go(self, records: Iterable[Record], floor: int) -> None:
        """From now on, documents that ended before the floor need not be in memory. It never falls:
        a late document may be let go after one that ended later."""
        self.floor = max(self.floor, floor)
        codes = [code for record in records for code in record.codes if code]
        self._note(pa.chunked_array([pa.array(codes, pa.uint64())]))

    def expire(self, horizon: int) -> None:
        """Nothing that ended before the horizon is asked for any more."""
        if self.floor <= horizon:
            self.floor, self._filter = -UNBOUNDED, None

    def having(self, codes: set[int], low: int, known: Callable[[int], bool]) -> list[Record]:
        """Records that were let go, ended at `low` or later, and have one of these values. `known`
        says which documents are not asked for."""
        if self._filter is None or low >= self.floor or not codes:
            return []
        wanted = np.fromiter(codes, np.uint64, len(codes))
        wanted = wanted[self._filter[_places(wanted)]]
        if not len(wanted):
            return []
        docs = self.store.rows(
            "SELECT DISTINCT doc FROM rl WHERE value IN (SELECT unnest(?::UBIGINT[]))"
            ' AND "end" < ? AND "end" >= ?',
            [wanted.tolist(), self.floor, low],
        )
        fresh = sorted(doc for (doc,) in docs if not known(doc))
        if not fresh:
            return []
        return list(self._read("doc IN (SELECT unnest(?::BIGINT[]))", [fresh]))

    def _read(self, condition: str, parameters: list[Any]) -> Iterator[Record]:
        sql = f"SELECT {_COLUMNS} FROM rl WHERE {condition} ORDER BY doc, rowid"
        for rows in whole_documents(self._table(sql, parameters).to_batches(100_000)):
            yield from self._reader.read(rows)

    def _table(self, sql: str, parameters: list[Any]) -> pa.Table:
        return self.store.connection.sql(sql, params=parameters).to_arrow_table()

    def _note(self, codes: pa.ChunkedArray) -> None:
        if self._filter is None:
            self._filter = np.zeros(1 << _BITS, np.bool_)
        self._filter[_places(codes.to_numpy())] = True


def _places(codes: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    places: np.ndarray[Any, np.dtype[np.uint64]] = np.right_shift(codes, np.uint64(64 - _BITS))
    return places

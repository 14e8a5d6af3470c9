"""What the index in memory has let go: older documents, which stay in the relations.

The posting lists are bounded. Documents beyond the bound, those that ended first, are forgotten and
read again when a batch has a value of theirs, once per batch and not per value. A filter over the
values that were let go keeps the many values never seen before (addresses, titles) from asking the
relations at all; it may ask in vain, but never fails to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from broker.join.records import Reader, Record, whole_documents
from broker.join.relations import Relations
from broker.model import UNBOUNDED

_BITS = 26
"""The filter has two to this power places, a byte each; made when something is first let go."""


class History:
    """Reads records from RL, and knows which may not be in memory: those that ended before
    `floor`."""

    def __init__(self, relations: Relations, reader: Reader) -> None:
        self.relations = relations
        self.floor = -UNBOUNDED
        self._reader = reader
        self._filter: npt.NDArray[np.bool_] | None = None

    def newest(self, count: int) -> Iterator[Record]:
        """The records of about the newest documents; the others count as let go."""
        beyond = self.relations.end_after_newest(count)
        if beyond is not None:
            self.floor = beyond + 1
            self._note(self.relations.values_before(self.floor))
        yield from self._read(self.relations.rows_since(self.floor))

    def let_go(self, records: Iterable[Record], floor: int) -> None:
        """From now on, documents that ended before the floor need not be in memory. It never falls:
        a late document may be let go after one that ended later."""
        self.floor = max(self.floor, floor)
        codes = [code for record in records for code in record.codes if code]
        self._note(np.array(codes, np.uint64))

    def expire(self, horizon: int) -> None:
        """Nothing that ended before the horizon is asked for any more."""
        if self.floor <= horizon:
            self.floor, self._filter = -UNBOUNDED, None

    def records_with(self, codes: set[int], low: int, known: Callable[[int], bool]) -> list[Record]:
        """Records that were let go, ended at `low` or later, and have one of these values. `known`
        says which documents are not asked for."""
        if self._filter is None or low >= self.floor or not codes:
            return []
        wanted = np.fromiter(codes, np.uint64, len(codes))
        wanted = wanted[self._filter[_places(wanted)]]
        if not len(wanted):
            return []
        docs = self.relations.documents_with(wanted.tolist(), low, self.floor)
        fresh = sorted(doc for doc in docs if not known(doc))
        return list(self._read(self.relations.rows_of(fresh))) if fresh else []

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
        for rows in whole_documents(batches):
            yield from self._reader.read(rows)

    def _note(self, codes: npt.NDArray[np.uint64]) -> None:
        if self._filter is None:
            self._filter = np.zeros(1 << _BITS, np.bool_)
        self._filter[_places(codes)] = True


def _places(codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    places: npt.NDArray[np.uint64] = np.right_shift(codes, np.uint64(64 - _BITS))
    return places

"""Eviction: older documents leave the posting lists in memory, but stay in the relations.

The posting lists are bounded. Documents beyond the bound, those that ended first, are evicted, and
read again when a batch has one of their values, with one query per batch. A filter over the evicted
values (like a Bloom filter with one hash: false positives, no false negatives) avoids that query
for the many values never seen before, such as addresses and titles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from broker.join.records import Reader, Record, whole_documents
from broker.join.relations import Rows
from broker.model import UNBOUNDED

_BITS = 26
"""The filter has 2**_BITS places of a byte each; it is allocated at the first eviction."""


class History:
    """Reads records from RL. Documents that ended before `floor` may be evicted, all others are in
    memory."""

    def __init__(self, rows: Rows, reader: Reader) -> None:
        self.rows = rows
        self.floor = -UNBOUNDED
        self._reader = reader
        self._filter: npt.NDArray[np.bool_] | None = None

    def newest(self, count: int) -> Iterator[Record]:
        """The records of about `count` documents that ended last; the others count as evicted."""
        beyond = self.rows.end_after_newest(count)
        if beyond is not None:
            self.floor = beyond + 1
            self._add_to_filter(self.rows.values_before(self.floor))
        yield from self._read(self.rows.since(self.floor))

    def evict(self, records: Iterable[Record], floor: int) -> None:
        """Record that documents were evicted, and raise the floor to `floor` (microseconds). The
        floor never falls: a late document may be evicted after one that ended later."""
        self.floor = max(self.floor, floor)
        codes = [code for record in records for code in record.codes if code]
        self._add_to_filter(np.array(codes, np.uint64))

    def expire(self, horizon: int) -> None:
        """Reset the filter if all evicted documents ended before the horizon, and so are gone."""
        if self.floor <= horizon:
            self.floor, self._filter = -UNBOUNDED, None

    def records_with(self, codes: set[int], low: int, known: Callable[[int], bool]) -> list[Record]:
        """The evicted records that ended at `low` or later and have one of these values, without
        the documents for which `known` is true."""
        if self._filter is None or low >= self.floor or not codes:
            return []
        wanted = np.fromiter(codes, np.uint64, len(codes))
        wanted = wanted[self._filter[_places(wanted)]]
        if not len(wanted):
            return []
        docs = self.rows.documents_with(wanted.tolist(), low, self.floor)
        fresh = sorted(doc for doc in docs if not known(doc))
        return list(self._read(self.rows.of(fresh))) if fresh else []

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
        for rows in whole_documents(batches):
            yield from self._reader.read(rows)

    def _add_to_filter(self, codes: npt.NDArray[np.uint64]) -> None:
        if self._filter is None:
            self._filter = np.zeros(1 << _BITS, np.bool_)
        self._filter[_places(codes)] = True


def _places(codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    places: npt.NDArray[np.uint64] = np.right_shift(codes, np.uint64(64 - _BITS))
    return places

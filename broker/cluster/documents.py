"""The documents in segments, read when a match needs them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from broker.cluster.manifest import Segment
from broker.cluster.segments import Reader, Step
from broker.state.stored_documents import StoredDocument

Numbers = npt.NDArray[np.int64]

_OPEN = 64
"""Segments whose documents are open at once."""


class SegmentDocuments:
    """The documents of the segments of a shard, by number."""

    def __init__(self, reader: Reader) -> None:
        self.versioned = False
        """Whether documents may be versions of each other."""
        self._reader = reader
        self._firsts: list[int] = []
        self._places: list[tuple[Segment, int]] = []
        self._revised: dict[int, tuple[Segment, int]] = {}
        self._open: dict[tuple[Segment, int], tuple[pa.RecordBatch, Numbers]] = {}

    def add(self, segment: Segment, steps: Sequence[Step], only: int | None = None) -> None:
        """The documents of a batch, or of one of its steps."""
        for place, step in enumerate(steps):
            if (only is not None and place != only) or step.first < 0:
                continue
            if step.revised:
                self._revised.update(dict.fromkeys(step.revised, (segment, place)))
            else:
                # Documents after a revision may come behind those that results have become.
                at = bisect_right(self._firsts, step.first)
                self._firsts.insert(at, step.first)
                self._places.insert(at, (segment, place))
                self.versioned = self.versioned or step.versioned

    def documents(self, docs: Sequence[int]) -> dict[int, StoredDocument]:
        """The documents of these numbers."""
        wanted: dict[tuple[Segment, int], list[int]] = {}
        for doc in docs:
            place = self._revised.get(doc)
            if place is None:
                place = self._places[bisect_right(self._firsts, doc) - 1]
            wanted.setdefault(place, []).append(doc)
        found: dict[int, StoredDocument] = {}
        for place, own in wanted.items():
            batch, numbers = self._opened(place)
            taken = batch.take(pa.array(np.searchsorted(numbers, own)))
            for row in zip(*[column.to_pylist() for column in taken.columns], strict=True):
                document = StoredDocument(*row)
                found[document.doc] = document._replace(streams=tuple(document.streams))
        return found

    def _opened(self, place: tuple[Segment, int]) -> tuple[pa.RecordBatch, Numbers]:
        """The documents of a step, and their numbers, in order."""
        if place not in self._open:
            batch = self._reader.documents(*place)
            if len(self._open) >= _OPEN:
                del self._open[next(iter(self._open))]
            self._open[place] = batch, batch.column("doc").to_numpy()
        return self._open[place]

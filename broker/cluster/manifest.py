"""Which files of batches count: kept in the coordinator's state, in the transaction of the batch.

A batch may be begun several times, by several coordinators: its *segment* is the number of the
batch, the epoch of the coordinator and how many attempts had failed in it. The latter two stay the
same from batch to batch until something fails, so the state has a number for each such *run*.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from broker.state.store import Store

_RUN = "cluster_run_"
_BITS = 32


class Segment(NamedTuple):
    """What names the files of a batch."""

    number: int
    epoch: int
    attempt: int

    def name(self) -> str:
        return f"{self.number:012}.{self.epoch:06}.{self.attempt:06}"

    @classmethod
    def of(cls, name: str) -> Segment:
        """The segment of a file of this name."""
        return cls(*map(int, name.split(".")[:3]))


class Manifest:
    """The runs of a state, for the coordinator of an epoch."""

    def __init__(self, store: Store, epoch: int) -> None:
        self._store = store
        self._epoch = epoch
        self._failed = 0
        self._current: tuple[int, int] | None = None

    def committed(self, first: int, last: int) -> list[Segment]:
        """The segments of these batches; empty if the state does not know them."""
        runs = self._runs()
        if not runs or runs[0][0] > first:
            return []
        begins = [begin for begin, _ in runs]
        found = []
        for number in range(first, last + 1):
            value = runs[bisect_right(begins, number) - 1][1]
            found.append(Segment(number, value >> _BITS, value & ((1 << _BITS) - 1)))
        return found

    def next(self, number: int) -> Segment:
        """The segment of a batch that begins."""
        return Segment(number, self._epoch, self._failed)

    def numbers(self, first: int) -> dict[str, int]:
        """What the state has to store with the first batch of a transaction."""
        if self._current == (self._epoch, self._failed):
            return {}
        self._current = (self._epoch, self._failed)
        return {f"{_RUN}{first}": self._epoch << _BITS | self._failed}

    def failed(self) -> None:
        """The transaction was rolled back: its segments are never committed."""
        self._failed += 1

    def forget(self, first: int) -> None:
        """Forget the runs that ended before a batch. To be called in a transaction."""
        runs = self._runs()
        gone = [a for (a, _), (b, _) in pairwise(runs) if b <= first]
        keys = [f"{_RUN}{begin}" for begin in gone]
        self._store.run("DELETE FROM meta WHERE key IN (SELECT unnest(?::VARCHAR[]))", [keys])

    def _runs(self) -> list[tuple[int, int]]:
        """The first batch of each run, and its epoch and attempt as one number, in order."""
        found = self._store.rows("SELECT key, value FROM meta WHERE starts_with(key, ?)", [_RUN])
        return sorted((int(key.removeprefix(_RUN)), value) for key, value in found)

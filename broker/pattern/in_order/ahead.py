"""What waits until the watermark is at its time.

What comes together stays together, as a run in the order of time, so that nothing is done with each
of its entries before they are decided, most of them together, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any, Generic, TypeVar

from broker.pattern.in_order.held import FOR_EVER

Entry = TypeVar("Entry", bound=tuple[Any, ...])

_RUN = 512
"""A run is not longer, as what is left of one is copied when a part of it is decided."""


class Ahead(Generic[Entry]):
    """Entries that begin with a time, and their place in the order of arrival, which no other one
    has."""

    def __init__(self) -> None:
        self._runs: list[list[Entry]] = []
        """A heap: runs are compared by their first entries."""

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __iter__(self) -> Iterator[Entry]:
        """All of them, in no order."""
        return chain.from_iterable(self._runs)

    @property
    def first(self) -> int:
        """The first time; `FOR_EVER` for none."""
        return int(self._runs[0][0][0]) if self._runs else FOR_EVER

    def add(self, entries: list[Entry]) -> None:
        """Add entries that are in order."""
        if len(entries) <= _RUN:
            if entries:
                heappush(self._runs, entries)
            return
        for at in range(0, len(entries), _RUN):
            heappush(self._runs, entries[at : at + _RUN])

    def take(self, now: int) -> list[Entry]:
        """Those up to a time, in order, which are no more here then."""
        runs, after, several = self._runs, (now + 1,), False
        found: list[Entry] = []
        while runs and runs[0][0][0] <= now:
            run = heappop(runs)
            if run[-1] >= after:
                count = bisect_left(run, after)
                heappush(runs, run[count:])
                del run[count:]
            several = several or (bool(found) and run[0] < found[-1])
            found += run
        if several:
            found.sort()
        return found

    def keep(self, entries: list[Entry]) -> None:
        """Have these, and no others."""
        self._runs = [entries[at : at + _RUN] for at in range(0, len(entries), _RUN)]
        heapify(self._runs)

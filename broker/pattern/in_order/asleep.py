"""Queries that are asleep: there are rows of them that nobody has offered yet."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from broker.pattern.instances import NEVER, due_from


class Asleep:
    """By which watermark which queries must have their rows, as one of them is decided."""

    def __init__(self) -> None:
        self._times: list[tuple[int, int]] = []
        """A heap of times, with the numbers of queries."""

    def add(self, owner: int, time: int) -> None:
        """The first row of a query that is not decided yet is decided at a time."""
        heappush(self._times, (time, owner))

    def due(self) -> int:
        """Twice the first such watermark."""
        return due_from(self._times[0][0]) if self._times else NEVER

    def awakened(self, watermark: int | None) -> Iterator[int]:
        """The queries of which one is decided by a watermark, which are no more here then."""
        while watermark is not None and self._times and self._times[0][0] <= watermark:
            yield heappop(self._times)[1]

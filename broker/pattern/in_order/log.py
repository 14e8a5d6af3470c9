"""What is noted of documents before their last block: in columns, and in chains by channel."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from broker.pattern.in_order.takers import Numbers
from broker.pattern.instances import Row


class Log:
    """Documents have positions in the order in which they were noted, of which the first `_gone`
    were dropped. By the number of a channel `_heads` is the position of what was noted last for it,
    and of each the one `_before` it, or a negative one."""

    def __init__(self) -> None:
        self._heads = array("q")
        self._rows: list[Row] = []
        self._ends = array("q")
        self._arrivals = array("q")
        self._places = array("q")
        self._numbers = array("q")
        self._before = array("q")
        self._gone = 0

    def _note_all(self, numbers: Numbers) -> None:
        """Note one document after the other for the channels of these numbers."""
        heads = np.frombuffer(self._heads, np.int64)
        positions = self._gone + len(self._rows) + np.arange(len(numbers))
        by_channel = np.argsort(numbers, kind="stable")
        ordered = numbers[by_channel]
        before = heads[ordered]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        before[same + 1] = positions[by_channel[same]]
        found = np.empty_like(before)
        found[by_channel] = before
        heads[numbers] = positions
        self._before.frombytes(found.tobytes())

    def _cut(self, horizon: int) -> None:
        """Drop what ended before a time, but for what is behind something else."""
        alive = np.frombuffer(self._ends, np.int64) >= horizon
        count = int(alive.argmax()) if alive.any() else len(alive)
        del alive
        for column in (self._ends, self._arrivals, self._places, self._numbers, self._before):
            del column[:count]
        del self._rows[:count]
        self._gone += count

    def _renumber(self, kept: Sequence[int]) -> None:
        """Of the channels those are left that had these numbers, and have their places now."""
        heads = self._heads
        self._heads = array("q", [heads[number] for number in kept])
        new = {number: place for place, number in enumerate(kept)}
        self._numbers = array("q", [new[number] for number in self._numbers])

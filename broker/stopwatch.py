"""Measures how long each step of a batch takes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable


class Stopwatch:
    """Seconds by step, summed over batches.

    Steps: admit (admission), store (rows into the database), join (candidates), publish (results of
    matches), commit (the transaction's end). `read` returns the time in seconds: elapsed time, or
    CPU time.
    """

    def __init__(self, read: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._read = read
        self._last = read()

    def start(self) -> None:
        self._last = self._read()

    def lap(self, step: str) -> None:
        now = self._read()
        self.seconds[step] += now - self._last
        self._last = now

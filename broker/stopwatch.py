"""Where the time of a batch goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable


class Clock:
    """Where the time of batches goes, in seconds by step.

    admit: who comes in; store: rows into the database; join: the templates' queries; publish:
    results of matches; commit: the transaction's end. `read` is the time in seconds: passed, or
    taken of the processor.
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

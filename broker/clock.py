"""Where the time of a batch goes."""

from __future__ import annotations

import time
from collections import defaultdict


class Clock:
    """Where the time of batches goes, in seconds by step.

    admit: who comes in; store: rows into the database; join: the templates' queries; publish:
    results of matches; commit: the transaction's end.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._last = 0.0

    def start(self) -> None:
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] += now - self._last
        self._last = now

"""Loops in threads of their own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Background(ABC):
    """A loop in a daemon thread, which runs until it is stopped."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    @abstractmethod
    def _loop(self) -> None:
        """Runs until `_stop` is set, or soon after."""

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Finish work in flight and begin no more; returns whether it was finished in time."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

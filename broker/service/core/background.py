"""What runs in a thread of its own until it is stopped."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Background(ABC):
    """A loop in a thread, which a process that ends does not wait for."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    @abstractmethod
    def _loop(self) -> None:
        """Runs until `_stop` is set, or soon after."""

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Finish what is in flight and begin nothing more; whether it was finished in time."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

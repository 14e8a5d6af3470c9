"""The shards as processes of this machine: for tests, and to measure one machine with itself."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from broker.cluster.files import ClusterError
from broker.cluster.serving import Place

_FEW = 20
"""Times that the process of a shard may end in a row without anybody having asked for it."""


class Running(Protocol):
    """A process, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...
    def kill(self) -> None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def started(place: Place) -> Running:
    """A process for a shard."""
    command = [sys.executable, "-m", "broker.cluster.serving"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin as where:
        where.write(pickle.dumps(place))
    return process


class Processes:
    """A launcher of processes, each by `start`; one that ends is started again."""

    def __init__(self, start: Callable[[Place], Running] = started) -> None:
        self.running: dict[int, Running] = {}
        self._start = start
        self._closed = threading.Event()
        self._ends = 0
        self._threads: list[threading.Thread] = []

    def start(self, places: Sequence[Place]) -> None:
        for place in places:
            self.running[place.shard] = self._start(place)
            thread = threading.Thread(target=self._watch, args=(place,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _watch(self, place: Place) -> None:
        while not self._closed.is_set():
            self.running[place.shard].wait()
            if self._closed.is_set() or self._ends >= _FEW:
                return
            self._ends += 1
            self.running[place.shard] = self._start(place)

    def check(self) -> None:
        if self._ends >= _FEW:
            raise ClusterError("the processes of the shards end again and again")

    def close(self) -> None:
        self._closed.set()
        for process in self.running.values():
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self.running.values():
            process.wait()

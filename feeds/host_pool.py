"""A few threads for many jobs, of which those of one host run one after the other.

In: jobs, each with the name of its host. Out: their results, as they get done, those of one host in
order. Threads and not an event loop: a polite fetcher keeps few connections, so few threads are
enough for any number of feeds; looking up a name blocks a thread either way; and each job can be
bounded in time on its own.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_SLICE = 0.5
"""Seconds that one wait for a result lasts at most."""


class HostPool(Generic[T]):
    """`threads` at most, started when needed. Close it; jobs under way are then left to end alone.

    At most twice as many results as there are threads wait to be taken: if nobody takes them, the
    threads stop instead of filling the memory.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._started = 0
        self._idle = 0
        self._closed = False
        self._change = threading.Condition()
        self._ready: deque[str] = deque()
        self._jobs: dict[str, deque[Callable[[], T]]] = {}
        self._results: queue.Queue[T] = queue.Queue(2 * threads)

    def submit(self, host: str, job: Callable[[], T]) -> None:
        """Queue `job`, which runs after all earlier jobs of its host. It must not raise."""
        with self._change:
            waiting = self._jobs.get(host)
            if waiting is not None:
                waiting.append(job)
                return
            self._jobs[host] = deque((job,))
            self._ready.append(host)
            if len(self._ready) > self._idle and self._started < self._threads:
                self._started += 1
                name = f"{self._name}-{self._started}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            self._change.notify()

    def next(self, timeout: float | None = None) -> T | None:
        """The next result, None if there is none within `timeout` seconds."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        # A signal that comes just before a wait begins does not end it, and Ctrl-C would take as
        # long as the slowest server. So no wait is long.
        while True:
            left = end - time.monotonic()
            try:
                return self._results.get(timeout=max(0.0, min(left, _SLICE)))
            except queue.Empty:
                if left <= _SLICE:
                    return None

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()

    def _work(self) -> None:
        while (host := self._next_host()) is not None:
            # The host's entry stays while its job runs, so that no other thread takes it up.
            # Its result is there before the next job of the host begins, so that they are in order.
            self._put_result(self._jobs[host].popleft()())
            with self._change:
                if self._jobs[host]:
                    self._ready.append(host)
                    self._change.notify()
                else:
                    del self._jobs[host]

    def _next_host(self) -> str | None:
        with self._change:
            self._idle += 1
            self._change.wait_for(lambda: self._closed or self._ready)
            self._idle -= 1
            return None if self._closed else self._ready.popleft()

    def _put_result(self, result: T) -> None:
        while not self._closed:
            try:
                self._results.put(result, timeout=0.5)
                return
            except queue.Full:
                continue

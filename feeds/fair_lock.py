"""A lock that threads acquire in the order in which they asked for it.

A busy thread releases the lock and acquires it again at once, over and over. With a plain lock
that thread nearly always wins, and the others wait until it has nothing left to do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class FairLock:
    """A reentrant lock, first come first served; use it with `with`."""

    def __init__(self) -> None:
        self._inner = threading.Lock()
        self._queue: deque[tuple[int, threading.Lock]] = deque()
        self._owner: int | None = None
        self._depth = 0

    @property
    def is_free(self) -> bool:
        """Whether nobody has it at the moment."""
        return self._owner is None

    def acquire(self, timeout: float = -1) -> bool:
        """Whether the lock was acquired; the attempt ends after `timeout` seconds (-1: never)."""
        me = threading.get_ident()
        with self._inner:
            if self._owner == me or self._owner is None:
                self._owner = me
                self._depth += 1
                return True
            gate = threading.Lock()
            gate.acquire()
            turn = (me, gate)
            self._queue.append(turn)
        try:
            if gate.acquire(timeout=timeout) or not self._give_up(turn):
                return True  # the holder may have handed it over just after the timeout
        except BaseException:  # Ctrl-C
            if not self._give_up(turn):
                self.release()
            raise
        return False

    def _give_up(self, turn: tuple[int, threading.Lock]) -> bool:
        """Leave the queue. False if the turn is no longer queued: then the lock is held already."""
        with self._inner:
            if turn in self._queue:
                self._queue.remove(turn)
                return True
        return False

    def release(self) -> None:
        with self._inner:
            assert self._owner == threading.get_ident(), "released by a thread that does not own it"
            self._depth -= 1
            if self._depth:
                return
            if not self._queue:
                self._owner = None
                return
            # The lock is handed over without being free in between, so no thread can barge in.
            self._owner, gate = self._queue.popleft()
            self._depth = 1
            gate.release()

    def __enter__(self) -> FairLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @contextmanager
    def within(self, seconds: float) -> Iterator[bool]:
        """A block that holds the lock, and yields True; False if it was not acquired in time."""
        got = self.acquire(seconds)
        try:
            yield got
        finally:
            if got:
                self.release()

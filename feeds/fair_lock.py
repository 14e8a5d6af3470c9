"""A lock that is given in the order in which it was asked for.

Who does much work takes a lock, lets it go and takes it again at once, all day. With a plain lock
whoever else waits would wait until there is nothing to do.
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

    def acquire(self, timeout: float = -1) -> bool:
        """Whether it was got; after `timeout` seconds (-1: never) it is given up."""
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
                return True  # it may have been handed over at the last moment
        except BaseException:  # Ctrl-C
            if not self._give_up(turn):
                self.release()
            raise
        return False

    def _give_up(self, turn: tuple[int, threading.Lock]) -> bool:
        """Whether there was a turn to give up, and not the lock itself."""
        with self._inner:
            if turn in self._queue:
                self._queue.remove(turn)
                return True
        return False

    def release(self) -> None:
        with self._inner:
            assert self._owner == threading.get_ident(), "released by who does not hold it"
            self._depth -= 1
            if self._depth:
                return
            if not self._queue:
                self._owner = None
                return
            # Handed over while it is held, so that nobody comes in between.
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
        """Held inside the block, unless it could not be got in time: then the block gets False."""
        got = self.acquire(seconds)
        try:
            yield got
        finally:
            if got:
                self.release()

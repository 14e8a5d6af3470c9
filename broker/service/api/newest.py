"""The newest matches of the log as lines of JSON, for readers who want all as they come.

In: matches, from the thread that has just stored them. Out: pages, in the event loop. What a match
says is made once for all such readers, of documents that are in memory, so that a page needs no
thread and does not read the log. Nothing is held while nobody asks, and nothing is promised: who
asks for more than is held reads the log.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from broker.delivery.log import Taken
from broker.service.api.match_pages import PAGE_BYTES, Page

_ASKED = 5.0
"""Seconds after the last request during which matches are held."""
_MOST = 1_000
"""Matches that are held at most, and that are made at once: more are left to the log."""


class Mailbox(Protocol):
    """The log, which tells what is new in it, and that something else has changed."""

    def last(self) -> int: ...
    def follow(self, callback: Callable[[Sequence[Taken], int], None]) -> Callable[[], None]: ...
    def watch(self, callback: Callable[[Collection[str] | None], None]) -> Callable[[], None]: ...


class Newest:
    """The lines of the newest matches of a mailbox, at most `most` and `size` bytes of them.
    `clock` gives seconds. May be used from several threads."""

    def __init__(
        self,
        mailbox: Mailbox,
        most: int = _MOST,
        size: int = PAGE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mailbox = mailbox
        self._most = most
        self._size = size
        self._clock = clock
        self._lock = threading.Lock()
        self._until = clock()
        """When there will be nobody who asks any more."""
        self._begin = self._end = -1
        """There are lines for all matches with numbers above the first, up to the second."""
        self._numbers: list[int] = []
        self._lines: list[bytes] = []
        self._bytes = 0
        mailbox.follow(self._take)
        mailbox.watch(self._changed)

    def page(self, after: int, limit: int) -> Page | None:
        """The first `limit` matches numbered above `after`, if they are held or there are none yet;
        otherwise None."""
        # Asked before it is looked, since a match that is stored in between is then held.
        current = after >= self._mailbox.last()
        with self._lock:
            if not (current or self._begin <= after <= self._end):
                return None
            self._until = self._clock() + _ASKED
            first = bisect_right(self._numbers, after)
            numbers = self._numbers[first : first + limit]
            lines = self._lines[first : first + limit]
        return Page(lines, numbers, numbers[-1] if numbers else after)

    def _take(self, rows: Sequence[Taken], taken: int) -> None:
        """Hold what the log has just taken."""
        last = rows[-1].n
        first = rows[0].n - len(rows[0].match)
        if self._clock() > self._until or last - first > self._most:
            self._forget(last)
            return
        try:
            made = [line for row in rows for line in row.lines(taken)]
        except Exception:
            # Whoever reads it from the log is told of it; the pipeline must go on.
            self._forget(last)
            return
        with self._lock:
            if self._end != first:
                self._clear(first)
            self._end = last
            for n, line in made:
                self._numbers.append(n)
                self._lines.append(line)
                self._bytes += len(line)
            self._drop()

    def _drop(self) -> None:
        """Drop the oldest, if there are too many."""
        gone = max(0, len(self._lines) - self._most)
        size = self._bytes - sum(map(len, self._lines[:gone]))
        while size > self._size:
            size -= len(self._lines[gone])
            gone += 1
        if gone:
            self._begin = self._numbers[gone - 1]
            del self._numbers[:gone], self._lines[:gone]
            self._bytes = size

    def _changed(self, subscriptions: Collection[str] | None) -> None:
        """Forget all where matches may have been deleted."""
        if subscriptions is None:
            self._forget(self._end)

    def _forget(self, last: int) -> None:
        with self._lock:
            self._clear(last)

    def _clear(self, last: int) -> None:
        self._begin = self._end = last
        self._numbers, self._lines, self._bytes = [], [], 0

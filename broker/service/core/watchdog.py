"""The thread that stops a search which takes too much time or memory.

Time is that of the processor which the searching thread uses, so that a busy machine changes
nothing. It is counted from the beginning of a search, and of each part of one made with care.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.join.work import Cancelled, Overdue, Work
from broker.model import MICROSECONDS
from broker.service.core.background import Background
from broker.service.core.errors import Busy, Conflict
from broker.text.units import format_size
from xscl.syntax.durations import format_microseconds

_EVERY = 0.1
"""Seconds between two looks."""

_GROWTH = 10
"""A search is stopped for memory if a tenth of what the process may take was added by it."""

_SHARE = 0.6
"""What the process takes at most by default, of the memory that there is."""


def available() -> int:
    """Bytes of memory that there are for this process: the machine's, or less if its control group
    or its limits say so."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            found.append(soft)
    return min(found)


def most(memory: int | None) -> int:
    """Bytes that the process may take: the setting, or a share of what there is."""
    return int(_SHARE * available()) if memory is None else memory


def resident() -> int:
    """Bytes of memory that the process has now."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used if sys.platform == "darwin" else used * 1_024


class Watchdog(Background):
    """Watches searches. `limit` are microseconds, `memory` the bytes that the process may take."""

    def __init__(self, limit: int, memory: int) -> None:
        super().__init__("watchdog")
        self._limit = limit
        self._memory = memory
        self._watched: list[_Watched] = []

    @contextmanager
    def watching(self, work: Work) -> Iterator[None]:
        """A block during which the searches of `work` are watched."""
        watched = _Watched(work)
        self._watched.append(watched)
        try:
            yield
        finally:
            self._watched.remove(watched)

    def watch(self, work: Work) -> None:
        """Watch the searches of `work` for good."""
        self._watched.append(_Watched(work))

    def _loop(self) -> None:
        while not self._stop.wait(_EVERY):
            for watched in [*self._watched]:
                watched.look(self._limit, self._memory)


class _Watched:
    """What is being searched, and the time and memory at which that was seen first."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._count = 0
        self._clock: int | None = None
        self._began = 0.0
        self._size = 0

    def look(self, limit: int, memory: int) -> None:
        """Stop the search if it has to be."""
        work = self._work
        with work.still() as thread:
            if thread is None:
                return
            if work.count != self._count:
                self._count = work.count
                self._clock = _clock_of(thread)
                self._began, self._size = self._now(), resident()
                return
            took = self._now() - self._began
        if took * MICROSECONDS > limit:
            why = Overdue(f"its search took longer than {format_microseconds(limit)}")
            work.stop(why, late=True)
        size = resident()
        if size > memory and size - self._size > memory // _GROWTH:
            work.stop(
                Overdue(f"its search took the service beyond {format_size(memory)} of memory")
            )
        work.insist()

    def _now(self) -> float:
        if self._clock is None:
            return time.monotonic()
        return time.clock_gettime(self._clock)


def _clock_of(thread: int) -> int | None:
    """The clock of the processor time of a thread, where there are such clocks."""
    find = getattr(time, "pthread_getcpuclockid", None)
    return None if find is None else int(find(thread))


@contextmanager
def not_too_long() -> Iterator[None]:
    """A block that searches history. Raises Conflict where it is too much, and Busy
    where another operation came first."""
    try:
        yield
    except Cancelled:
        raise Busy("another operation came first; nothing was registered", 1.0) from None
    except Overdue as why:
        raise Conflict(f"among the stored documents the query is too much: {why}") from None

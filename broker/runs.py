"""A run of a pipeline, whichever it is: how it is stopped, what it tells, and how it fails."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from broker.model import Match

_LOOK = 0.5
"""Seconds after which a thread that waits looks for signals: one that comes when Python has just
looked, and the thread is not asleep yet, does not wake it."""


class PipelineError(RuntimeError):
    """The pipeline stopped; the message is the reason in one line."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One batch. `seconds` by stage, as the pipeline names them."""

    batch: int
    documents: int
    matches: int
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """What Spark says of its streaming query.

    `doing` is what it does now, in its words. Of the last micro-batch that had rows: its number (-1
    before the first), its `rows`, rows that were `arriving` and `processed` a second, and the
    seconds of its `phases` by Spark's names (`triggerExecution` is all of it). `read`: the offset
    of each source up to which all is read.
    """

    doing: str
    batch: int
    rows: int
    arriving: float
    processed: float
    phases: Mapping[str, float]
    read: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Summary:
    """A run: its totals, `seconds` by stage, `elapsed` from start to end.

    `undated`: by source, the documents that have no date of their own.
    """

    documents: int
    batches: int
    matches: int
    seconds: Mapping[str, float]
    elapsed: float
    undated: Mapping[str, int]


class Stopping(Protocol):
    """What tells a run to end: a `Stop`, or an event of `threading`."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for so many seconds at most; returns whether it is."""


class Stop:
    """An event that a signal handler may set; `signal` is the signal that did, None before.

    An event of `threading` must not be set by a handler: where the signal comes while the same
    thread is inside `wait`, `set` waits for a lock that only `wait` can release. The queue is one
    of those that Python makes for handlers.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._is_set = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._bell.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for so many seconds at most; returns whether it is."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left = end - time.monotonic()
            if left <= 0:
                break
            with suppress(Empty):
                self._bell.get(timeout=min(left, _LOOK))
                self._bell.put(None)  # for the others that wait
        return self._is_set


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """A `Stop` that SIGINT and SIGTERM set. Main thread only.

    A second signal has its usual effect, so that one can end the process during a long batch.
    """
    stop = Stop()
    before: dict[signal.Signals, Any] = {}

    def on_signal(number: int, _: object) -> None:
        stop.signal = number
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        restore()


class Run(Protocol):
    """Runs a pipeline over its sources until it is done or stopped. Raises PipelineError."""

    def __call__(
        self,
        *,
        once: bool,
        on_matches: Callable[[list[Match]], object],
        on_progress: Callable[[Progress], object],
        stop: Stop,
    ) -> Summary: ...

"""The pipeline's thread, which restarts the pipeline after failures and reports their reason.

In: a pipeline, a function that runs until it is stopped or raises an exception. Out: its figures. A
full disk, a JVM that died or a file that cannot be written end a pipeline; the process stays up,
waits a while, reopens the state if necessary, and runs it again from the engine's position.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import structlog

from broker.runs import StreamProgress
from broker.service.core.answers import PipelineFigures
from broker.service.core.background import Background
from broker.service.core.core import Batch, Core

_log = structlog.get_logger(__name__)

WAITS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

_AVERAGING = 30.0
"""The time constant, in seconds, of the average rate."""


_GRACE = 2.0
"""Seconds that a search has to end before it is stopped."""


class Observer(Protocol):
    """An object that is called with each batch, such as the metrics."""

    def observe_batch(self, stages: Mapping[str, float], documents: int, matches: int) -> None: ...

    def observe_latency(self, seconds: float) -> None: ...


class Watch:
    """Receives the reports of a running pipeline, and has its figures."""

    def __init__(self, kind: str, core: Core, observer: Observer) -> None:
        self._core = core
        self._observer = observer
        self._lock = threading.Lock()
        self._rate = _Rate()
        self._figures = PipelineFigures(kind, False, None, None, 0, 0, 0, 0.0, None, 0, 0)

    @property
    def figures(self) -> PipelineFigures:
        with self._lock:
            return replace(self._figures, rate=self._rate.now())

    def rate(self) -> float:
        """The recent number of documents per second."""
        with self._lock:
            return self._rate.now()

    def running(self, running: bool) -> None:
        self._set(running=running)

    def batch(self, batch: Batch, waited: float | None) -> None:
        """Report a committed batch, and for how many seconds its oldest document had waited."""
        now = self._core.now()
        with self._lock:
            self._rate.add(batch.documents)
            figures = self._figures
            self._figures = replace(
                figures,
                failure=None,
                failing_since=None,
                batches=figures.batches + 1,
                documents=figures.documents + batch.documents,
                matches=figures.matches + batch.matches,
                last_batch=now,
            )
        self._observer.observe_batch(batch.stages, batch.documents, batch.matches)
        if waited is not None:
            self._observer.observe_latency(waited)

    def stream(self, progress: StreamProgress) -> None:
        """Report what Spark says of its query."""
        self._set(stream=progress)

    def poison(self, place: str, error: Exception) -> None:
        """Report a document at which the engine failed, and which becomes a dead letter."""
        _log.error("document.poison", place=place, error=repr(error), exc_info=error)
        with self._lock:
            self._figures = replace(self._figures, poisoned=self._figures.poisoned + 1)

    def failed(self, reason: str) -> None:
        with self._lock:
            since = self._figures.failing_since or self._core.now()
            self._figures = replace(
                self._figures,
                running=False,
                stream=None,
                failure=reason,
                failing_since=since,
                restarts=self._figures.restarts + 1,
            )

    def well(self) -> None:
        """Report that the failure is over."""
        self._set(failure=None, failing_since=None)

    def _set(self, **changes: object) -> None:
        with self._lock:
            self._figures = replace(self._figures, **changes)  # type: ignore[arg-type]


class _Rate:
    """A number per second, as an exponentially weighted average."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._pending = 0
        self._at = time.monotonic()

    def add(self, count: int) -> None:
        self._pending += count
        self.now()

    def now(self) -> float:
        now = time.monotonic()
        seconds = now - self._at
        if seconds >= 0.5:
            weight = min(1.0, seconds / _AVERAGING) if self._rate else 1.0
            self._rate += (self._pending / seconds - self._rate) * weight
            self._pending, self._at = 0, now
        return self._rate


Pipeline = Callable[[threading.Event, Watch], None]
"""A function that runs until the event is set, and reports to the watch."""


class Driver(Background):
    """Runs a pipeline in a thread of its own, again after each failure.

    `waits`: seconds until the next attempt, by the number of failures in a row.
    """

    def __init__(
        self, core: Core, pipeline: Pipeline, watch: Watch, waits: Sequence[float] = WAITS
    ) -> None:
        super().__init__("pipeline")
        self._core = core
        self._waits = waits
        self._pipeline = pipeline
        self.watch = watch

    def stop(self, timeout: float) -> bool:
        self._stop.set()
        self._core.news.set()  # so that a pipeline that waits for documents notices the stop
        if super().stop(min(timeout, _GRACE)):
            return True
        self._core.cancel()
        return super().stop(max(0.1, timeout - _GRACE))

    def _loop(self) -> None:
        failures = 0
        while not self._stop.is_set():
            batches = self.watch.figures.batches
            try:
                self._core.mend()
                self._core.empty_outbox()
                self._pipeline(self._stop, self.watch)
                self.watch.running(False)
            except Exception as error:
                failures = 0 if self.watch.figures.batches > batches else failures
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                repeated = self.watch.figures.failure == reason
                self.watch.failed(reason)
                wait = self._waits[min(failures, len(self._waits) - 1)]
                failures += 1
                trace = None if repeated else error  # the traceback is logged once
                _log.error("pipeline.failed", reason=reason, retry_after=wait, exc_info=trace)
                self._stop.wait(wait)

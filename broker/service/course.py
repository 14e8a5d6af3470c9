"""The course of the service: what its figures were in the last hour and the last day.

In: reports of the pipeline, and a look at cheap figures every `EVERY` seconds. Out: points, oldest
first. They are in memory alone, 650 of a few hundred bytes, and begin anew with the process: what
is to be kept for longer, Prometheus keeps.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from broker.service.pipeline.driver import Observer

EVERY = 10.0
"""Seconds between two points of the hour."""
_MERGED = 30
"""So many points of the hour are one of the day."""
_HOUR = 360
_DAY = 288

Span = Literal["hour", "day"]


@dataclass(frozen=True, slots=True)
class Look:
    """Figures of a moment: the time in microseconds, documents that ever came in and that were
    matched, documents that wait, bytes of memory, of the files of the state and free on its disk.
    """

    at: int
    accepted: int
    applied: int
    backlog: int
    memory: int
    files: int
    free: int


@dataclass(frozen=True, slots=True)
class Point:
    """What happened in the time since the point before.

    `at` is its end and `seconds` how long it is; `accepted`, `documents` and `matches` are counts,
    `waited` the sum of the latencies of `batches` in seconds, `slowest` the longest, `stages` the
    seconds of each stage of the pipeline. `backlog` and `memory` are the highest that were seen,
    `files` and `free` the last.
    """

    at: int
    seconds: float
    accepted: int
    documents: int
    matches: int
    batches: int
    waited: float
    slowest: float
    stages: Mapping[str, float]
    backlog: int
    memory: int
    files: int
    free: int


class Course:
    """The points of the last hour and day. An `Observer` that passes on what it hears."""

    def __init__(self, observer: Observer, look: Callable[[], Look]) -> None:
        self._observer = observer
        self._look = look
        self._lock = threading.Lock()
        self._before: Look | None = None
        self._fine: deque[Point] = deque(maxlen=_HOUR)
        self._coarse: deque[Point] = deque(maxlen=_DAY)
        self._since_merged = 0
        self._reset()

    def _reset(self) -> None:
        self._stages: dict[str, float] = {}
        self._matches = self._batches = 0
        self._waited = self._slowest = 0.0

    def observe_batch(self, stages: Mapping[str, float], documents: int, matches: int) -> None:
        self._observer.observe_batch(stages, documents, matches)
        with self._lock:
            self._matches += matches
            for stage, seconds in stages.items():
                self._stages[stage] = self._stages.get(stage, 0.0) + seconds

    def observe_latency(self, seconds: float) -> None:
        self._observer.observe_latency(seconds)
        with self._lock:
            self._batches += 1
            self._waited += seconds
            self._slowest = max(self._slowest, seconds)

    def sample(self) -> None:
        """Add a point for the time since the last call; the first call only begins."""
        now = self._look()
        with self._lock:
            before, self._before = self._before, now
            if before is not None and now.at > before.at:
                self._fine.append(self._point(before, now))
                self._since_merged += 1
                if self._since_merged == _MERGED:
                    self._coarse.append(_merged(list(self._fine)[-_MERGED:]))
                    self._since_merged = 0
            self._reset()

    def _point(self, before: Look, now: Look) -> Point:
        return Point(
            at=now.at,
            seconds=(now.at - before.at) / 1_000_000,
            accepted=max(0, now.accepted - before.accepted),
            documents=max(0, now.applied - before.applied),
            matches=self._matches,
            batches=self._batches,
            waited=self._waited,
            slowest=self._slowest,
            stages=self._stages,
            backlog=now.backlog,
            memory=now.memory,
            files=now.files,
            free=now.free,
        )

    def points(self, span: Span) -> Sequence[Point]:
        """The points, oldest first; of a day the last one is of less than five minutes."""
        with self._lock:
            if span == "hour":
                return list(self._fine)
            rest = list(self._fine)[-self._since_merged :] if self._since_merged else []
            return [*self._coarse, *([_merged(rest)] if rest else [])]


def _merged(points: Sequence[Point]) -> Point:
    stages: dict[str, float] = {}
    for point in points:
        for stage, seconds in point.stages.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
    last = points[-1]
    return Point(
        at=last.at,
        seconds=sum(each.seconds for each in points),
        accepted=sum(each.accepted for each in points),
        documents=sum(each.documents for each in points),
        matches=sum(each.matches for each in points),
        batches=sum(each.batches for each in points),
        waited=sum(each.waited for each in points),
        slowest=max(each.slowest for each in points),
        stages=stages,
        backlog=max(each.backlog for each in points),
        memory=max(each.memory for each in points),
        files=last.files,
        free=last.free,
    )

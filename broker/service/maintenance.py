"""Periodic tasks: the passing of time, trimming, retention, compaction.

One thread runs a list of tasks. A task that fails (because of a full disk, say) is tried again at
its next turn and appears in the figures until it succeeds; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from broker.join.work import Cancelled
from broker.service.core.background import Background
from broker.service.core.core import Core
from broker.state.store import DatabaseError, StateError

_log = structlog.get_logger(__name__)

SECOND = 1_000_000
_KEPT = 600 * SECOND
"""For how long the engine keeps matches that it has handed over: longer than it takes until all
that the mailbox has committed is in its main file."""


@dataclass(slots=True)
class _Task:
    """A task that runs `every` so many seconds; `due` is a time of the monotonic clock."""

    name: str
    every: float
    run: Callable[[], object]
    due: float = 0.0


class Maintenance(Background):
    """The tasks for a state, and their thread."""

    def __init__(self, core: Core) -> None:
        super().__init__("maintenance")
        self.core = core
        self._problems: dict[str, str] = {}
        now = time.monotonic()
        self._tasks = [
            _Task("clock", 2.0, self.tick, now),
            _Task("intake", 2.0, core.try_to_store, now + 2),
            _Task("trim", 5.0, core.trim, now + 5),
            # Often, so that each run is short: nothing is matched meanwhile.
            _Task("retention", 15.0, self.retain, now + 10),
            _Task("compaction", 300.0, self.compact, now + 60),
        ]

    def also(self, name: str, every: float, run: Callable[[], object]) -> None:
        """Add a task, before the thread is started."""
        self._tasks.append(_Task(name, every, run, time.monotonic() + every))

    @property
    def problems(self) -> dict[str, str]:
        """The tasks that failed the last time, with the reason."""
        return dict(self._problems)

    def _loop(self) -> None:
        while not self._stop.is_set():
            now = time.monotonic()
            for task in self._tasks:
                if task.due <= now and not self._stop.is_set():
                    self._run(task)
                    task.due = now + task.every
            soonest = min(task.due for task in self._tasks)
            self._stop.wait(max(0.0, soonest - time.monotonic()))

    def _run(self, task: _Task) -> None:
        try:
            task.run()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            if self._problems.get(task.name) != reason:
                _log.error("maintenance.failed", task=task.name, reason=reason, exc_info=error)
            self._problems[task.name] = reason
            with suppress(DatabaseError, StateError):  # reopening may fail for the same reason
                self.core.mend()
        else:
            self._problems.pop(task.name, None)

    # -- the tasks -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Advance the time of the engine, so that rows expire and event patterns are decided while
        no documents arrive."""
        with suppress(Cancelled):  # the next one does it
            self.core.tick()
        if self.core.reading.lacks:  # somebody has missed a document
            self.core.mend()
        self.core.prove()

    def retain(self) -> None:
        """Delete documents, dead letters and matches beyond the retention of the settings."""
        core, retention = self.core, self.core.settings.retention
        core.engine.store.catch_up()  # while batches go on
        with core.lock:
            # A clock that is wrong must not make young data expire.
            core.engine.wall.correct(core.now())
            now = core.engine.wall.come()
            core.engine.retain(retention.documents, retention.identities)
            core.engine.take_in(core.believed())
            core.engine.release(_KEPT)
            if retention.dead_letters is not None:
                core.engine.expire_letters(now - retention.dead_letters)
        core.mailbox.retain(
            retention.delivered,
            retention.undelivered,
            max_bytes=retention.max_mailbox,
            dead=retention.dead_letters,
            now=now,
        )

    def compact(self) -> None:
        """Return unused space of the files to the file system."""
        core = self.core
        with core.lock:
            written = core.engine.store.begin_checkpoint()
        written.result()
        core.spool.compact()
        core.mailbox.compact()

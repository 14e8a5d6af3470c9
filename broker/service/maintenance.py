"""What has to be done from time to time: time passes, files stay small, what is old goes.

One thread, a list of tasks. A task that fails (the disk is full, say) is tried again at its next
turn, and is in the figures until it succeeds; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from broker.service.core.background import Background
from broker.service.core.core import Core
from broker.state.store import DatabaseError, StateError

_log = structlog.get_logger(__name__)

SECOND = 1_000_000


@dataclass(slots=True)
class _Task:
    """`every` in seconds; `due` by the clock that never jumps."""

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
            _Task("trim", 5.0, core.trim, now + 5),
            # Often, since nothing is matched while what is too old is taken out.
            _Task("retention", 15.0, self.retain, now + 10),
            _Task("compaction", 300.0, self.compact, now + 60),
        ]

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
            with suppress(DatabaseError, StateError):  # as long as it cannot be opened either
                self.core.mend()
        else:
            self._problems.pop(task.name, None)

    # -- the tasks -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let time pass where no document comes, so that what is over is over."""
        with self.core.lock:
            self.core.engine.tick(self.core.now())

    def retain(self) -> None:
        """Delete what is older than the settings allow."""
        core, kept = self.core, self.core.settings.retention
        with core.lock:
            # The corrected time: a clock that jumps ahead must not make young data expire.
            now = core.engine.wall.correct(core.now())
            core.engine.retain(kept.documents, kept.identities)
            if kept.dead_letters is not None:
                core.engine.delete_letters(before=now - kept.dead_letters)
        core.mailbox.retain(
            kept.delivered,
            kept.undelivered,
            max_bytes=kept.max_mailbox,
            dead=kept.dead_letters,
            now=now,
        )

    def compact(self) -> None:
        """Let the files be as large as what is in them."""
        core = self.core
        with core.lock:
            core.engine.store.checkpoint()
        core.spool.compact()
        core.mailbox.compact()

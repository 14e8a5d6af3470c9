"""A thread that joins a batch while Spark witnesses the next one.

    Spark's callback: witness a batch ──hand_over──> this thread: join, commit, deliver

One batch at most is handed over and not joined yet: who hands over the next one waits for it. After
an error nothing more is joined, and the error is raised to whoever hands over, and by `check` and
`close`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Batch = TypeVar("Batch")


class Joining(Generic[Batch]):
    """Calls `join` with each batch that is handed over, one after the other in a thread of its
    own."""

    def __init__(self, join: Callable[[Batch], object]) -> None:
        self._join = join
        self._changed = threading.Condition()
        self._batch: Batch | None = None
        """What was handed over and is not joined yet."""
        self._is_closed = False
        self.error: BaseException | None = None
        # It does not keep a process that is ended by force.
        self._thread = threading.Thread(target=self._run, name="joining", daemon=True)
        self._thread.start()

    def is_busy(self) -> bool:
        """Whether a batch is being joined."""
        return self._batch is not None

    def hand_over(self, batch: Batch) -> None:
        """Have a batch joined; waits until the one before it is. Raises its error."""
        with self._changed:
            self.wait()
            self._batch = batch
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until nothing is being joined. Raises what joining a batch has raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._batch is None)
        self.check()

    def check(self) -> None:
        """Raise what joining a batch has raised, if it has."""
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Wait until all that was handed over is joined, and end the thread. The error, if there
        is one, stays in `error`."""
        with self._changed:
            self._changed.wait_for(lambda: self._batch is None)
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._batch is not None or self._is_closed)
                batch = self._batch
            if batch is None:
                return
            try:
                self._join(batch)
            except BaseException as error:
                self.error = error
            finally:
                with self._changed:
                    self._batch = None
                    self._changed.notify_all()

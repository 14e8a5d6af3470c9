"""Documents that are published one a request, stored together by two threads.

In: documents, from the event loop. Out: what is to be answered, to the event loop, once they are on
the disk. All that come while others are being stored are stored next, by one transaction and the
same syncs, so the more come, the less each costs. While one thread has the proof of a group synced,
which is the second of two syncs, the other stores the next group. To hand each document to a pool
of threads, and its outcome back, takes longer than all else that is done for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from broker.service.api.known import Known, keys_of
from broker.service.core.answers import Accepted, Posted
from broker.service.service import Service

_THREADS = 2
_MOST = 256
"""Documents that are stored at once at most."""


@dataclass(slots=True, eq=False)
class Single:
    """A document to publish to a stream; `done` is called once there is an outcome, in the event
    loop: what was accepted, or why it was not."""

    stream: str
    posted: Posted
    done: Callable[[Accepted | Exception], object]
    outcome: Accepted | Exception | None = None


class Together:
    """Stores the documents of a service in threads of its own, which begin with the first."""

    def __init__(self, service: Service, known: Known) -> None:
        self._service = service
        self._known = known
        self._queue: SimpleQueue[Single | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, single: Single) -> None:
        """Store a document. Called in the event loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            for _ in range(_THREADS):
                threading.Thread(target=self._run, name="intake", daemon=True).start()
        self._queue.put(single)

    def waiting(self) -> int:
        """How many wait for their turn."""
        return self._queue.qsize()

    def close(self) -> None:
        """End the threads once they have stored what was added."""
        self._queue.put(None)

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        while waiting := self._next():
            self._store(waiting)
            with suppress(RuntimeError):  # the loop is closed: nobody waits for an answer
                loop.call_soon_threadsafe(_tell, waiting)

    def _next(self) -> list[Single]:
        """All that wait, once there are any; none at the end."""
        found = [self._queue.get()]
        with suppress(Empty):
            while len(found) < _MOST:
                found.append(self._queue.get_nowait())
        waiting = [single for single in found if single is not None]
        if len(waiting) < len(found):
            self._queue.put(None)  # for the other thread, and for this one if there is more to do
        return waiting

    def _store(self, waiting: Sequence[Single]) -> None:
        """Store all that can be; each has its outcome then."""
        try:
            core, intake = self._service.core, self._service.intake
            rows = []
            good: list[tuple[Single, list[int | None], int]] = []
            for single in waiting:
                documents = [single.posted]
                try:
                    rows += intake.rows(single.stream, documents)
                except Exception as error:
                    single.outcome = error
                    continue
                keys = keys_of(single.stream, documents)
                good.append((single, keys, self._known.count(core, keys, documents)))
            if not good:
                return
            first = intake.take(rows).first
            for number, (row, (single, keys, known)) in enumerate(
                zip(rows, good, strict=True), first
            ):
                single.outcome = Accepted(1, number, number, (row.id,), known)
                self._known.accepted(keys, number)
        except Exception as error:
            for single in waiting:
                single.outcome = single.outcome or error


def _tell(waiting: Sequence[Single]) -> None:
    for single in waiting:
        assert single.outcome is not None
        single.done(single.outcome)

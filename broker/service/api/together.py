"""Documents that are published one a request, stored at once, or together by two threads.

In: documents, from the event loop. Out: what is to be answered, to the event loop, once they are on
the disk.

What comes while nothing is stored or matched is stored by the event loop itself: to wake a thread
and to be woken takes as long as that. It would hold up all other requests where the disk has been
slow lately, where others write the spool, and where an id may be there already, for which the state
is asked; so such documents are left to the threads.

All that come while others are being stored are stored next, by one transaction and the same syncs,
so the more come, the less each costs. While one thread has the proof of a group synced, which is
the second of two syncs, the other stores the next group. To hand each document to a pool of
threads, and its outcome back, takes longer than all else that is done for it.

Where several clients publish at the same time, more than 500 documents a second, a document waits
for those that are likely to come in the next moment: to wake a thread, to sync and to wake the
event loop takes as long for one as for four. A client by itself, which sends the next document when
it has the response, never waits for others.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from broker.service.api.known import Known, keys_of
from broker.service.core.answers import Accepted, Posted
from broker.service.service import Service

_THREADS = 2
_MOST = 256
"""Documents that are stored at once at most."""
_GATHER = 0.002
"""Seconds for which a document waits for others at most."""
_QUICK = 0.002
"""Seconds that it has taken lately to store documents, up to which the event loop does it."""
_FEW = 4
"""Documents that the event loop stores at once at most."""


@dataclass(slots=True, eq=False)
class Single:
    """A document to publish to a stream; `done` is called once there is an outcome, in the event
    loop: what was accepted, or why it was not."""

    stream: str
    posted: Posted
    done: Callable[[Accepted | Exception], object]
    outcome: Accepted | Exception | None = None
    key: int | None = field(init=False)
    """By which its document is identified, if it has an id."""

    def __post_init__(self) -> None:
        (self.key,) = keys_of(self.stream, [self.posted])


class Together:
    """Stores the documents of a service in threads of its own, which begin with the first."""

    def __init__(self, service: Service, known: Known) -> None:
        self._service = service
        self._known = known
        self._queue: SimpleQueue[list[Single] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gathered: list[Single] = []
        self._timer: asyncio.TimerHandle | None = None
        """When those are stored that were gathered, though fewer came than were expected."""
        self._unanswered = 0
        self._expected = 1.0
        """About how many documents are published at the same time."""
        self._last = 0.0
        self._apart = 1.0
        """When the last one came, and how many seconds are between two, on average."""
        self._takes = 5 * _QUICK
        """Seconds that it takes to store documents, on average; at first that is not known."""

    def add(self, single: Single) -> None:
        """Store a document. Called in the event loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            for _ in range(_THREADS):
                threading.Thread(target=self._run, name="intake", daemon=True).start()
        self._gathered.append(single)
        self._unanswered += 1
        self._expected = max(self._expected, self._unanswered)
        now = time.monotonic()
        self._apart += (min(now - self._last, 1.0) - self._apart) / 8
        self._last = now
        if len(self._gathered) + 0.5 >= self._expected or self._apart > _GATHER:
            self._pass_on()
        elif self._timer is None:
            self._timer = self._loop.call_later(_GATHER, self._pass_on)

    def _pass_on(self) -> None:
        """Have those stored that were gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._gathered:
            gathered = self._gathered
            if self._unanswered == len(gathered) <= _FEW and self._is_quick():
                assert self._loop is not None
                self._loop.call_soon(self._store_here, gathered)
            else:
                self._queue.put(gathered)
            # Soon no document waits any more, where nobody else publishes now.
            self._expected = (self._expected + len(gathered)) / 2
            self._gathered = []

    def _is_quick(self) -> bool:
        """Whether to store documents would hold up nobody else."""
        core = self._service.core
        return self._takes < _QUICK and core.lock.is_free and core.spool.is_ready

    def _store_here(self, waiting: list[Single]) -> None:
        """Store documents in the event loop, unless that might take a while."""
        keys = [single.key for single in waiting if single.key is not None]
        if self._is_quick() and not self._service.core.engine.admission.may_have(keys):
            self._store(waiting)
            self._tell(waiting)
        else:
            self._queue.put(waiting)

    def passed_on(self) -> int:
        """How many are being stored, or wait for it and no longer for others."""
        return self._unanswered - len(self._gathered)

    def close(self) -> None:
        """End the threads once they have stored what was added. Called in the event loop."""
        self._pass_on()
        self._queue.put(None)

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        while waiting := self._next():
            self._store(waiting)
            with suppress(RuntimeError):  # the loop is closed: nobody waits for an answer
                loop.call_soon_threadsafe(self._tell, waiting)

    def _next(self) -> list[Single]:
        """All that wait, once there are any; none at the end."""
        found = self._queue.get()
        if found is None:
            self._queue.put(None)  # for the other thread
            return []
        with suppress(Empty):
            while len(found) < _MOST:
                more = self._queue.get_nowait()
                if more is None:
                    self._queue.put(None)  # for both threads, when there is no more to do
                    break
                found += more
        return found

    def _tell(self, waiting: Sequence[Single]) -> None:
        self._unanswered -= len(waiting)
        for single in waiting:
            assert single.outcome is not None
            single.done(single.outcome)

    def _store(self, waiting: Sequence[Single]) -> None:
        """Store all that can be; each has its outcome then."""
        begun = time.monotonic()
        self._try_to_store(waiting)
        self._takes += (min(time.monotonic() - begun, 1.0) - self._takes) / 8

    def _try_to_store(self, waiting: Sequence[Single]) -> None:
        try:
            core, intake = self._service.core, self._service.intake
            rows = []
            good: list[Single] = []
            for single in waiting:
                try:
                    rows += intake.rows(single.stream, [single.posted])
                except Exception as error:
                    single.outcome = error
                    continue
                good.append(single)
            if not good:
                return
            keys = [single.key for single in good]
            repeated = self._known.repeated(core, keys, [single.posted for single in good])
            accepted = intake.take(rows)
            for number, (single, id, known) in enumerate(
                zip(good, accepted.ids, repeated, strict=True), accepted.first
            ):
                single.outcome = Accepted(1, number, number, (id,), int(known))
            self._known.accepted(keys, accepted.first)
        except Exception as error:
            for single in waiting:
                single.outcome = single.outcome or error

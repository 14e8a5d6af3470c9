"""Clients that wait for matches: any number of them, without a thread for each.

The mailbox calls back, in any thread, with the subscriptions that have new matches. The event loop
then wakes the clients that watch one of them. When the service drains, all clients are woken.

In: notifications of the mailbox. Out: `Watch.news` returns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from starlette.requests import Request

_AGAIN = 5.0
"""Seconds within which a client that has waited is expected to wait again."""


class Mailbox(Protocol):
    """A mailbox that calls back with each change; None for a change that no reader sees."""

    def watch(self, callback: Callable[[Collection[str] | None], None]) -> Callable[[], None]: ...


class Waiter(Protocol):
    """A client that waits: for changes of all that `concerns` returns True for, of everything
    without it."""

    concerns: Callable[[str], bool] | None

    def wake(self) -> None:
        """There was a change, or the service drains."""


class Watch:
    """A client's subscription to changes, which is notified of all changes after its creation."""

    def __init__(self, concerns: Callable[[str], bool] | None = None) -> None:
        self.event = asyncio.Event()
        self.concerns = concerns

    def wake(self) -> None:
        self.event.set()

    async def news(self, timeout: float | None = None, request: Request | None = None) -> bool:
        """Wait for a change; returns whether there was one.

        False after `timeout` seconds, or when the client of `request`, whose body must have been
        read, has closed the connection.
        """
        tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(self.event.wait())]
        if request is not None:
            tasks.append(asyncio.ensure_future(_disconnected(request)))
        try:
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            return self.event.is_set()
        finally:
            self.event.clear()
            for task in tasks:
                task.cancel()


class Waiting:
    """The watches of all clients. What does not say that it may be called from any thread is for
    the event loop's. `steady` gives seconds of a monotonic clock."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._last = float("-inf")
        """When the last client has stopped to wait."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], None] | None = None
        self._watches: dict[str | None, set[Waiter]] = {}
        self._count = 0
        self.draining = False

    def start(self, mailbox: Mailbox) -> None:
        """Begin to receive notifications of the mailbox; in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._stop = mailbox.watch(self._notify)

    def drain(self) -> None:
        """End all waiting, now and later. May be called from any thread, any number of times."""
        self.draining = True
        self._call(self._wake_all)

    def wake(self) -> None:
        """Let all clients look again whether they may go on. May be called from any thread."""
        self._call(self._wake_all)

    def stop(self) -> None:
        """Receive no more notifications."""
        self.drain()
        if self._stop is not None:
            self._stop()

    def __len__(self) -> int:
        """The number of clients that wait."""
        return self._count

    def is_awaited(self) -> bool:
        """Whether a client waits, or did a moment ago. May be called from any thread."""
        return self._count > 0 or self._steady() < self._last + _AGAIN

    @contextmanager
    def watch(
        self,
        subscriptions: Iterable[str] | None,
        concerns: Callable[[str], bool] | None = None,
    ) -> Iterator[Watch]:
        """Watch some subscriptions, or for None all, or those of all that `concerns` returns True
        for."""
        keys: list[str | None] = [None] if subscriptions is None else [*subscriptions]
        watch = Watch(concerns)
        self.add(watch, keys)
        if self.draining:
            watch.wake()
        try:
            yield watch
        finally:
            self.remove(watch, keys)

    def add(self, waiter: Waiter, keys: Iterable[str | None] = (None,)) -> None:
        """Wake a client with each change of these subscriptions, or (None) of all, until it is
        removed."""
        self._count += 1
        for key in keys:
            self._watches.setdefault(key, set()).add(waiter)

    def remove(self, waiter: Waiter, keys: Iterable[str | None] = (None,)) -> None:
        """Wake a client no more that was added with these keys."""
        self._count -= 1
        self._last = self._steady()
        for key in keys:
            self._watches[key].discard(waiter)
            if not self._watches[key]:
                del self._watches[key]

    def _notify(self, subscriptions: Collection[str] | None) -> None:
        if subscriptions:
            self._call(self._wake, frozenset(subscriptions))

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, so there are no clients
                self._loop.call_soon_threadsafe(function, *arguments)

    def _wake(self, subscriptions: frozenset[str]) -> None:
        for key in (None, *subscriptions):
            # One that is woken may no longer wait.
            for waiter in [*self._watches.get(key, ())]:
                if waiter.concerns is None or any(map(waiter.concerns, subscriptions)):
                    waiter.wake()

    def _wake_all(self) -> None:
        for waiter in [each for waiters in self._watches.values() for each in waiters]:
            waiter.wake()


async def _disconnected(request: Request) -> None:
    """Returns when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

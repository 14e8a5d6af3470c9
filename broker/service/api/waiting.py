"""Clients that wait for matches: any number of them, and no thread for any.

The mailbox calls back, from whatever thread, with the subscriptions that have something new. The
event loop then wakes the clients that watch one of them, and no others. When the service drains all
are woken, and see that it does.

In: the mailbox's news. Out: `Watch.news` returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from starlette.requests import Request


class Mailbox(Protocol):
    """What is asked of the mailbox: to call back with each change, None for what no reader sees."""

    def watch(self, callback: Callable[[Collection[str] | None], None]) -> Callable[[], None]: ...


class Watch:
    """One client's view of the changes: it is notified of all that come after it was made."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def news(self, timeout: float | None = None, request: Request | None = None) -> bool:
        """Wait for news; whether there are any.

        False after `timeout` seconds, or when the client of `request`, whose body must have been
        read, has gone away.
        """
        news = asyncio.ensure_future(self.event.wait())
        left = [asyncio.ensure_future(_gone(request))] if request is not None else []
        try:
            await asyncio.wait([news, *left], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            return self.event.is_set()
        finally:
            self.event.clear()
            for task in (news, *left):
                task.cancel()


class Waiting:
    """Who watches what. All but `drain` is for the event loop's thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], None] | None = None
        self._watches: dict[str | None, set[Watch]] = {}
        self._count = 0
        self.draining = False

    def start(self, mailbox: Mailbox) -> None:
        """Begin to listen; in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._stop = mailbox.watch(self._heard)

    def drain(self) -> None:
        """End all waiting, now and later. May be called from any thread, any number of times."""
        self.draining = True
        self._call(self._wake_all)

    def stop(self) -> None:
        """Listen no more."""
        self.drain()
        if self._stop is not None:
            self._stop()

    def __len__(self) -> int:
        """How many watch."""
        return self._count

    @contextmanager
    def watch(self, subscriptions: Iterable[str] | None) -> Iterator[Watch]:
        """Watch some subscriptions, or all for None."""
        keys: list[str | None] = [None] if subscriptions is None else [*subscriptions]
        watch = Watch()
        self._count += 1
        for key in keys:
            self._watches.setdefault(key, set()).add(watch)
        if self.draining:
            watch.event.set()
        try:
            yield watch
        finally:
            self._count -= 1
            for key in keys:
                self._watches[key].discard(watch)
                if not self._watches[key]:
                    del self._watches[key]

    def _heard(self, fresh: Collection[str] | None) -> None:
        if fresh:
            self._call(self._wake, frozenset(fresh))

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody is left
                self._loop.call_soon_threadsafe(function, *arguments)

    def _wake(self, fresh: frozenset[str]) -> None:
        for key in (None, *fresh):
            for watch in self._watches.get(key, ()):
                watch.event.set()

    def _wake_all(self) -> None:
        for watches in self._watches.values():
            for watch in watches:
                watch.event.set()


async def _gone(request: Request) -> None:
    """Returns when the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

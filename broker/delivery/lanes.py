"""Who may send now, so that receivers that are down or slow hold up nobody else.

There are four lanes. Who answered well the last time goes in the quick one, who never was tried in
the one for new channels, who took long in the slow one, and who failed in the failing one, so none
of them waits for places that a worse one holds. In each lane one host has only a few places. Who
waits is served in order of arrival, and a channel waits once at a time.

An attempt that takes longer than its lane allows leaves it while it goes on, and waits for a place
in a worse one like those that begin there. So in all lanes but the failing one places turn over
every few seconds: receivers without number that never answer hold up none that answers slowly.
"""

from __future__ import annotations

import asyncio
from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal
from weakref import WeakValueDictionary

SLOW = 1.0
"""Seconds from which on an attempt is slow."""

_VERY_SLOW = 5.0
"""Seconds from which on a slow attempt is as one that fails."""

Lane = Literal["quick", "new", "slow", "failing"]

_WORSE: dict[Lane, tuple[float, Lane]] = {
    "quick": (SLOW, "slow"),
    "new": (SLOW, "failing"),
    "slow": (_VERY_SLOW, "failing"),
}
"""How long an attempt stays in a lane, in seconds, and the lane to which it goes then."""


class Lanes:
    """Semaphores for `places` requests at a time, a quarter of them in each lane, and `per_host` to
    one host in each lane."""

    def __init__(self, places: int, per_host: int) -> None:
        lanes: tuple[Lane, ...] = ("quick", "new", "slow", "failing")
        self._places = {lane: Semaphore(max(1, places // len(lanes))) for lane in lanes}
        self._per_host = max(1, per_host)
        # Only hosts with a place taken or waited for have an entry.
        self._hosts: WeakValueDictionary[tuple[str, Lane], Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, host: str, lane: Lane) -> AsyncIterator[None]:
        """Wait for a place, and hold it within the block."""
        moving: list[asyncio.Task[None]] = []
        async with AsyncExitStack() as held:
            await self._enter(held, host, lane)
            if lane not in _WORSE:
                yield
                return
            seconds, worse = _WORSE[lane]
            alarm = asyncio.get_running_loop().call_later(
                seconds, lambda: moving.append(asyncio.create_task(self._move(held, host, worse)))
            )
            try:
                yield
            finally:
                alarm.cancel()
                for task in moving:
                    task.cancel()
                    await asyncio.wait([task])

    async def _move(self, held: AsyncExitStack, host: str, lane: Lane) -> None:
        """Go to a lane, and to worse ones as time passes."""
        await held.aclose()
        await self._enter(held, host, lane)
        if lane in _WORSE:
            seconds, worse = _WORSE[lane]
            await asyncio.sleep(seconds)
            await self._move(held, host, worse)

    async def _enter(self, held: AsyncExitStack, host: str, lane: Lane) -> None:
        """Acquire the host's place first, so that an attempt that waits for it holds no other."""
        own = self._hosts.setdefault((host, lane), Semaphore(self._per_host))
        await held.enter_async_context(own)
        await held.enter_async_context(self._places[lane])

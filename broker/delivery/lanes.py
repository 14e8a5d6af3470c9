"""Who may send now, so that receivers that are down or slow hold up nobody else.

There are three lanes. Who answered well the last time goes in the quick one, who never was tried in
the one for new channels, and who failed or took long in the slow one, so none of them waits for
places that a worse one holds. In each lane one host has only a few places. Who waits is served in
order of arrival, and a channel waits once at a time.

An attempt that takes long leaves its lane while it goes on, and waits for a place in the slow one
like those that begin there. So in the other lanes places turn over every second.
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

Lane = Literal["quick", "new", "slow"]


class Lanes:
    """Semaphores for `places` requests at a time, half of them in the slow lane, and `per_host` to
    one host in each lane."""

    def __init__(self, places: int, per_host: int) -> None:
        shares: dict[Lane, int] = {"quick": places // 4, "new": places // 4, "slow": places // 2}
        self._places = {lane: Semaphore(max(1, share)) for lane, share in shares.items()}
        self._per_host = max(1, per_host)
        # Only hosts with a place taken or waited for have an entry.
        self._hosts: WeakValueDictionary[tuple[str, Lane], Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, host: str, lane: Lane) -> AsyncIterator[None]:
        """Wait for a place, and hold it within the block."""
        moving: list[asyncio.Task[None]] = []
        async with AsyncExitStack() as held:
            await self._enter(held, host, lane)
            if lane == "slow":
                yield
                return
            alarm = asyncio.get_running_loop().call_later(
                SLOW, lambda: moving.append(asyncio.create_task(self._move(held, host)))
            )
            try:
                yield
            finally:
                alarm.cancel()
                for task in moving:
                    task.cancel()
                    await asyncio.wait([task])

    async def _move(self, held: AsyncExitStack, host: str) -> None:
        await held.aclose()
        await self._enter(held, host, "slow")

    async def _enter(self, held: AsyncExitStack, host: str, lane: Lane) -> None:
        """Acquire the host's place first, so that an attempt that waits for it holds no other."""
        own = self._hosts.setdefault((host, lane), Semaphore(self._per_host))
        await held.enter_async_context(own)
        await held.enter_async_context(self._places[lane])

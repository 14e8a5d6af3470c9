"""Who may send now, so that receivers that are down or slow hold up nobody else.

There are three lanes. Who answered well the last time goes in the quick one, who never was tried in
the one for new channels, and who failed or took long in the slow one, so none of them waits for places
that a worse one holds. In each lane one host has only a few places. Who waits is served in order of
arrival, and a channel waits once at a time.

An attempt that takes long moves to the slow lane while it goes on, whether there is a place or not:
then the slow ones behind it wait until there is. So in the other lanes places turn over every second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

SLOW = 1.0
"""Seconds from which on an attempt is slow."""

Lane = Literal["quick", "new", "slow"]


class Gate:
    """Lets in so many at a time, in order of arrival."""

    def __init__(self, places: int) -> None:
        self._free = max(1, places)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.users = 0

    async def enter(self) -> None:
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def squeeze_in(self) -> None:
        """Enter whether there is a place or not."""
        self._free -= 1

    def leave(self) -> None:
        self._free += 1
        while self._free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)


class Lanes:
    """`places` requests at a time, half of them slow; `per_host` to one host in each lane."""

    def __init__(self, places: int, per_host: int) -> None:
        self._places: dict[Lane, Gate] = {
            "quick": Gate(places // 4),
            "new": Gate(places // 4),
            "slow": Gate(places // 2),
        }
        self._per_host = per_host
        self._hosts: dict[tuple[str, Lane], Gate] = {}

    @asynccontextmanager
    async def place(self, host: str, lane: Lane) -> AsyncIterator[None]:
        """Wait for a place; the host's own first, so that who waits for that holds no other."""
        held: list[Gate] = []
        own, slow = self._host(host, lane), self._host(host, "slow")
        alarm: asyncio.TimerHandle | None = None

        def move() -> None:
            for gate in held:
                gate.leave()
            held[:] = [slow, self._places["slow"]]
            for gate in held:
                gate.squeeze_in()

        try:
            for gate in (own, self._places[lane]):
                await gate.enter()
                held.append(gate)
            if lane != "slow":
                alarm = asyncio.get_running_loop().call_later(SLOW, move)
            yield
        finally:
            if alarm is not None:
                alarm.cancel()
            for gate in held:
                gate.leave()
            for gate, key in ((own, lane), (slow, "slow")):
                gate.users -= 1
                if not gate.users:
                    self._hosts.pop((host, key), None)

    def _host(self, host: str, lane: Lane) -> Gate:
        gate = self._hosts.get((host, lane))
        if gate is None:
            gate = self._hosts[host, lane] = Gate(self._per_host)
        gate.users += 1
        return gate

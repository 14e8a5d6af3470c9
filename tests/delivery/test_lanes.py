"""Lanes: how many requests there are at a time, in each lane and to one host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.delivery.lanes import Lanes


async def most_at_once(lanes: Lanes, hosts: Sequence[str]) -> int:
    """How many requests there are at most in the lane of those that fail, of one to each of these
    hosts."""
    running: list[str] = []
    counts: list[int] = []

    async def request(host: str) -> None:
        async with lanes.place(host, "failing"):
            running.append(host)
            counts.append(len(running))
            for _ in hosts:
                await asyncio.sleep(0)
            running.remove(host)

    await asyncio.gather(*map(request, hosts))
    assert len(counts) == len(hosts)
    return max(counts)


def test_a_lane_has_a_quarter_of_the_places() -> None:
    hosts = [f"host{n}" for n in range(9)]
    assert asyncio.run(most_at_once(Lanes(places=12, per_host=2), hosts)) == 3


def test_a_host_has_few_of_them() -> None:
    assert asyncio.run(most_at_once(Lanes(places=40, per_host=2), ["host"] * 9)) == 2


def test_a_full_lane_holds_up_no_other() -> None:
    async def run() -> None:
        lanes = Lanes(places=4, per_host=1)
        async with lanes.place("down", "failing"):
            waits = asyncio.ensure_future(most_at_once(lanes, ["other"]))
            async with lanes.place("down", "quick"):
                assert not waits.done()
        assert await waits == 1

    asyncio.run(run())

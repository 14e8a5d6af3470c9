"""The interface of all senders: the outcome of an attempt; and blocking work outside the event
loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker.delivery.lanes import Lane
from broker.delivery.model import Channel, Delivered, Event

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of an attempt: delivered, or the reason why not.

    `wait`: the seconds of Retry-After. `gone`: the receiver wants no more matches (410).
    `hopeless`: another attempt would fail as well. `slow`: it took long. `state` is the channel's
    new state. `count`: only so many of the matches, the first ones, were delivered (None: all).
    """

    reason: str | None = None
    wait: float = 0.0
    gone: bool = False
    hopeless: bool = False
    slow: bool = False
    state: Mapping[str, Any] | None = None
    count: int | None = None


class Sender(Protocol):
    """Sends for all channels of a kind. `gives_up`: whether deliveries that keep failing become
    dead letters; `at_once`: how many attempts of an unordered channel may run at a time."""

    gives_up: bool
    at_once: int

    def batch(self, channel: Channel) -> int:
        """How many matches go in one attempt, at most."""
        ...

    async def send(self, channel: Channel, matches: Sequence[Delivered], lane: Lane) -> Sent: ...

    async def send_event(self, channel: Channel, event: Event) -> Sent: ...

    def due(self, channel: Channel, first: Delivered) -> int:
        """When (µs) a channel's next matches may go, of which this is the first."""
        ...


async def outcome(attempt: Awaitable[Sent]) -> Sent:
    """The outcome of an attempt; any exception becomes a failure of this attempt alone."""
    try:
        return await attempt
    except Exception as error:
        return Sent(f"{type(error).__name__}: {error}")


async def beside(work: Callable[[], T], name: str) -> T:
    """Run blocking work in a thread of its own.

    Not in a pool: a disk or a pipe that hangs would block its threads, and the process could not
    exit.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            return  # the loop has ended meanwhile, so no one waits for the result

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future

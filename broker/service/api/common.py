"""What the routes share: the service, the lanes in which its calls run, what waits, and how a
blocking call is made without holding up the others.

Calls of the service block: on the disk, on the engine. They run in threads, and in lanes, so that
calls which wait for the engine do not keep anybody from publishing, reading or asking for health.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Depends, Request

from broker.service.api.guard import Rules
from broker.service.api.known import Known
from broker.service.api.problems import KINDS, documented
from broker.service.api.schemas import ChannelBody, OwnChannelBody
from broker.service.api.waiting import Waiting
from broker.service.core.answers import ChannelSpec
from broker.service.core.errors import Invalid
from broker.service.service import Service

Result = TypeVar("Result")

NDJSON = "application/x-ndjson"
"""A line of JSON for each."""

PAGE_BYTES = 8_000_000
"""A page ends when it is as large as that."""

KEEP_ALIVE = 15.0
"""Seconds after which a stream with nothing to tell says so."""


def channel_spec(state: Path, body: ChannelBody | OwnChannelBody, name: str | None) -> ChannelSpec:
    """The channel that is asked for. Raises Invalid for a file that must not be written.

    A file in the state directory would be mixed up with, or rotated in place of, the state itself.
    """
    path = body.settings.get("path")
    if body.kind == "file" and isinstance(path, str) and path != "-":
        if not Path(path).is_absolute():
            raise Invalid("give the whole path of the file, from / on", "settings.path")
        try:
            written = Path(path).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise Invalid(f"{path}: no file can be there ({error})", "settings.path") from None
        if written.is_relative_to(state.resolve()):
            raise Invalid(
                f"{path} is in the state directory, where only the service writes", "settings.path"
            )
    return ChannelSpec(body.kind, name, body.settings, body.ordered)


@dataclass(slots=True)
class Lanes:
    """How many calls of each sort run at once; the others wait for their turn."""

    intake: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16))
    reading: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16))
    watching: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    changing: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16))
    trying: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))


@dataclass(frozen=True, slots=True)
class Context:
    """What a route works with."""

    service: Service
    waiting: Waiting
    rules: Rules
    keep_alive: float = KEEP_ALIVE
    lanes: Lanes = field(default_factory=Lanes)
    known: Known = field(default_factory=Known)

    async def publish(self, call: Callable[[], Result]) -> Result:
        """Run what takes documents in."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.intake)

    async def read(self, call: Callable[[], Result]) -> Result:
        """Run what reads matches and channels."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.reading)

    async def watch(self, call: Callable[[], Result]) -> Result:
        """Run what looks after the service itself."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.watching)

    async def change(self, call: Callable[[], Result]) -> Result:
        """Run what may have to wait for the engine."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.changing)

    async def try_out(self, call: Callable[[], Result]) -> Result:
        """Run what waits for somebody elsewhere."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.trying)


def page(
    read: Callable[[int, int], Sequence[Result]],
    after: int,
    limit: int,
    chunk: int,
    measure: Callable[[Result], tuple[int, int]],
) -> Iterator[Result]:
    """What `read(after, count)` gives, at most `limit` and at most `PAGE_BYTES`, or one if that is
    larger. Read `chunk` at a time, so that a page of what is large is not held twice; `measure`
    tells the number and the bytes of each."""
    size = 0
    while limit > 0 and size < PAGE_BYTES:
        found = read(after, min(chunk, limit))
        for each in found:
            yield each
            after, more = measure(each)
            size += more
            if size >= PAGE_BYTES:
                return
        if len(found) < min(chunk, limit):
            return
        limit -= len(found)


async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


ApiContext = Annotated[Context, Depends(_context)]
"""The parameter of a route."""

COMMON = ("malformed", "unauthorized", "misdirected-host", "invalid", "internal", "starting")
"""Problems that any route below /v1 may answer with."""


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The documented problems of a route below /v1, besides those of all."""
    wanted = set(codes) | set(COMMON)
    return documented(*(code for code in KINDS if code in wanted))

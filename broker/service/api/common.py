"""Shared by the routes: the service, the waiting clients, pages, and calls of the service.

Calls of the service block: on the disk, on the engine. They run in threads, in lanes of limited
size, so that calls that wait for the engine do not delay publishing, reading or health checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Depends, Request

from broker.service.api.known import Known
from broker.service.api.match_pages import PAGE_BYTES, SEARCHED, SharedReads
from broker.service.api.problems import KINDS, documented
from broker.service.api.rules import Rules, feed_key
from broker.service.api.schemas import ChannelBody, OwnChannelBody
from broker.service.api.together import Together
from broker.service.api.waiting import Waiting
from broker.service.core.answers import ChannelSpec
from broker.service.core.errors import Invalid
from broker.service.service import Service
from broker.service.web.sessions import Sessions

Result = TypeVar("Result")

NDJSON = "application/x-ndjson"
"""The media type of JSON lines."""

KEEP_ALIVE = 15.0
"""Seconds after which a stream without matches sends a comment."""


def channel_spec(state: Path, body: ChannelBody | OwnChannelBody, name: str | None) -> ChannelSpec:
    """The channel of a request. Raises Invalid for a file that must not be written: one in the
    state directory could overwrite the state itself."""
    path = body.settings.get("path")
    if body.kind == "file" and isinstance(path, str) and path != "-":
        if not Path(path).is_absolute():
            raise Invalid("give the whole path of the file, from / on", "settings.path")
        file = Path(path)
        try:
            target, is_link, is_directory = file.resolve(), file.is_symlink(), file.is_dir()
        except (OSError, RuntimeError) as error:  # RuntimeError: a cycle of links
            raise Invalid(f"{path}: no file can be there ({error})", "settings.path") from None
        if is_link:
            raise Invalid(f"{path} is a link: give the path that it leads to", "settings.path")
        if is_directory:
            raise Invalid(f"{path} is a directory: name a file in it", "settings.path")
        if target.is_relative_to(state.resolve()):
            raise Invalid(
                f"{path} is in the state directory, where only the service writes", "settings.path"
            )
    return ChannelSpec(body.kind, name, body.settings, body.ordered)


@dataclass(slots=True)
class Lanes:
    """How many calls of each kind run at once; the others wait."""

    reading: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16))
    watching: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    changing: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16))
    trying: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    explaining: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))


@dataclass(frozen=True, slots=True)
class PageSizes:
    """How many are read at once: subscriptions where all are requested as lines, and matches that
    are looked at for a filtered page, so that no request takes long."""

    listed: int = 10_000
    searched: int = SEARCHED


SIZES = PageSizes()


@dataclass(frozen=True, slots=True)
class Context:
    """The service and everything else that a route uses."""

    service: Service
    waiting: Waiting
    rules: Rules
    sessions: Sessions
    together: Together
    keep_alive: float = KEEP_ALIVE
    sizes: PageSizes = SIZES
    lanes: Lanes = field(default_factory=Lanes)
    known: Known = field(default_factory=Known)
    shared: SharedReads = field(default_factory=SharedReads)
    publishers: Executor = field(default_factory=lambda: ThreadPoolExecutor(16, "intake"))

    def feed_key(self, subscription: str) -> str:
        """The key in the address of a subscription's feed."""
        return feed_key(self.rules.token + self.service.access.salt(subscription), subscription)

    async def publish(self, call: Callable[[], Result]) -> Result:
        """Run a call that accepts documents, in a lane with less overhead than the others."""
        return await asyncio.get_running_loop().run_in_executor(self.publishers, call)

    async def read(self, call: Callable[[], Result]) -> Result:
        """Run a call that reads matches or channels."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.reading)

    async def watch(self, call: Callable[[], Result]) -> Result:
        """Run a call that reads the figures of the service."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.watching)

    async def change(self, call: Callable[[], Result]) -> Result:
        """Run a call that may wait for the engine."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.changing)

    async def try_out(self, call: Callable[[], Result]) -> Result:
        """Run a call that waits for a receiver elsewhere."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.trying)

    async def explain(self, call: Callable[[], Result]) -> Result:
        """Run a call that reads many stored documents beside the engine."""
        return await anyio.to_thread.run_sync(call, limiter=self.lanes.explaining)


def page(
    read: Callable[[int, int], Sequence[Result]],
    after: int,
    limit: int,
    chunk: int,
    measure: Callable[[Result], tuple[int, int]],
) -> Iterator[Result]:
    """Entries of `read(after, count)`: at most `limit`, and no more once they have `PAGE_BYTES`.
    They are read `chunk` at a time, so that large ones are not all in memory; `measure` returns the
    number and the bytes of an entry."""
    size = 0
    while limit > 0 and size < PAGE_BYTES:
        entries = read(after, min(chunk, limit))
        for entry in entries:
            yield entry
            after, more = measure(entry)
            size += more
            if size >= PAGE_BYTES:
                return
        if len(entries) < min(chunk, limit):
            return
        limit -= len(entries)


async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


ApiContext = Annotated[Context, Depends(_context)]
"""The context as the parameter of a route."""

COMMON = (
    *("malformed", "unauthorized", "forbidden", "misdirected-host"),
    "invalid",
    "internal",
    "starting",
)
"""Problems that any route below /v1 may return."""


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The documented problems of a route below /v1: these and the common ones."""
    own = set(codes) | set(COMMON)
    return documented(*(code for code in KINDS if code in own))

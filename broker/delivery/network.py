"""The network under webhooks: public addresses only, unless private ones are allowed.

The rule is that of the fetcher (`feeds.transport.reachable`). A name is resolved here, addresses
that are not public are refused, and the connection is made to the very address that was checked: a
name that resolves differently the next time gains nothing. Redirects are not followed at all.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpcore

from feeds.transport import BlockedAddress, host_of, reachable, resolve, trusted

_ADVICE = "; delivery.allow_private allows them"
_RESOLVERS = 32
KEPT = 60.0
"""Seconds for which idle connections stay open."""


def reachable_by_name(url: str, allow_private: bool) -> None:
    """Raises BlockedAddress for an address that is refused whatever names resolve to: its host is
    an IP address, in any way to write one, or this machine."""
    host = host_of(url)
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        name = "127.0.0.1"
    if not name:
        return
    with suppress(OSError, UnicodeError):
        (found, *_) = socket.getaddrinfo(name, 0, flags=socket.AI_NUMERICHOST)
        reachable(host, [str(found[4][0])], allow_private, _ADVICE)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses that may be reached. Raises BlockedAddress for others."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._tcp = httpcore.AnyIOBackend()
        # A name whose name server does not answer blocks a thread for seconds.
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolve")

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._resolvers, resolve, host, port)
        failure: Exception | None = None
        for address in reachable(host, found, self._allow_private, _ADVICE):
            try:
                return await self._tcp.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise BlockedAddress("Unix sockets are not allowed")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def close(self) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)


class Connections:
    """A pool of open connections for each host; one pool for all hosts would scan all connections
    for every request.

    At most `per_host` idle connections are kept; pools of unused hosts are dropped. `clock` gives
    seconds of a monotonic clock.
    """

    def __init__(
        self, allow_private: bool, per_host: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._backend = GuardedBackend(allow_private)
        self._per_host = per_host
        self._clock = clock
        self._pools: OrderedDict[tuple[bytes, bytes, int | None], _Pool] = OrderedDict()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: httpcore.URL,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        timeout: float,
    ) -> AsyncIterator[httpcore.Response]:
        """The response to a request, its body not read yet. Raises httpcore's errors and
        BlockedAddress. `timeout` (seconds) applies to each network operation."""
        await self._close_unused()
        key = url.scheme, url.host, url.port
        # Only where they are needed: to read the certificates takes half as long as a start.
        secure = url.scheme == b"https" and key not in self._pools
        context = await asyncio.to_thread(trusted) if secure else None
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(
                ssl_context=context,
                max_connections=None,  # the lanes bound them
                max_keepalive_connections=self._per_host,
                keepalive_expiry=KEPT,
                network_backend=self._backend,
            )
        self._pools.move_to_end(key)
        pool.users += 1
        pool.used = self._clock()
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), timeout)
        try:
            async with pool.stream(
                method, url, headers=headers, content=body, extensions={"timeout": timeouts}
            ) as response:
                yield response
        finally:
            pool.users -= 1

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()
        self._backend.close()

    async def _close_unused(self) -> None:
        while self._pools:
            key, pool = next(iter(self._pools.items()))
            if pool.users or pool.used + KEPT > self._clock():
                return
            del self._pools[key]
            await pool.aclose()


class _Pool(httpcore.AsyncConnectionPool):
    users = 0
    used = 0.0

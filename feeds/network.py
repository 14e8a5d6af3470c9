"""The network under the fetcher: which addresses it may reach, and for how long.

In: requests of httpx. Out: connections to public addresses only (unless told otherwise), each of
whose operations ends by the deadline of the fetch that asked for it. The check is made on the
address that is connected to, so a name that resolves differently the next time gains nothing.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx


class BlockedAddress(Exception):
    """The host has no address that may be reached."""


class OutOfTime(Exception):
    """The whole fetch took too long."""


class Bounds(threading.local):
    """What the fetch that runs in this thread may do: until when, and whether to private addresses.

    A fetch that once reached a public address may not go on to a private one: whoever answers
    there could otherwise redirect us into the network that we are in.
    """

    end: float | None = None
    private: bool = False

    @contextmanager
    def within(self, seconds: float, allow_private: bool) -> Iterator[None]:
        self.end = time.monotonic() + seconds
        self.private = allow_private
        try:
            yield
        finally:
            self.end = None
            self.private = False

    def reached(self, response: httpx.Response) -> None:
        """Take note of who answered; raises BlockedAddress if that is nobody we may talk to."""
        peer = response.extensions["network_stream"].get_extra_info("server_addr")
        if is_public(peer[0]):
            self.private = False
        elif not self.private:
            raise BlockedAddress(f"{peer[0]} is a private address, not allowed here")

    def limit(self, timeout: float | None) -> float | None:
        """`timeout`, or what is left if that is less. Raises OutOfTime if nothing is left."""
        if self.end is None:
            return timeout
        left = self.end - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left if timeout is None else min(timeout, left)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """An operation's timeout, when the whole time is up, is the whole fetch's."""
        try:
            yield
        except httpcore.TimeoutException:
            self.limit(None)
            raise


class Transport(httpx.BaseTransport):
    """An httpx transport over a pool of connections of our own making."""

    def __init__(self, bounds: Bounds, connections: int) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=15.0,
            network_backend=_Backend(bounds),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        response = self._pool.handle_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        return self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Backend(httpcore.NetworkBackend):
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._tcp = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception | None = None
        for address in self._addresses(host, port):
            try:
                with self._bounds.watched():
                    stream = self._tcp.connect_tcp(
                        address, port, self._bounds.limit(timeout), local_address, socket_options
                    )
                return _Stream(stream, self._bounds)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise BlockedAddress("sockets in the file system are not reached")

    def sleep(self, seconds: float) -> None:
        self._tcp.sleep(seconds)

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"{host}: {error.strerror or error}") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if self._bounds.private:
            return addresses
        public = [address for address in addresses if is_public(address)]
        if addresses and not public:
            raise BlockedAddress(f"{host} is a private address ({addresses[0]}), not allowed here")
        return public


def is_public(text: str) -> bool:
    """Whether an IP address belongs to the public Internet."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            address = inner
    return address.is_global and not address.is_multicast


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes end by the deadline of the thread that makes them."""

    def __init__(self, stream: httpcore.NetworkStream, bounds: Bounds) -> None:
        self._stream = stream
        self._bounds = bounds

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._bounds.watched():
            return self._stream.read(max_bytes, self._bounds.limit(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with self._bounds.watched():
            self._stream.write(buffer, self._bounds.limit(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        with self._bounds.watched():
            stream = self._stream.start_tls(
                ssl_context, server_hostname, self._bounds.limit(timeout)
            )
        return _Stream(stream, self._bounds)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

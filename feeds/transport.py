"""The network under the fetcher: which addresses it may reach, and for how long.

In: requests of httpx. Out: connections to public addresses only (unless private ones are allowed);
each of their operations ends by the deadline of the fetch it belongs to. The check is made on the
address that is connected to, so a name that resolves differently the next time gains nothing.
Behind a proxy, which resolves names itself, the check is made on the address that the name has on
this machine.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

import httpcore
import httpx

from feeds.host_pool import HostPool

LOOK_UP = 5.0
"""Seconds allowed for resolving the hosts of feeds in `private_hosts`."""

_PEER = "address_connected_to"


class BlockedAddress(Exception):
    """The host has no address that may be reached."""


class OutOfTime(Exception):
    """The whole fetch took too long."""


@cache
def trusted() -> ssl.SSLContext:
    """The certificates of this machine, read once: there are many, and that takes as long as all
    the rest of a small service's start."""
    return httpx.create_ssl_context()


class Bounds(threading.local):
    """The bounds of the fetch that runs in this thread: its deadline, and whether it may connect to
    private addresses.

    A fetch that has connected to a public address may not go on to a private one: the public server
    could otherwise redirect us into our own network.
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

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block that does not count. Raises OutOfTime before it if no time is left."""
        left = self.limit(None)
        try:
            yield
        finally:
            self.end = None if left is None else time.monotonic() + left

    def reached(self, address: str) -> None:
        """Record an address that was connected to."""
        self.private = self.private and not is_public(address)

    def limit(self, timeout: float | None) -> float | None:
        """`timeout`, or the time left until the deadline if that is less (seconds). Raises
        OutOfTime if none is left."""
        if self.end is None:
            return timeout
        left = self.end - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left if timeout is None else min(timeout, left)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raises OutOfTime instead of an operation's timeout if the fetch's deadline has passed."""
        try:
            yield
        except httpcore.TimeoutException:
            self.limit(None)
            raise


class Transport(httpx.BaseTransport):
    """An httpx transport over pools of connections of our own making.

    Connections that may lead to private addresses are kept apart: one that a user's own feed holds
    open must not serve a request that came from elsewhere. `proxies` maps "http" and "https" to a
    proxy's URL, which may hold a login, and "no" to the hosts that are reached directly, as
    `urllib.request.getproxies_environment` gives them. Raises ValueError for any other proxy.
    """

    def __init__(
        self, bounds: Bounds, connections: int, proxies: Mapping[str, str] | None = None
    ) -> None:
        self._bounds = bounds
        self._proxies = dict(proxies or {})
        self._settings: dict[str, Any] = {
            "max_connections": connections,
            "max_keepalive_connections": connections,
            "keepalive_expiry": 15.0,
        }
        anywhere = _Backend(bounds, allow_private=True)
        self._public = _Pool(
            **self._settings, network_backend=_Backend(bounds, allow_private=False)
        )
        self._private = _Pool(**self._settings, network_backend=anywhere)
        self._proxied = {
            scheme: self._proxy(self._proxies[scheme], anywhere)
            for scheme in ("http", "https")
            if self._proxies.get(scheme)
        }

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        host = request.url.host
        proxy = None if self._direct(host) else self._proxied.get(request.url.scheme)
        address = None if proxy is None else self._address_here(host, request.url.port or 0)
        pool = proxy or (self._private if self._bounds.private else self._public)
        response = pool.handle_request(
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
        if proxy is None:
            address = response.extensions["network_stream"].get_extra_info(_PEER)
        if address is not None:
            self._bounds.reached(address)
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )

    def close(self) -> None:
        for pool in (self._public, self._private, *self._proxied.values()):
            pool.close()

    def _proxy(self, url: str, backend: _Backend) -> httpcore.HTTPProxy:
        try:
            proxy = httpx.Proxy(url)
        except (ValueError, httpx.InvalidURL):
            raise ValueError("the proxy's address is not a URL") from None
        if proxy.url.scheme not in ("http", "https") or not proxy.url.host:
            raise ValueError(f"a '{proxy.url.scheme}:' proxy without a host, or of an unknown kind")
        return _ProxyPool(str(proxy.url), proxy.raw_auth, **self._settings, network_backend=backend)

    def _direct(self, host: str) -> bool:
        """Whether a host is reached without a proxy: it, or a domain that it is in, is listed."""
        listed = (
            name.strip().lower().lstrip(".") for name in self._proxies.get("no", "").split(",")
        )
        return any(
            name and (name == "*" or f".{host.lower()}".endswith(f".{name}")) for name in listed
        )

    def _address_here(self, host: str, port: int) -> str | None:
        """The address that a name has on this machine, None if it has none, as is usual behind a
        proxy."""
        try:
            addresses = resolve(host, port)
        except httpcore.ConnectError:
            self._bounds.private = False
            return None
        found = reachable(host, addresses, self._bounds.private)
        return found[0] if found else None


class _Pool(httpcore.ConnectionPool):
    """Reads the certificates once there is a connection that needs them."""

    def create_connection(self, origin: httpcore.Origin) -> httpcore.ConnectionInterface:
        if origin.scheme == b"https":
            self._ssl_context = trusted()
        return super().create_connection(origin)


class _ProxyPool(_Pool, httpcore.HTTPProxy):
    """Connections through a proxy."""


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        return self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Backend(httpcore.NetworkBackend):
    def __init__(self, bounds: Bounds, *, allow_private: bool) -> None:
        self._bounds = bounds
        self._allow_private = allow_private
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
        for address in reachable(host, resolve(host, port), self._allow_private):
            try:
                with self._bounds.watched():
                    stream = self._tcp.connect_tcp(
                        address, port, self._bounds.limit(timeout), local_address, socket_options
                    )
                return _Stream(stream, self._bounds, address)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise BlockedAddress("Unix sockets are not allowed")

    def sleep(self, seconds: float) -> None:
        self._tcp.sleep(seconds)


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, each once. Raises httpcore.ConnectError where it has none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise httpcore.ConnectError(f"{host}: {reason or error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def reachable(
    host: str, addresses: list[str], allow_private: bool, advice: str = ", not allowed here"
) -> list[str]:
    """Those addresses of a host that may be connected to. Raises BlockedAddress, which ends with
    the advice, where it has private ones alone. It does not say which: the reader of the error may
    be anybody who may name a host, and would learn the names of this network."""
    if allow_private:
        return addresses
    public = [address for address in addresses if is_public(address)]
    if addresses and not public:
        raise BlockedAddress(f"{host} is a private address{advice}")
    return public


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """Whether an IP address belongs to the public Internet, also where it carries one of IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            address = inner
    return address.is_global and not address.is_multicast


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes end by the deadline of the thread that makes them.

    It knows the peer's address even after the peer has closed it.
    """

    def __init__(self, stream: httpcore.NetworkStream, bounds: Bounds, address: str) -> None:
        self._stream = stream
        self._bounds = bounds
        self._address = address

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
        return _Stream(stream, self._bounds, self._address)

    def get_extra_info(self, info: str) -> Any:
        return self._address if info == _PEER else self._stream.get_extra_info(info)


def host_of(url: str) -> str:
    """The host of a web address, "" where it has none."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme.lower() in ("http", "https") else ""
    except ValueError:
        return ""


def private_hosts(
    hosts: Iterable[str],
    seconds: float = LOOK_UP,
    on_host: Callable[[str], object] = lambda _: None,
) -> set[str]:
    """Those hosts that have private addresses alone.

    A name that cannot be resolved within some seconds is not among them; each fetch checks again.
    `on_host` is called with each host that has been looked up.
    """
    waiting = set(hosts)
    found: set[str] = set()
    pool: HostPool[tuple[str, bool]] = HostPool(16, "look-up")
    for host in waiting:
        pool.submit(host, partial(_is_private, host))
    end = time.monotonic() + seconds
    while waiting and (answer := pool.next(max(0.0, end - time.monotonic()))) is not None:
        host, private = answer
        waiting.discard(host)
        on_host(host)
        if private:
            found.add(host)
    pool.close()
    return found


def _is_private(host: str) -> tuple[str, bool]:
    try:
        addresses = resolve(host, 80)
        return host, bool(addresses) and not any(map(is_public, addresses))
    except (httpcore.ConnectError, ValueError):
        return host, False

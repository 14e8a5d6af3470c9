"""The fetcher: bounded HTTP requests that respect servers' limits.

In: a feed's address and the validators of its last fetch. Out: a `Fetched`, always; errors are data
and say which stage failed. Requests are conditional; each host gets one connection at a time, and
there are a few in all; Retry-After is obeyed; time, size, redirects and the addresses that may be
reached are limited.
"""

from __future__ import annotations

import http.cookiejar
import importlib.metadata
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from urllib.parse import urljoin, urlsplit

import httpcore
import httpx

from feeds.fetch_model import Fetched as Fetched
from feeds.fetch_model import Outcome
from feeds.fetch_model import Request as Request
from feeds.host_pool import HostPool
from feeds.item import one_line
from feeds.local_files import local_path as local_path
from feeds.local_files import read_local
from feeds.login import NoLogin, split_login
from feeds.schedule import retry_after
from feeds.transport import BlockedAddress, Bounds, OutOfTime, Transport
from feeds.unpack import ACCEPTED, BadEncoding, TooLarge, unpack

MAX_BYTES = 5 * 1024 * 1024
MAX_REDIRECTS = 5
_OTHERS = 60.0
"""Seconds for which a fetch waits for those of other feeds of its host, and holds a connection."""
HOST_PAUSE = 900.0
"""Seconds: a Retry-After delays the other feeds of the host by no more than this. The feed that got
it waits for all of the time."""
_PERMANENT = frozenset((301, 308))
_REDIRECTS = _PERMANENT | {302, 303, 307}
_ACCEPT = (
    "application/atom+xml, application/rss+xml, application/rdf+xml, application/feed+json, "
    "application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"
)
_LISTS = frozenset(("link", "cache-control"))
_FORM = {b"Content-Type": b"application/x-www-form-urlencoded"}


def user_agent() -> str:
    """How the fetcher names itself to servers."""
    try:
        version = importlib.metadata.version("xml-stream-broker")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return f"xml-stream-broker/{version} (feed reader)"


class _Failed(Exception):
    """A fetch that ends without a usable answer; the message is the reason."""


class _Busy(Exception):
    """The host is not asked now; for a reason, and for so many `seconds` more."""

    def __init__(self, reason: str, seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Fetcher(AbstractContextManager["Fetcher"]):
    """Fetches feeds; one may be shared by threads. Close it, or use it in a `with`.

    `allow_private` lets it reach loopback and private addresses, otherwise refused whatever a name
    resolves to: for demonstrations, tests and feeds that the user typed in (`broker run --feeds`),
    never for addresses that came from elsewhere. A public server's redirect to a private address is
    refused in any case. `timeout` is for one network operation, `max_seconds` for a whole
    fetch with its redirects. `connections` is how many feeds are fetched at once. `proxies` are as
    in `network.Transport`, none by default.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        max_bytes: int = MAX_BYTES,
        timeout: float = 10.0,
        max_seconds: float = 30.0,
        connections: int = 16,
        proxies: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._max_seconds = max_seconds
        self._now = now
        self._hosts: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._busy_until: dict[str, float] = {}
        self._hosts_lock = threading.Lock()
        self._bounds = Bounds()
        self._allow_private = allow_private
        self._pool: HostPool[tuple[object, Fetched]] = HostPool(connections, "fetch")
        no_cookies = http.cookiejar.DefaultCookiePolicy(allowed_domains=())
        self._client = httpx.Client(
            transport=Transport(self._bounds, connections, proxies),
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
            cookies=http.cookiejar.CookieJar(no_cookies),
            headers={
                "User-Agent": user_agent(),
                "Accept": _ACCEPT,
                "Accept-Encoding": ACCEPTED,
            },
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()
        self._client.close()

    def start(self, request: Request, note: object) -> None:
        """Queue a fetch, which starts as soon as its host and a connection are free; `next` returns
        the result with this `note`."""
        self._pool.submit(_host(request.url), lambda: (note, self.fetch(request)))

    def next(self, timeout: float | None = None) -> tuple[object, Fetched] | None:
        """The next result with the note of its request; None if none comes in `timeout` seconds."""
        return self._pool.next(timeout)

    def fetch(self, request: Request) -> Fetched:
        """Fetch one feed. A path or a `file:` URL reads the local file, as the user asked."""
        path = local_path(request.url)
        if path is not None:
            return read_local(request, path, self._max_bytes)
        with self._bounds.within(self._max_seconds, self._allow_private and request.private):
            return self._follow(request)

    def post(self, url: str, form: bytes, *, allow_private: bool) -> Fetched:
        """Post a form to a hub; "ok" for any status of success, with the beginning of the response.

        A private address is reached only if the fetcher and the caller both allow it.
        """
        with self._bounds.within(self._max_seconds, self._allow_private and allow_private):
            return self._follow(Request(url), form)

    # -- HTTP ----------------------------------------------------------------------------------

    def _follow(self, request: Request, form: bytes | None = None) -> Fetched:
        url, moved_to, permanent = request.url, None, True
        try:
            for _ in range(MAX_REDIRECTS + 1):
                _check_address(url, redirected=url != request.url)
                status, headers, body = self._exchange(url, request, form)
                followed = _REDIRECTS if form is None else {307, 308}
                if status not in followed or "location" not in headers:
                    result = self._result(request, url, status, headers, body)
                    if permanent or result.outcome != "gone":
                        return result if moved_to is None else _moved(result, moved_to)
                    raise _Failed("redirected to an address that is gone (410)")
                permanent = permanent and status in _PERMANENT
                # A login in a redirect is not one that the user gave us.
                url = split_login(urljoin(url, headers["location"]))[0]
                if permanent:
                    moved_to = url
            raise _Failed(f"more than {MAX_REDIRECTS} redirects")
        except _Busy as busy:
            return Fetched(
                request.url,
                "busy",
                url,
                retry_after=busy.seconds,
                problem=f"fetch: {busy}",
            )
        except Exception as error:  # whatever a server does must not end the fetching of others
            reason = self._reason(error)
        return Fetched(request.url, "failed", url, problem=f"fetch: {reason[:300]}")

    def _reason(self, error: Exception) -> str:
        match error:
            case _Failed() | BlockedAddress() | NoLogin():
                return str(error)
            case TooLarge():
                return f"response body too large: {error.size} bytes"
            case BadEncoding():
                return f"response body: {error}"
            case OutOfTime():
                return f"took more than {self._max_seconds:g} s"
            case httpx.TimeoutException() | httpcore.TimeoutException():
                return f"no answer within {self._timeout:g} s"
            case httpx.ConnectError() | httpcore.ConnectError():
                return f"no connection: {one_line(str(error))}".rstrip(": ")
            case httpx.RemoteProtocolError() | httpcore.RemoteProtocolError():
                return f"no whole answer in HTTP: {one_line(str(error))}".rstrip(": ")
            case httpx.InvalidURL() | ValueError():
                return f"not a valid URL: {one_line(str(error))}"
            case _:
                return f"{type(error).__name__}: {one_line(str(error))}".rstrip(": ")

    def _exchange(
        self, url: str, request: Request, form: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        fields = dict(_FORM) if form is not None else _conditions(request)
        if request.login is not None and request.login.is_for(url):
            fields[b"Authorization"] = request.login.header()
        method = "GET" if form is None else "POST"
        with (
            self._alone(url),
            self._client.stream(method, url, headers=fields, content=form) as response,
        ):
            headers = _headers(response)
            status = response.status_code
            if form is not None and status < 300:
                return 200, headers, b""
            if status != 200:
                return status, headers, b""
            body = unpack(response.iter_raw(), headers.get("content-encoding", ""), self._max_bytes)
            return status, headers, body

    @contextmanager
    def _alone(self, url: str) -> Iterator[None]:
        """Hold the host's lock: one request at a time. Raises _Busy while a Retry-After holds, or
        where others hold it for too long."""
        host = _host(url)
        with self._hosts_lock:
            lock = self._hosts[host]
        with self._bounds.paused():  # what others take is not the time of this one
            if not lock.acquire(timeout=_OTHERS):
                raise _Busy("other fetches of its host take too long")
        try:
            remaining = self._busy_until.get(host, 0.0) - self._now()
            if 0 < remaining < 2 * HOST_PAUSE:  # more means that the clock was wrong before
                raise _Busy("the server has asked for time", remaining)
            self._busy_until.pop(host, None)
            yield
        finally:
            lock.release()

    def _result(
        self, request: Request, url: str, status: int, headers: dict[str, str], body: bytes
    ) -> Fetched:
        outcome: Outcome = "failed"
        problem: str | None = f"fetch: HTTP status {status}"
        wait = None
        if status == 200:
            outcome, problem = "ok", None
        elif status == 304:
            outcome, problem = "not modified", None
        elif status == 410:
            outcome, problem = "gone", "fetch: the feed is gone (410)"
        elif status == 404:
            outcome, problem = "missing", "fetch: not found (404)"
        elif status in (401, 407):
            problem = f"fetch: a login is needed, or not accepted ({status})"
        elif status in (429, 503):
            outcome, problem = "busy", f"fetch: the server is busy ({status})"
            wait = retry_after(headers.get("retry-after", ""), self._now())
            if wait:
                self._busy_until[_host(url)] = self._now() + min(wait, HOST_PAUSE)
        return Fetched(
            request.url,
            outcome,
            url,
            status,
            body,
            headers,
            retry_after=wait,
            problem=problem,
            private=self._bounds.private,
        )


def _moved(result: Fetched, address: str) -> Fetched:
    """The result with `moved_to`, if the permanent redirects led to the feed."""
    succeeded = result.outcome in ("ok", "not modified")
    return replace(result, moved_to=address) if succeeded else result


def _conditions(request: Request) -> dict[bytes, bytes]:
    """The validators as header fields, without those that a header cannot hold."""
    validators = {b"If-None-Match": request.etag, b"If-Modified-Since": request.last_modified}
    return {
        name: value.encode("latin-1", "replace")
        for name, value in validators.items()
        if value and all(character >= " " for character in value)
    }


def _headers(response: httpx.Response) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in response.headers.raw:
        # As Latin-1 all bytes survive, so that validators go back as they came.
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers and name in _LISTS else value
    if "location" in headers:
        headers["location"] = response.headers["location"]
    return headers


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def _check_address(url: str, *, redirected: bool) -> None:
    scheme = urlsplit(url).scheme.lower()
    if scheme not in ("http", "https"):
        verb = "redirected to" if redirected else "cannot fetch"
        raise _Failed(f"{verb} a '{scheme}:' address, only http and https are fetched")
    if not urlsplit(url).hostname:
        raise _Failed(f"not a valid URL: no host in '{one_line(url)}'")

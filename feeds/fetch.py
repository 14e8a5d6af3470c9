"""The fetcher: polite and bounded HTTP, and local files.

In: a feed's address and what is known of its last fetch. Out: a `Fetched`, always; errors are data
and say which stage failed. Requests are conditional; one connection at a time goes to a host and a
few in all; time, size, redirects and the addresses that may be reached are limited.
"""

from __future__ import annotations

import importlib.metadata
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urljoin, urlsplit

import httpcore
import httpx

from feeds.network import BlockedAddress, Bounds, OutOfTime, Transport
from feeds.unpack import BadEncoding, TooLarge, gunzip, unpack

Outcome = Literal["ok", "not modified", "gone", "missing", "busy", "failed"]

MAX_BYTES = 5 * 1024 * 1024
MAX_REDIRECTS = 5
_PERMANENT = frozenset((301, 308))
_REDIRECTS = _PERMANENT | {302, 303, 307}
_ACCEPT = "application/atom+xml, application/rss+xml, application/rdf+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"


def user_agent() -> str:
    """How the fetcher names itself to servers."""
    try:
        version = importlib.metadata.version("xml-stream-broker")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return f"xml-stream-broker/{version} (feed reader)"


@dataclass(frozen=True, slots=True)
class Request:
    """One feed to fetch: its address (URL or path), and the validators of its last answer, verbatim."""

    url: str
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of a fetch.

    `outcome` is "ok" (with a `body`), "not modified", "gone" (410: do not ask again), "missing"
    (404), "busy" (429 or 503; ask again after `retry_after` seconds where the server said so), or
    "failed". `moved_to` is the address to ask from now on, after permanent redirects. `problem`
    is there unless all went well.
    """

    url: str
    outcome: Outcome
    final_url: str
    status: int | None = None
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    moved_to: str | None = None
    retry_after: float | None = None
    problem: str | None = None

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")

    @property
    def last_modified(self) -> str | None:
        return self.headers.get("last-modified")


class _Failed(Exception):
    """A fetch that ends without a usable answer; the message is the reason."""


class Fetcher(AbstractContextManager["Fetcher"]):
    """Fetches feeds; one may be shared by threads. Close it, or use it in a `with`.

    `allow_private` lets it reach loopback and private addresses, otherwise refused whatever a name
    resolves to: for demonstrations, tests and feeds that the user typed in (`broker run --feeds`),
    never for addresses that came from elsewhere. A public server's redirect to a private address is
    refused in any case. `timeout` is for one network operation, `max_seconds` for a whole
    fetch with its redirects. Proxies named in the environment are not used.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        max_bytes: int = MAX_BYTES,
        timeout: float = 10.0,
        max_seconds: float = 30.0,
        connections: int = 4,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._max_seconds = max_seconds
        self._connections = connections
        self._now = now
        self._hosts: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._hosts_lock = threading.Lock()
        self._bounds = Bounds()
        self._allow_private = allow_private
        self._client = httpx.Client(
            transport=Transport(self._bounds, connections),
            timeout=timeout,
            follow_redirects=False,
            headers={
                "User-Agent": user_agent(),
                "Accept": _ACCEPT,
                "Accept-Encoding": "gzip, deflate",
            },
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def fetch_all(self, requests: Sequence[Request]) -> list[Fetched]:
        """Fetch several feeds at once, hosts in parallel; the answers are in the order asked."""
        by_host: defaultdict[str, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            by_host[_host(request.url)].append(index)
        answers: dict[int, Fetched] = {}

        def one_host(indices: Iterable[int]) -> None:
            for index in indices:
                answers[index] = self.fetch(requests[index])

        with ThreadPoolExecutor(self._connections, "fetch") as pool:
            list(pool.map(one_host, by_host.values()))
        return [answers[index] for index in range(len(requests))]

    def fetch(self, request: Request) -> Fetched:
        """Fetch one feed. A path or a `file:` URL reads the local file, as the user asked."""
        path = local_path(request.url)
        if path is not None:
            return self._read(request, path)
        with self._bounds.within(self._max_seconds, self._allow_private):
            return self._follow(request)

    # -- HTTP ----------------------------------------------------------------------------------

    def _follow(self, request: Request) -> Fetched:
        url, moved_to, permanent = request.url, None, True
        try:
            for _ in range(MAX_REDIRECTS + 1):
                _check_address(url, redirected=url != request.url)
                status, headers, body = self._get(url, request)
                if status not in _REDIRECTS or "location" not in headers:
                    return self._answer(request, url, status, headers, body, moved_to)
                permanent = permanent and status in _PERMANENT
                url = urljoin(url, headers["location"])
                if permanent:
                    moved_to = url
            raise _Failed(f"more than {MAX_REDIRECTS} redirects")
        except _Failed as error:
            reason = str(error)
        except TooLarge as error:
            reason = f"response body too large: {error.size} bytes"
        except BadEncoding as error:
            reason = f"response body: {error}"
        except OutOfTime:
            reason = f"took more than {self._max_seconds:g} s"
        except BlockedAddress as error:
            reason = str(error)
        except (httpx.TimeoutException, httpcore.TimeoutException):
            reason = f"no answer within {self._timeout:g} s"
        except (httpx.HTTPError, httpcore.NetworkError, httpcore.ProtocolError) as error:
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
        except (httpx.InvalidURL, ValueError, UnicodeError) as error:
            reason = f"not a valid URL: {error}"
        return Fetched(request.url, "failed", url, problem=f"fetch: {reason}")

    def _get(self, url: str, request: Request) -> tuple[int, dict[str, str], bytes]:
        conditions: dict[bytes, bytes] = {}
        if request.etag:
            conditions[b"If-None-Match"] = request.etag.encode("latin-1", "replace")
        if request.last_modified:
            conditions[b"If-Modified-Since"] = request.last_modified.encode("latin-1", "replace")
        with (
            self._host_lock(url),
            self._client.stream("GET", url, headers=conditions) as response,
        ):
            self._bounds.reached(response)
            # As Latin-1 all bytes survive, so that validators go back as they came.
            headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers.raw
            }
            if "location" in headers:
                headers["location"] = response.headers["location"]
            if response.status_code != 200:
                return response.status_code, headers, b""
            body = unpack(response.iter_raw(), headers.get("content-encoding", ""), self._max_bytes)
            return response.status_code, headers, body

    def _answer(
        self,
        request: Request,
        url: str,
        status: int,
        headers: dict[str, str],
        body: bytes,
        moved_to: str | None,
    ) -> Fetched:
        outcome: Outcome = "failed"
        problem: str | None = f"fetch: HTTP status {status}"
        retry_after = None
        if status == 200:
            outcome, problem = "ok", None
        elif status == 304:
            outcome, problem = "not modified", None
        elif status == 410:
            outcome, problem = "gone", "fetch: the feed is gone (410)"
        elif status == 404:
            outcome, problem = "missing", "fetch: not found (404)"
        elif status in (429, 503):
            outcome = "busy"
            retry_after = self._retry_after(headers.get("retry-after", ""))
            problem = f"fetch: the server is busy ({status})"
        # A redirect counts as a move once it led to the feed.
        address = moved_to if outcome in ("ok", "not modified") else None
        return Fetched(
            request.url, outcome, url, status, body, headers, address, retry_after, problem
        )

    def _retry_after(self, value: str) -> float | None:
        """Seconds to wait, from a number of seconds or a date (RFC 9110, 10.2.3)."""
        value = value.strip()
        if value.isascii() and value.isdigit():
            return float(value[:9])
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - self._now())

    def _host_lock(self, url: str) -> threading.Lock:
        with self._hosts_lock:
            return self._hosts[_host(url)]

    # -- local files ---------------------------------------------------------------------------

    def _read(self, request: Request, path: Path) -> Fetched:
        try:
            if not path.is_file():
                reason = "is a directory" if path.is_dir() else "no such file"
                return Fetched(
                    request.url, "missing", request.url, problem=f"read: {path}: {reason}"
                )
            stat = path.stat()
            etag = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'
            if etag == request.etag:
                return Fetched(request.url, "not modified", request.url, headers={"etag": etag})
            with path.open("rb") as file:
                body = gunzip(file.read(self._max_bytes + 1), self._max_bytes)
        except TooLarge as error:
            reason = f"file too large: more than {error.size - 1} bytes"
        except BadEncoding as error:
            reason = str(error)
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            return Fetched(request.url, "ok", request.url, body=body, headers={"etag": etag})
        return Fetched(request.url, "failed", request.url, problem=f"read: {path}: {reason}")


def local_path(address: str) -> Path | None:
    """The local file that an address names: a `file:` URL or a plain path; None for other URLs."""
    if address.lower().startswith("file:"):
        return Path(unquote(urlsplit(address).path))
    return None if "://" in address else Path(address)


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
        raise _Failed(f"not a valid URL: no host in '{url}'")

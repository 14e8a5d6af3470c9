"""HTTP on a connection: uvicorn's fast protocol, with bounds for what a client may hold.

In: bytes of a connection. Out: requests to the application. What is no HTTP, and a head without an
end, is a problem and the end of the connection: the parser itself would hold all of the head, with
which a client without the token could fill the memory. So is a head or a body that does not come in
time, and a connection beyond the number that there may be: a client without the token could hold
all of them, and with them the files that the process may open.
"""

from __future__ import annotations

import asyncio
import re
import resource
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from broker.service.api.problems import Problem, response

_LONGEST_HEAD = 1 << 16
"""Bytes of request line and headers, or of what follows a body, after which a request is refused.
What has arrived at once may be longer, as the socket's buffer bounds it."""

_GATHERED = 1 << 16
"""Bytes that wait for the end of a turn at most, so that a client that reads slowly is noticed."""

_PART = 1 << 16
"""Bytes of a body that must come in `body_timeout`."""

_OWN_FILES = 256
"""Files that are left for everything else but connections."""

_REQUEST = re.compile(rb"([!#$%&'*+.^`|~\w-]+) [!-~]+ HTTP/1\.[01]\r\n")


class _Gathering:
    """A transport that writes at once what is written in one turn of the event loop. Head and body
    of a response would be two packets, and a call of the system is the dearest part of a small
    request."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > _GATHERED:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts and not self._transport.is_closing():
            self._transport.writelines(self._parts)
        self._parts, self._size = [], 0


@dataclass(slots=True)
class Connections:
    """The bounds of a server's connections, times in seconds; and how many there are, by the
    client's address. Used inside the server's event loop."""

    head_timeout: float
    body_timeout: float
    most: int
    most_of_one: int
    open: int = 0
    by_client: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = self.most + _OWN_FILES
        if files != resource.RLIM_INFINITY and files < wanted:
            files = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
            self.most = max(1, min(self.most, files - _OWN_FILES))

    def enter(self, client: str) -> str | None:
        """Count a connection; says why if there is no room for it."""
        self.open += 1
        self.by_client[client] += 1
        if self.open > self.most:
            return f"there are {self.most:,} connections already (server.connections)"
        if self.by_client[client] > self.most_of_one:
            most = f"{self.most_of_one:,} connections (server.client_connections)"
            return f"your address has {most} already"
        return None

    def leave(self, client: str) -> None:
        self.open -= 1
        self.by_client[client] -= 1
        if not self.by_client[client]:
            del self.by_client[client]


class BoundedProtocol(HttpToolsProtocol):
    """The protocol of a connection."""

    connections_open: Connections

    _address = ""
    _clock: asyncio.TimerHandle | None = None
    """Ends the connection if the rest of a head or of a part of a body does not come."""

    _due: tuple[float, bool] | None = None
    """Seconds of a clock that is to be set once the bytes at hand are read, and whether it is of a
    body: mostly they have all that it would wait for."""

    _body = 0
    """Bytes of the body that came since the clock was set."""

    _unread = 0
    """Bytes that came since the last end of a head, part of a body or end of a request."""

    _data = b""
    """What came last."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _Gathering(transport, self.loop)))
        self._address = self.client[0] if self.client else ""
        full = self.connections_open.enter(self._address)
        if full is None:
            self._set_clock(self.connections_open.head_timeout)
        else:
            self._refuse(Problem("too-many-connections", full, headers={"Retry-After": "1"}))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self.connections_open.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        self._data = data
        super().data_received(data)
        if self._unread > _LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(f"the headers are longer than {_LONGEST_HEAD >> 10} KiB")
        if self._due is not None:
            seconds, of_body = self._due
            self._set_clock(seconds, of_body=of_body)

    def on_message_begin(self) -> None:
        if self._clock is None:
            self._due = self.connections_open.head_timeout, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.body_begins()
        super().on_headers_complete()

    def body_begins(self) -> None:
        """The head is complete: now the body has to come."""
        self._unread = self._body = 0
        self._due = self.connections_open.body_timeout, True

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._body += len(body)
        if self._body >= _PART:
            self._body = 0
            self._due = self.connections_open.body_timeout, True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        self._stop_clock()
        super().on_message_complete()

    # -- time ----------------------------------------------------------------------------------

    def _set_clock(self, seconds: float, *, of_body: bool = False) -> None:
        self._stop_clock()
        late = self._late_body if of_body else self._late_head
        self._clock = self.loop.call_later(seconds, late)

    def _stop_clock(self) -> None:
        self._due = None
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _late_head(self) -> None:
        self._clock = None
        if not self._data:  # nothing was asked, as by a browser that opens a connection beforehand
            self.transport.close()
            return
        seconds = self.connections_open.head_timeout
        self._late(f"the head did not come within {seconds:g} s (server.head_timeout)")

    def _late_body(self) -> None:
        self._clock = None
        if self.flow.read_paused:  # it is we who do not read
            self._set_clock(self.connections_open.body_timeout, of_body=True)
            return
        seconds = self.connections_open.body_timeout
        part = f"{_PART >> 10} KiB of the body did not come within {seconds:g} s"
        self._late(f"{part} (server.body_timeout)")

    def _late(self, why: str) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            self.transport.close()
        else:
            self._refuse(Problem("too-slow", why))

    def send_400_response(self, msg: str) -> None:
        """Send a problem, unlike the base's plain text, and end the connection."""
        problem = Problem("malformed", msg)
        # The parser knows the methods that are registered, and no others.
        line = _REQUEST.match(self._data)
        if line and isinstance(sys.exception(), HttpParserInvalidMethodError):
            problem = Problem("method-not-allowed", f"there is no method {line[1].decode()}")
        self._refuse(problem)

    def _refuse(self, problem: Problem) -> None:
        """Send a problem, and end the connection."""
        refusal = response(problem)
        headers = [*refusal.raw_headers, (b"connection", b"close")]
        lines = [STATUS_LINE[refusal.status_code], *(b"%b: %b\r\n" % header for header in headers)]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(refusal.body)]))
        self.transport.close()

"""HTTP on a connection: uvicorn's fast protocol, with a bound for the head of a request.

In: bytes of a connection. Out: requests to the application. What is no HTTP, and a head without an
end, is a problem and the end of the connection: the parser itself would hold all of the head, with
which a client without the token could fill the memory.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any, cast

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from broker.service.api.problems import Problem, response

_LONGEST_HEAD = 1 << 16
"""Bytes of request line and headers, or of what follows a body, after which a request is refused.
What has arrived at once may be longer, as the socket's buffer bounds it."""

_GATHERED = 1 << 16
"""Bytes that wait for the end of a turn at most, so that a client that reads slowly is noticed."""

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


class BoundedProtocol(HttpToolsProtocol):
    """The protocol of a connection."""

    _unread = 0
    """Bytes that came since the last end of a head, part of a body or end of a request."""

    _data = b""
    """What came last."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _Gathering(transport, self.loop)))

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        self._data = data
        super().data_received(data)
        if self._unread > _LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(f"the headers are longer than {_LONGEST_HEAD >> 10} KiB")

    def on_headers_complete(self) -> None:
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Send a problem, unlike the base's plain text, and end the connection."""
        problem = Problem("malformed", msg)
        # The parser knows the methods that are registered, and no others.
        line = _REQUEST.match(self._data)
        if line and isinstance(sys.exception(), HttpParserInvalidMethodError):
            problem = Problem("method-not-allowed", f"there is no method {line[1].decode()}")
        refusal = response(problem)
        headers = [*refusal.raw_headers, (b"connection", b"close")]
        lines = [STATUS_LINE[refusal.status_code], *(b"%b: %b\r\n" % header for header in headers)]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(refusal.body)]))
        self.transport.close()

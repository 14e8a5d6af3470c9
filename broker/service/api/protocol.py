"""HTTP on a connection: uvicorn's fast protocol, with a bound for the head of a request.

In: bytes of a connection. Out: requests to the application. What is no HTTP, and a head without an
end, is a problem and the end of the connection: the parser itself would hold all of the head, with
which a client without the token could fill the memory.
"""

from __future__ import annotations

import re
import sys

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from broker.service.api.problems import Problem, response

_LONGEST_HEAD = 1 << 16
"""Bytes of request line and headers, or of what follows a body, after which a request is refused.
What has arrived at once may be longer, as the socket's buffer bounds it."""

_REQUEST = re.compile(rb"([!#$%&'*+.^`|~\w-]+) [!-~]+ HTTP/1\.[01]\r\n")


class BoundedProtocol(HttpToolsProtocol):
    """The protocol of a connection."""

    _unread = 0
    """Bytes that came since the last end of a head, part of a body or end of a request."""

    _data = b""
    """What came last."""

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

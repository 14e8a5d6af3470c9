"""The HTTP server that hubs call: small, bounded, and open to anybody.

In: GET requests by which a hub verifies a subscription, POST requests with a document; the last
part of the path is the subscription's token. Out: calls of two functions, and their answers in
HTTP. Only hubs know tokens; the body of a request without a known token is not read, and its
connection ends soon, however slowly it goes on.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from feeds.threaded import Threaded

AT_ONCE = 32
_TIMEOUT = 10.0
"""Seconds for a read, and for all of a request without a known token."""
_WHOLE = 60.0
"""Seconds for all of a request with a known token."""
_REST = 0.1
"""Seconds for which nothing is accepted after no file could be opened for a connection."""
_IGNORED = 65_536

Verify = Callable[[str, Mapping[str, str]], bytes | None]
Receive = Callable[[str, Mapping[str, str], bytes], bool]


class CallbackServer(Threaded):
    """Serves hubs on an address (host, port), where port 0 means any that is free.

    `verify` answers a GET, `receive` a POST; `is_active` says whether the body of a POST with a
    token is worth reading. `patience` is the time for a request without a known token, in seconds.
    """

    def __init__(
        self,
        address: tuple[str, int],
        is_active: Callable[[str], bool],
        verify: Verify,
        receive: Receive,
        max_bytes: int,
        patience: float = _TIMEOUT,
    ) -> None:
        self.is_active = is_active
        self.verify = verify
        self.receive = receive
        self.max_bytes = max_bytes
        server = _Server(address, self._handler(), patience)
        self.more_time = server.more_time
        super().__init__(server, "callback")
        self._host = str(server.server_address[0])

    @property
    def base(self) -> str:
        return f"http://{self._host}:{self.port}/"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT

            def do_GET(self) -> None:
                answer = server.verify(self._token(), dict(parse_qsl(urlsplit(self.path).query)))
                self._send(404 if answer is None else 200, answer or b"")

            def do_POST(self) -> None:
                token = self._token()
                length = self.headers.get("Content-Length", "")
                if not (length.isascii() and length.isdigit()):
                    self._send(411)
                elif not server.is_active(token):
                    # A hub that is still sending when the connection closes might not get the 410.
                    self.rfile.read(min(int(length[:12]), _IGNORED))
                    self._send(410)
                elif int(length[:12]) > server.max_bytes:
                    self._send(413)
                else:
                    server.more_time(self.connection)
                    body = self.rfile.read(int(length))
                    if len(body) < int(length):
                        return  # the hub gave up, and will try again
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    self._send(202 if server.receive(token, headers, body) else 410)

            def _token(self) -> str:
                return urlsplit(self.path).path.rpartition("/")[2]

            def _send(self, status: int, body: bytes = b"") -> None:
                self.send_response(status)
                # The caller chooses the challenge, so no browser may render it as a page.
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def version_string(self) -> str:
                return "xml-stream-broker"

            def log_message(self, format: str, *args: object) -> None:
                pass  # tokens are secrets

        return Handler


class _Server(ThreadingHTTPServer):
    """Refuses connections beyond `AT_ONCE`; a hub tries again, and polling goes on meanwhile.

    Each connection has an end: a client that sends a byte now and then would hold it for hours.
    """

    daemon_threads = True
    request_queue_size = 2 * AT_ONCE

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], patience: float
    ) -> None:
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._patience = patience
        self._ends: dict[socket.socket, float] = {}
        super().__init__(address, handler)

    def more_time(self, connection: socket.socket) -> None:
        """Let a connection go on whose client has shown that it is a hub."""
        self._ends[connection] = time.monotonic() + _WHOLE

    def service_actions(self) -> None:
        """End connections whose time is over. Called some times a second."""
        now = time.monotonic()
        for connection, end in [*self._ends.items()]:
            if end < now:
                with suppress(OSError):  # it ended by itself
                    connection.shutdown(socket.SHUT_RDWR)

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:
            # Without files for connections each attempt fails at once, and the next follows.
            time.sleep(_REST)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._ends[request] = time.monotonic() + self._patience
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._ends.pop(request, None)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a caller that went away

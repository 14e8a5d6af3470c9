"""An HTTP server on loopback that tolerates clients that are killed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from feeds.threaded import Threaded


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `path` is without slashes, names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Server(Threaded, ABC):
    """Serves what `answer` says, each connection in a thread of its own."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                body = self.rfile.read(length)
                headers = {name.lower(): value for name, value in self.headers.items()}
                # Of a sender that was killed, half a request may come.
                answer = None
                if len(body) == length:
                    answer = server.answer(Request(self.path.strip("/"), headers, body))
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(_Http(("127.0.0.1", 0), Handler), "crash-server")
        self.url = f"http://127.0.0.1:{self.port}"

    @abstractmethod
    def answer(self, request: Request) -> Answer | None:
        """The response to a request, in any thread; None closes the connection."""


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """The connection broke, or a handler of ours is wrong; that shows in what did not come."""

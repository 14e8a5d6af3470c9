"""A loopback server that responds to each path as scripted, byte by byte if needed."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Mapping

from feeds.threaded import Threaded
from tests.waiting import pause

Answer = bytes | Callable[[Callable[[bytes], object]], object]


class OddServer(Threaded):
    """`answers` maps a path to the raw response, or to a function that writes it to the socket."""

    def __init__(
        self,
        answers: Mapping[str, Answer],
        host: str = "127.0.0.1",
    ) -> None:
        self.answers = dict(answers)
        self._host = host
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._lock = threading.Lock()
        server = socketserver.ThreadingTCPServer((host, 0), self._handler())
        server.daemon_threads = True
        super().__init__(server, "odd-server")

    def url(self, path: str, host: str | None = None) -> str:
        return f"http://{host or self._host}:{self.port}{path}"

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        odd = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                path = self.rfile.readline().decode().split(" ")[1]
                headers = {}
                while line := self.rfile.readline().decode("latin-1").strip():
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                self.rfile.read(int(headers.get("content-length", 0)))
                with odd._lock:
                    odd.requests.append((path, headers))
                try:
                    answer = odd.answers[path]
                    if callable(answer):
                        answer(self.wfile.write)
                    else:
                        self.wfile.write(answer)
                except OSError:
                    pass  # the fetcher had enough

        return Handler


class Gauge:
    """Counts how many answers are waited for, and the `most` at any time; `whole` counts with
    it."""

    def __init__(self, whole: Gauge | None = None) -> None:
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._whole = whole

    def slow(self, answer: bytes, seconds: float) -> Callable[[Callable[[bytes], object]], None]:
        """A response that is sent after a while. It is no longer counted once it can arrive."""

        def write(send: Callable[[bytes], object]) -> None:
            self._count(1)
            pause(seconds)
            self._count(-1)
            send(answer)

        return write

    def _count(self, more: int) -> None:
        with self._lock:
            self._now += more
            self.most = max(self.most, self._now)
        if self._whole is not None:
            self._whole._count(more)


def response(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def dribble(start: bytes, piece: bytes, times: int, seconds: float) -> Callable[..., None]:
    """Write `start`, then `piece` again and again with a pause before each."""

    def write(send: Callable[[bytes], object]) -> None:
        send(start)
        for _ in range(times):
            pause(seconds)
            send(piece)

    return write

"""The receivers of webhooks and the feeds around the service in its benchmark."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.queues import Queue
from multiprocessing.sharedctypes import Synchronized
from typing import ClassVar

Got = tuple[str, float]
"""The id of a match, and when it came."""


class _Other(BaseHTTPRequestHandler):
    """A slow and failing receiver, and feeds that get an item every five seconds."""

    protocol_version = "HTTP/1.1"
    got: Queue[Got]
    begun = 0.0
    dated: Synchronized[float]
    """How far the publisher has come, in the time of the documents."""
    dates: ClassVar[dict[tuple[str, int], float]] = {}
    """When an item of a feed was first shown, in that time."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(random.random() * 0.2)
        fails = random.random() < 0.2
        if not fails:
            self.got.put((self.headers["webhook-id"], time.time()))
        self._answer(503 if fails else 204, b"")

    def do_GET(self) -> None:
        newest = int((time.time() - self.begun) / 5)
        items = []
        for n in range(max(0, newest - 20), newest):
            at = self.dates.setdefault((self.path, n), self.dated.value)
            date = format_datetime(datetime.fromtimestamp(at, UTC))
            told = f"<guid>{self.path}/{n}</guid><title>Item {n}</title><pubDate>{date}</pubDate>"
            items.append(f"<item>{told}</item>")
        channel = f"<title>Feed {self.path}</title>{''.join(items)}"
        self._answer(200, f"<rss version='2.0'><channel>{channel}</channel></rss>".encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Many(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


def other(port: Queue[int], got: Queue[Got], dated: Synchronized[float]) -> None:
    """The process of the receiver and of the feeds."""
    _Other.got, _Other.begun, _Other.dated = got, time.time(), dated
    server = _Many(("127.0.0.1", 0), _Other)
    port.put(server.server_port)
    server.serve_forever()

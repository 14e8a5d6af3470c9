"""Feeds that grow with every answer, until they are told to stop."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from random import Random

from feeds.adapter import parse_feed
from tests.crash.server import Server
from tests.crash.world import Doc, World
from tests.feeds.data import rss

_SHOWN = 150


class Feeds(AbstractContextManager["Feeds"]):
    """A site with some feeds; every item that was shown is a document of the world."""

    def __init__(self, world: World, seed: int, count: int = 2) -> None:
        self._world = world
        self._random = Random(f"feeds {seed}")
        self._lock = threading.Lock()
        self._items: list[list[str]] = [[] for _ in range(count)]
        self._seen: list[set[str]] = [set() for _ in range(count)]
        self._answers = [0] * count
        self.growing = True
        feeds = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, body = feeds.answer(int(self.path.strip("/")))
                self.send_response(status)
                self.send_header("Content-Type", "application/rss+xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = Server(("127.0.0.1", 0), Handler)
        self.urls = [f"http://127.0.0.1:{self._http.server_port}/{n}" for n in range(count)]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def answer(self, number: int) -> tuple[int, bytes]:
        """A feed with up to two new items; now and then it is out of order."""
        with self._lock:
            self._answers[number] += 1
            if self.growing and self._random.random() < 0.05:
                return 503, b"later"
            url, items = self.urls[number], self._items[number]
            if self.growing:
                for _ in range(self._random.randint(0, 2)):
                    items.insert(0, self._world.item())
                del items[_SHOWN:]
            body = rss(*items, channel=f"<title>Feed {number}</title>")
            for item in parse_feed(body, url, arrival=0).items:
                if item.id not in self._seen[number]:
                    self._seen[number].add(item.id)
                    doc = Doc(
                        item.id,
                        url,
                        (f"Feed_{number}", "S"),
                        item.timestamp,
                        item.to_xml().decode(),
                        item.title,
                        "item",
                    )
                    self._world.shown(doc)
            return 200, body

    def finish(self) -> None:
        """No more items."""
        with self._lock:
            self.growing = False
            self._answers = [0] * len(self._answers)

    def finished(self) -> bool:
        """Whether all feeds were fetched and stored since: who asks again has stored the answer of
        before, at least where that is two answers ago."""
        with self._lock:
            return min(self._answers) >= 3

    def __enter__(self) -> Feeds:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

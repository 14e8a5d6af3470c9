"""The counterparts of a kept service: receivers of webhooks, and a site of feeds behind a proxy."""

from __future__ import annotations

import json
import threading

from tests.crash.server import Answer, Request, Server
from tests.feeds.data import rss

COURIER = "http://localhost:8099/courier"
GANNET = "http://localhost:8099/gannet"
"""No server is asked there: the service asks a proxy, which answers itself."""


class Hooks(Server):
    """Receivers by path; those in `refusing` fail. `got`: of each path, ids and numbers in the
    log."""

    def __init__(self) -> None:
        super().__init__()
        self.refusing: set[str] = set()
        self.got: dict[str, list[tuple[int, str]]] = {}
        self.tries = 0
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.tries += 1
            if request.path in self.refusing:
                return Answer(500)
            reply = json.loads(request.body)["data"]
            self.got.setdefault(request.path, []).append((reply["n"], reply["id"]))
        return Answer(204)


def entry(number: int, link: str) -> str:
    return (
        f"<title>Item {number}</title><link>{link}</link><guid>item-{number}</guid>"
        f"<pubDate>Mon, 05 Oct 2026 0{number}:30:00 GMT</pubDate>"
    )


class Site(Server):
    """A proxy that knows two feeds. `news`: what they have beside the first items."""

    def __init__(self) -> None:
        super().__init__()
        self.news = False
        self.asked: dict[str, int] = {}

    def answer(self, request: Request) -> Answer:
        url = f"{request.path}"
        self.asked[url] = self.asked.get(url, 0) + 1
        if url == COURIER:
            items = [
                entry(1, "https://example.org/a"),
                entry(2, "https://example.org/b?utm_medium=m"),
            ]
            channel = "<title>Courier</title>"
            if self.news:
                items.insert(0, entry(5, "https://www.example.org/b/"))
        elif url == GANNET:
            items = [entry(3, "https://example.org/c")]
            channel = "<title>Gannet</title>"
            if self.news:
                items.insert(0, entry(6, "https://www.example.org/a"))
        else:
            return Answer(404)
        return Answer(200, rss(*items, channel=channel), {"Content-Type": "application/rss+xml"})

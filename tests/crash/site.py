"""Feeds that grow and are edited with every response while the test runs."""

from __future__ import annotations

import threading
from random import Random

from feeds.adapter import parse_feed
from tests.crash.server import Answer, Request, Server
from tests.crash.world import Doc, Entry, World
from tests.feeds.data import rss

_SHOWN = 40
"""Items of a feed: each answer is read whole, many times a second."""
_EDITED = 10
"""Of the newest items, so many may still be edited."""


class Feeds(Server):
    """A site with some feeds; every item that was shown is a document of the world."""

    def __init__(self, world: World, seed: int, count: int = 2) -> None:
        super().__init__()
        self._world = world
        self._random = Random(f"feeds {seed}")
        self._lock = threading.Lock()
        self._items: list[list[tuple[Entry, int]]] = [[] for _ in range(count)]
        self._answers = [0] * count
        self.growing = False
        self.urls = [f"{self.url}/{n}" for n in range(count)]

    def answer(self, request: Request) -> Answer:
        """A feed with perhaps a new item, and perhaps another version of an old one; now and then
        it is out of order."""
        number = int(request.path)
        with self._lock:
            self._answers[number] += 1
            if self.growing and self._random.random() < 0.05:
                return Answer(503, b"later")
            if self.growing:
                self._grow(self._items[number])
            body = rss(
                *(entry.rss(version) for entry, version in self._items[number]),
                channel=f"<title>Feed {number}</title>",
            )
            self._note(number, body)
        return Answer(200, body, {"Content-Type": "application/rss+xml"})

    def _grow(self, items: list[tuple[Entry, int]]) -> None:
        if items and self._random.random() < 0.2:
            place = self._random.randrange(min(len(items), _EDITED))
            entry, version = items[place]
            items[place] = entry, version + 1
        if self._random.random() < 0.4:
            items.insert(0, (self._world.entry(), 0))
        del items[_SHOWN:]

    def _note(self, number: int, body: bytes) -> None:
        """What is shown now, as the engine is to see it."""
        moment, url = self._world.moment(), self.urls[number]
        for item in parse_feed(body, url, arrival=0).items:
            doc = Doc(
                item.id,
                url,
                (f"Feed_{number}", "S"),
                item.timestamp,
                item.to_xml().decode(),
                item.title,
                "item",
            )
            self._world.shown(doc, int(item.categories[0].removeprefix("v")), moment)

    def finish(self) -> None:
        """Add and change no more items."""
        with self._lock:
            self.growing = False
            self._answers = [0] * len(self._answers)

    def finished(self) -> bool:
        """Whether all feeds were fetched and stored since: who asks again has stored the answer of
        before, at least where that is two answers ago."""
        with self._lock:
            return min(self._answers) >= 3

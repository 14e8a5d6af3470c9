"""The clients of the service: threads that continue through every crash, and record the responses.

Each asks again what was not answered. `Over` ends them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from tests.crash.process import TOKEN, Served
from tests.crash.world import Doc, World
from tests.waiting import PATIENCE, pause

_AGAIN = {429, 503}
_MUCH = 25
"""Documents that a publisher sends quickly to one process; on a busy machine a process waits for its
kill for long, and all that is published has to be matched, delivered and judged."""


class Over(Exception):
    """The service will not be started again."""


class Caller:
    """Repeats a request until there is a response. `tries`: the attempts of the last request."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.http = httpx.Client(
            base_url=served.url,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=PATIENCE,
            verify=False,
        )
        self.tries = 0

    def __call__(self, method: str, path: str, **named: Any) -> httpx.Response:
        self.tries = 0
        while True:
            self.up()
            self.tries += 1
            try:
                answer = self.http.request(method, path, **named)
            except httpx.TransportError:
                pause(0.01)
                continue
            if answer.status_code in _AGAIN:
                pause(0.05)
                continue
            return answer

    def up(self) -> None:
        """Wait until the service runs."""
        while not self.served.up.wait(0.2):
            if self.served.over:
                raise Over

    def json(self, method: str, path: str, **named: Any) -> Any:
        answer = self(method, path, **named)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None


class Actor(threading.Thread):
    """A client that runs until `stop` is set; `failure` is the error that it found."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._act = act
        self.stop = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self._act()
        except Over:
            pass
        except BaseException as error:
            self.failure = error


@dataclass(slots=True)
class Accepted:
    """What publishers were told. `numbers` are those of the log, of documents sent once only: of
    what was sent again, an earlier copy may have a number that nobody was told. `moments`: when
    they
    knew."""

    docs: dict[tuple[str, str], Doc] = field(default_factory=dict)
    moments: dict[tuple[str, str], int] = field(default_factory=dict)
    numbers: list[tuple[int, tuple[str, str]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, docs: Sequence[Doc], first: int, again: bool, moment: int) -> None:
        with self.lock:
            self.docs |= {doc.name: doc for doc in docs}
            for doc in docs:
                self.moments.setdefault(doc.name, moment)
            if not again:
                self.numbers += [(number, doc.name) for number, doc in enumerate(docs, first)]


class Publisher:
    """Publishes documents: one as XML, or many as lines; sometimes documents that it has published
    before."""

    def __init__(
        self, served: Served, world: World, accepted: Accepted, seed: str, pace: float
    ) -> None:
        self._call = Caller(served)
        self._world, self._accepted = world, accepted
        self._random = Random(f"publisher {seed}")
        self._last: list[Doc] = []
        self._pace = pace
        self._to, self._sent = 0, 0

    def __call__(self) -> None:
        repeated = bool(self._last) and self._random.random() < 0.1
        docs = self._last if repeated else self._world.post(self._random.choice((1, 3, 12)))
        reply = self.post(docs)
        assert reply["ids"] == [doc.id for doc in docs]
        assert reply["last"] - reply["first"] + 1 == reply["accepted"] == len(docs)
        again = repeated or self._call.tries > 1
        self._accepted.add(docs, reply["first"], again, self._world.moment())
        self._last = docs
        if self._to != self._call.served.pid:
            self._to, self._sent = self._call.served.pid, 0
        self._sent += len(docs)
        pause(self._random.random() * self._pace * (1 if self._sent < _MUCH else 10))

    def post(self, docs: list[Doc]) -> dict[str, Any]:
        path = f"/v1/streams/{docs[0].streams[0]}/documents"
        if len(docs) == 1 and docs[0].source.startswith("post:"):
            line = docs[0].line()
            headers = {
                "Content-Type": "application/xml",
                "Document-Id": str(line["id"]),
                "Document-Timestamp": str(line["timestamp"]),
            }
            return dict(self._call.json("POST", path, content=docs[0].xml, headers=headers))
        lines = "".join(json.dumps(doc.line()) + "\n" for doc in docs)
        headers = {"Content-Type": "application/x-ndjson"}
        return dict(self._call.json("POST", path, content=lines, headers=headers))

"""Who uses the service: threads that go on through every crash, and write down what they were told.

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
from tests.crash.world import STANDING, Doc, World, query

_AGAIN = {429, 503}


class Over(Exception):
    """The service will not be there again."""


class Caller:
    """Asks until there is an answer. `tries`: how often the last question was sent."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.http = httpx.Client(
            base_url=served.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60
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
        """Wait until the service is there."""
        while not self.served.up.wait(0.2):
            if self.served.over:
                raise Over

    def json(self, method: str, path: str, **named: Any) -> Any:
        answer = self(method, path, **named)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None


def pause(seconds: float) -> None:
    """A client that takes its time; nothing is waited for."""
    threading.Event().wait(seconds)


class Actor(threading.Thread):
    """Something that goes on until `stop` is set; `failure` is what went wrong."""

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


# -- publishers ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Accepted:
    """What publishers were told. `numbers` are those of the log, of documents sent once only: of what
    was sent again, an earlier copy may have a number that nobody was told."""

    docs: dict[tuple[str, str], Doc] = field(default_factory=dict)
    numbers: list[tuple[int, tuple[str, str]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, docs: Sequence[Doc], first: int, again: bool) -> None:
        with self.lock:
            self.docs |= {doc.name: doc for doc in docs}
            if not again:
                self.numbers += [(number, doc.name) for number, doc in enumerate(docs, first)]


class Publisher:
    """Posts documents: one as XML, or many as lines; now and then some that it has posted before."""

    def __init__(
        self, served: Served, world: World, accepted: Accepted, seed: str, pace: float
    ) -> None:
        self._call = Caller(served)
        self._world, self._accepted = world, accepted
        self._random = Random(f"publisher {seed}")
        self._last: list[Doc] = []
        self._pace = pace

    def __call__(self) -> None:
        repeated = bool(self._last) and self._random.random() < 0.1
        docs = self._last if repeated else self._world.post(self._random.choice((1, 3, 12)))
        reply = self.post(docs)
        assert reply["ids"] == [doc.id for doc in docs]
        assert reply["last"] - reply["first"] + 1 == reply["accepted"] == len(docs)
        self._accepted.add(docs, reply["first"], repeated or self._call.tries > 1)
        self._last = docs
        pause(self._random.random() * self._pace)

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


# -- subscriptions -------------------------------------------------------------------------------


@dataclass(slots=True)
class Registration:
    """A query under an id, from a document on. `gaps`: pairs of documents, the second None while it is
    open. `end`: the document from which on the next one counts under its id. `dropped`: how it went;
    it had seen all up to number `surely` of the log, and nothing above `hardly`."""

    id: str
    text: str
    first: int
    gaps: list[tuple[int, int | None]] = field(default_factory=list)
    end: int | None = None
    dropped: str | None = None
    surely: int = 0
    hardly: int = 0


class Desk:
    """Changes the subscriptions, one change after the other, and looks whether all are as they should
    be. `past` are those that are gone."""

    def __init__(self, served: Served, hooks: str, seed: int, count: int = 5) -> None:
        self._call = Caller(served)
        self._hooks = hooks
        self._random = Random(f"desk {seed}")
        self._ids = [f"q{n}" for n in range(count)]
        self.now: dict[str, Registration] = {}
        self.past: list[Registration] = []
        self.changes = 0
        self.often: str | None = None
        """What is done without pause and most of the time: register, drop, pause or resume."""

    def begin(self) -> None:
        """What stays."""
        for made in self._call.json("POST", "/v1/subscriptions", json={"text": STANDING}):
            self.now[made["id"]] = Registration(made["id"], made["text"], made["first_doc"])
        for id in self._ids[:3]:
            self._register(id)

    def __call__(self) -> None:
        id = self._random.choice(self._ids)
        actions = {
            "register": (self._register, 3),
            "drop": (self._drop, 2),
            "pause": (self._pause, 3),
            "resume": (self._resume, 3),
        }
        chances = [30 if name == self.often else chance for name, (_, chance) in actions.items()]
        (act,) = self._random.choices([action for action, _ in actions.values()], chances)
        (act if id in self.now else self._register)(id)
        self.changes += 1
        self.audit()
        pause(0.0 if self.often else self._random.random() * 0.2)

    def audit(self) -> None:
        """The service knows the subscriptions that the desk knows, as they are."""
        found = {each["id"]: each for each in self._call.json("GET", "/v1/subscriptions")}
        assert sorted(found) == sorted(self.now), f"{sorted(found)}, not {sorted(self.now)}"
        for id, own in self.now.items():
            assert self._same(own, found[id]), f"{found[id]}, not {own}"

    @staticmethod
    def _same(own: Registration, told: dict[str, Any]) -> bool:
        halted = bool(own.gaps) and own.gaps[-1][1] is None
        return (own.text, own.first, own.gaps, "paused" if halted else "active") == (
            told["text"],
            told["first_doc"],
            _gaps(told),
            told["status"],
        )

    def _register(self, id: str) -> None:
        text = query(self._random, id)
        channels = [
            {"kind": "webhook", "settings": {"url": f"{self._hooks}/of/{id}", "secret": SECRET}}
        ]
        before = self.now.get(id)
        body = {"text": text, "channels": channels}
        (told,) = self._call.json("POST", "/v1/subscriptions", json=body)
        if before is not None and told["text"] == before.text:
            assert told["outcome"] == "unchanged"
            assert self._same(before, told), f"{told}, not {before}"
            return
        wanted = "new" if before is None else "replaced"
        # What was done and not answered was asked for again.
        assert told["outcome"] == wanted or (self._call.tries > 1, told["outcome"]) == (
            True,
            "unchanged",
        ), f"{told}, after {before}"
        assert told["status"] == "active"
        assert not told["gaps"]
        self.now[id] = Registration(id, told["text"], told["first_doc"])
        if before is not None:
            self.past.append(before)
        for own in reversed(self.past):
            if own.id == id:
                own.end = told["first_doc"]
                assert own.end >= own.first
                break

    def _drop(self, id: str) -> None:
        own = self.now[id]
        pending = self._random.choice(("deliver", "deliver", "drop"))
        own.surely = self._call.json("GET", "/v1/status")["intake"]["applied"]
        answer = self._call("DELETE", f"/v1/subscriptions/{id}", params={"pending": pending})
        assert answer.is_success or (answer.status_code == 404 and self._call.tries > 1), (
            answer.text
        )
        own.dropped = pending
        own.hardly = self._call.json("GET", "/v1/status")["intake"]["last"]
        self.past.append(self.now.pop(id))

    def _pause(self, id: str) -> None:
        self._change(id, "pause")

    def _resume(self, id: str) -> None:
        self._change(id, "resume")

    def _change(self, id: str, what: str) -> None:
        own = self.now[id]
        told = self._call.json("POST", f"/v1/subscriptions/{id}/{what}")
        before, own.gaps = own.gaps, _gaps(told)
        open_before = bool(before) and before[-1][1] is None
        if (what == "pause") == open_before:
            assert own.gaps == before, f"{what} of {own} changed something: {told}"
        elif what == "pause":
            assert own.gaps[:-1] == before
            assert own.gaps[-1][1] is None
        else:
            assert own.gaps[:-1] == before[:-1]
            first, last = own.gaps[-1]
            assert first == before[-1][0]
            assert last is not None
            assert last >= first


def _gaps(told: dict[str, Any]) -> list[tuple[int, int | None]]:
    return [(gap["first_doc"], gap["to_doc"]) for gap in told["gaps"]]


SECRET = "whsec_" + "Y3Jhc2ggdGVzdHMgc2lnbiB3aXRoIHRoaXM="
"""With which webhooks sign."""

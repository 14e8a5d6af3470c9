"""Who gets the matches: webhooks that fail themselves, consumers that pull, readers with a cursor.

All are idempotent: what comes twice under one id must be the same, and counts once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from random import Random
from typing import Any

import httpx
from standardwebhooks.webhooks import Webhook

from tests.crash.actors import SECRET, Caller, Over, pause
from tests.crash.process import Served
from tests.crash.server import Server

Delivered = dict[str, Any]
"""A match as JSON, with its place `n` in the log."""


class Box:
    """What a receiver has got, by id. `ordered`: what is new comes in order of the log."""

    def __init__(self, name: str, ordered: bool) -> None:
        self.name = name
        self.ordered = ordered
        self.got: dict[str, Delivered] = {}
        self.repeated = 0
        self._last = 0

    def add(self, delivered: Delivered) -> None:
        before = self.got.get(delivered["id"])
        if before is not None:
            assert before == delivered, f"{self.name}: {delivered}, before {before}"
            self.repeated += 1
            return
        assert not self.ordered or delivered["n"] > self._last, (
            f"{self.name}: {delivered['n']} after {self._last}"
        )
        self._last = delivered["n"]
        self.got[delivered["id"]] = delivered


class Webhooks(AbstractContextManager["Webhooks"]):
    """A site of receivers, one for each path. They fail in all ways there are, a few times in a
    hundred; what they have got counts also where their answer was lost."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"webhooks {seed}")
        self._lock = threading.Lock()
        self._signed = Webhook(SECRET)
        self.boxes: dict[str, Box] = {}
        self.failures: list[str] = []
        self.reliable = False
        self.refusing = False
        self.hold: threading.Event | None = None
        """Until it is set, nobody is answered."""
        self.held = 0
        hooks = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                # Of a sender that was killed, half a request may come.
                whole = len(body) == length
                headers = dict(self.headers.items())
                status = hooks.receive(self.path.strip("/"), headers, body) if whole else 0
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                if status == 503:
                    self.send_header("Retry-After", "0")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def receive(self, name: str, headers: dict[str, str], body: bytes) -> int:
        """The status to answer with; 0: none, the connection breaks."""
        if self.hold is not None and not self.hold.is_set():
            self.held += 1
            self.hold.wait()
        with self._lock:
            if self.refusing:
                return 500
            fault = 1.0 if self.reliable else self._random.random()
            if fault < 0.06:
                return self._random.choice((500, 502, 503, 503, 302, 400))
            if fault < 0.08:
                return 0
            try:
                self._take(name, headers, body)
            except Exception as error:
                self.failures.append(f"{name}: {error!r}")
            if fault < 0.12:
                return self._random.choice((0, 500))
            return 204

    def _take(self, name: str, headers: dict[str, str], body: bytes) -> None:
        lower = {key.lower(): value for key, value in headers.items()}
        # By our own clock it would be too old: the sender's may be wrong.
        at = datetime.fromtimestamp(int(lower["webhook-timestamp"]), UTC)
        assert lower["webhook-signature"] == self._signed.sign(
            lower["webhook-id"], at, body.decode()
        )
        payload = json.loads(body)
        assert payload["type"] == "match"
        delivered = payload["data"]
        assert lower["webhook-id"] == delivered["id"]
        box = self.boxes.setdefault(name, Box(name, ordered=name != "any-order"))
        box.add(delivered)

    def __enter__(self) -> Webhooks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class Puller:
    """A consumer of a pull channel; now and then it dies before it acknowledges."""

    def __init__(self, served: Served, channel: str, seed: int) -> None:
        self._call = Caller(served)
        self._channel = channel
        self._random = Random(f"puller {seed}")
        self._acknowledged = 0
        self.box = Box(channel, ordered=True)

    def __call__(self) -> None:
        params = {"channel": self._channel, "limit": self._random.choice((1, 7, 100)), "wait": 0.3}
        found = _lines(self._call("GET", "/v1/matches", params=params))
        if not found:
            return
        assert found[0]["n"] > self._acknowledged, "it was acknowledged, and comes again"
        for delivered in found:
            self.box.add(delivered)
        if self._random.random() < 0.9:
            n = found[-1]["n"]
            self._call.json("POST", f"/v1/channels/{self._channel}/ack", json={"n": n})
            self._acknowledged = n
        pause(self._random.random() * 0.02)


class Reader:
    """Reads the log with a cursor of its own: what it gets is new, every time."""

    def __init__(self, served: Served, seed: int) -> None:
        self._call = Caller(served)
        self._random = Random(f"reader {seed}")
        self._cursor = 0
        self.box = Box("reader", ordered=True)

    def __call__(self) -> None:
        params = {"after": self._cursor, "limit": self._random.choice((3, 50)), "wait": 0.3}
        answer = self._call("GET", "/v1/matches", params=params)
        for delivered in _lines(answer):
            assert delivered["n"] > self._cursor
            self.box.add(delivered)
        assert not self.box.repeated
        self._cursor = int(answer.headers["Next-Cursor"])


class Follower:
    """Follows the event stream, and comes back with the last id that it was given."""

    def __init__(self, served: Served) -> None:
        self._call = Caller(served)
        self._last = "0"
        self.box = Box("event stream", ordered=True)

    def __call__(self) -> None:
        self._call.up()
        try:
            with self._call.http.stream(
                "GET", "/v1/matches/stream", headers={"Last-Event-ID": self._last}
            ) as answer:
                if answer.status_code != 200:
                    pause(0.05)
                    return
                for name, value in _events(answer):
                    if name == "id":
                        self._last = value
                    elif name == "data":
                        self.box.add(json.loads(value))
                        assert not self.box.repeated
        except httpx.TransportError:
            if self._call.served.over:
                raise Over from None
            pause(0.01)


def _events(answer: httpx.Response) -> Iterator[tuple[str, str]]:
    """The fields of whole events: of one that was cut off, nothing counts."""
    fields: list[tuple[str, str]] = []
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(":")
            fields.append((name, value.strip()))
        else:
            yield from sorted(fields)  # the data before the id
            fields = []


def _lines(answer: httpx.Response) -> list[Delivered]:
    assert answer.is_success, answer.text
    return [json.loads(line) for line in answer.content.splitlines()]

"""Clients that read matches: consumers of pull channels, readers with a cursor, followers of the
stream.

All are idempotent: what comes twice must be the same, and counts once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import httpx

from tests.crash.actors import Caller, Over
from tests.crash.process import Served
from tests.waiting import pause

Delivered = dict[str, Any]
"""A match as JSON, with its place `n` in the log."""


class Box:
    """What a receiver has got, by its place in the log. `ordered`: what is new comes in that order.

    Under one id it comes from one place, unless the subscription was dropped and made again.
    """

    def __init__(self, name: str, ordered: bool) -> None:
        self.name = name
        self.ordered = ordered
        self.got: dict[int, Delivered] = {}
        self.repeated = 0
        self._last = 0

    def add(self, delivered: Delivered) -> None:
        n = delivered["n"]
        before = self.got.get(n)
        if before is not None:
            assert before == delivered, f"{self.name}: {delivered}, before {before}"
            self.repeated += 1
            return
        assert not self.ordered or n > self._last, f"{self.name}: {n} after {self._last}"
        self._last = n
        self.got[n] = delivered


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
    """Reads the log with a cursor of its own, so that it never gets a match twice."""

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
    """The fields of complete events; an incomplete one is ignored."""
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

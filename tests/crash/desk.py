"""The client that changes subscriptions, and the responses to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

import xscl
from tests.crash.actors import Caller
from tests.crash.notes import Past, backfilled
from tests.crash.process import Served
from tests.crash.queries import PATTERNS, STANDING, frequent, query
from tests.crash.webhooks import SECRET
from tests.waiting import pause

_MONTH = "30 days"


class Gap(NamedTuple):
    """A gap, from one document to another; None while it is open."""

    first: int
    last: int | None
    status: str


@dataclass(frozen=True, slots=True)
class Throttle:
    """A throttle. `variable` None: for the whole query. `minutes`: the period."""

    variable: str | None
    minutes: int

    def body(self) -> dict[str, object]:
        return {"variable": self.variable, "period": f"{self.minutes} min"}


@dataclass(slots=True)
class Registration:
    """A query under an id, from a document on, at most `limit` matches a month.

    `reach`: it was backfilled so far back (minutes), over the history `past`; `history`: how many
    documents and matches were told. `end`: the document from which on the next
    one counts under its id. `dropped`: how it went; it had seen all up to number `surely` of the
    spool, and nothing above `hardly`, and its matches have numbers up to `last` in the log.
    """

    id: str
    text: str
    first: int
    limit: int | None = None
    throttle: Throttle | None = None
    reach: int | None = None
    past: Past = field(default_factory=Past)
    history: tuple[int, int] | None = None
    gaps: list[Gap] = field(default_factory=list)
    end: int | None = None
    dropped: str | None = None
    surely: int = 0
    hardly: int = 0
    last: int | None = None

    @property
    def halted(self) -> bool:
        return bool(self.gaps) and self.gaps[-1].last is None

    @property
    def status(self) -> str:
        return self.gaps[-1].status if self.halted else "active"


class Desk:
    """Changes the subscriptions, one change after the other, and looks whether all are as they
    should be. `past` are those that are gone."""

    def __init__(self, served: Served, hooks: str, seed: int, pace: float = 0.2) -> None:
        self._call = Caller(served)
        self._hooks = hooks
        self._random = Random(f"desk {seed}")
        self._pace = pace
        self._throttles = {
            **dict.fromkeys(("q0", "q1", "q2", "few")),
            "each-key": Throttle("k", 40),
            "seldom": Throttle(None, 30),
        }
        self.now: dict[str, Registration] = {}
        self.past: list[Registration] = []
        self.changes = 0
        self._done: deque[str] = deque(maxlen=12)
        """The last requests that changed something, with their responses."""
        self.often: str | None = None
        """What is done without pause and most of the time: register, drop, pause, resume or exceed."""

    def begin(self) -> None:
        """Register the permanent queries."""
        for made in self._call.json(
            "POST", "/v1/subscriptions", json={"text": f"{STANDING};{PATTERNS}"}
        ):
            self.now[made["id"]] = Registration(made["id"], made["text"], made["first_doc"])
        for id in self._throttles:
            self._register(id)

    def look_back(self) -> None:
        """At the end, register a query with backfill over all documents."""
        self._register("all", 500_000)

    def __call__(self) -> None:
        id = self._random.choice(list(self._throttles))
        actions = {
            "register": (self._register, 3),
            "drop": (self._drop, 2),
            "pause": (self._pause, 3),
            "resume": (self._resume, 3),
        }
        if self.often == "exceed":
            self._exceed()
            self.audit()
            pause(0.1)  # for the document that goes over the limit
            return
        chances = [30 if name == self.often else chance for name, (_, chance) in actions.items()]
        (act,) = self._random.choices([action for action, _ in actions.values()], chances)
        (act if id in self.now else self._register)(id)
        self.changes += 1
        self.audit()
        pause(0.0 if self.often else self._random.random() * self._pace)

    def audit(self) -> None:
        """Check that the service has the same subscriptions, in the same state."""
        found = {each["id"]: each for each in self._call.json("GET", "/v1/subscriptions")}
        assert sorted(found) == sorted(self.now), f"{sorted(found)}, not {sorted(self.now)}"
        for id, own in self.now.items():
            self._agree(own, found[id])

    def _agree(self, own: Registration, told: dict[str, Any]) -> None:
        """Whether the service's subscription is as recorded, or was suspended since."""
        gaps = _gaps(told)
        if own.limit is not None and not own.halted and gaps[:-1] == own.gaps and gaps != own.gaps:
            assert gaps[-1].status == "suspended"
            assert gaps[-1].last is None
            own.gaps = gaps
        limit = None if own.limit is None else {"matches": own.limit, "period": _MONTH}
        throttle = told["throttle"] and {
            name: told["throttle"][name] for name in ("variable", "period")
        }
        known = (own.text, own.first, own.gaps, own.status, limit)
        assert known == (told["text"], told["first_doc"], gaps, told["status"], told["limit"]), (
            self._story(told, own)
        )
        assert throttle == (own.throttle and own.throttle.body()), self._story(told, own)

    def _story(self, told: dict[str, Any], own: Registration) -> str:
        return "\n".join([f"{told}, not {own}, after", *self._done])

    def chains(self, id: str) -> list[list[Registration]]:
        """The successive registrations of an id, each replacing the former, until one is
        dropped."""
        found: list[list[Registration]] = [[]]
        for own in [*self.past, *self.now.values()]:
            if own.id == id:
                found[-1].append(own)
                if own.dropped is not None:
                    found.append([])
        return [chain for chain in found if chain]

    # -- changes ---------------------------------------------------------------------------------

    def _exceed(self) -> None:
        """Have a query that soon finds more than its limit."""
        own, text = self.now.get("few"), frequent("few")
        if own is not None and own.text == _canonical(text):
            if not own.halted:
                return
            self._drop("few")
        self._register("few", text=text)
        self.changes += 1

    def _register(self, id: str, reach: int | None = None, text: str = "") -> None:
        """Register a query, new or as a replacement, with or without backfill and limit."""
        throttle, before = self._throttles.get(id), self.now.get(id)
        text = text or query(self._random, id, keyed=throttle is not None)
        kind = self._random.random()
        limit = None
        if reach is None and (kind < 0.2 or id == "few"):
            limit = self._random.randint(1, 3 if id == "few" else 12)
        elif reach is None and kind > 0.6:
            reach = self._random.choice((30, 120, 500_000))
        if before is not None and _canonical(text) == before.text:
            limit = before.limit
        body: dict[str, Any] = {"text": text, "channels": [self._hook(id)]}
        if throttle is not None:
            body["throttle"] = throttle.body()
        if limit is not None:
            body["limit"] = {"matches": limit, "period": _MONTH}
        if reach is not None:
            body["backfill"] = f"{reach} min"
        (reply,) = self._asked("POST", "/v1/subscriptions", json=body)
        if before is not None and reply["text"] == before.text:
            assert reply["outcome"] == "unchanged"
            self._agree(before, reply)
            return
        wanted = "new" if before is None else "replaced"
        # What was done and not answered was asked for again.
        assert reply["outcome"] == wanted or (self._call.tries > 1, reply["outcome"]) == (
            True,
            "unchanged",
        ), f"{reply}, after {before}"
        own = Registration(id, reply["text"], reply["first_doc"], limit, throttle)
        if reach is not None:
            own = self._backfilled(own, reach, reply)
        self._agree(own, reply)
        self.now[id] = own
        if before is not None:
            self.past.append(before)
        for gone in reversed(self.past):
            if gone.id == id:
                gone.end = max(own.first, own.past.doc)
                assert gone.end >= gone.first
                break

    def _backfilled(self, own: Registration, reach: int, told: dict[str, Any]) -> Registration:
        past = backfilled(self._call.served.notes, own.id)
        history = told["history"]
        if told["outcome"] != "unchanged":
            own.history = history["documents"], history["matches"]
            assert not history["suspended"]
        return replace(own, reach=reach, past=past)

    def _asked(self, method: str, path: str, **named: Any) -> Any:
        reply = self._call.json(method, path, **named)
        self._done.append(f"{method} {path} {named}: {reply}, tried {self._call.tries} times")
        return reply

    def _hook(self, id: str) -> dict[str, object]:
        return {"kind": "webhook", "settings": {"url": f"{self._hooks}/of/{id}", "secret": SECRET}}

    def _drop(self, id: str) -> None:
        own = self.now[id]
        pending = self._random.choice(("deliver", "deliver", "drop"))
        own.surely = self._call.json("GET", "/v1/status")["intake"]["applied"]
        answer = self._call("DELETE", f"/v1/subscriptions/{id}", params={"pending": pending})
        assert answer.is_success or (answer.status_code == 404 and self._call.tries > 1), (
            answer.text
        )
        self._done.append(f"DELETE {id} {pending}: tried {self._call.tries} times")
        own.dropped = pending
        status = self._call.json("GET", "/v1/status")
        own.hardly, own.last = status["intake"]["last"], status["deliveries"]["last"]
        self.past.append(self.now.pop(id))

    def _pause(self, id: str) -> None:
        self._change(id, "pause", lambda own: [*own.gaps, Gap(-1, None, "paused")])

    def _resume(self, id: str) -> None:
        self._change(id, "resume", lambda own: [*own.gaps[:-1], own.gaps[-1]._replace(last=-1)])

    def _change(self, id: str, what: str, changed: Callable[[Registration], list[Gap]]) -> None:
        """`changed` tells the gaps, where -1 is a document that the service names."""
        own = self.now[id]
        reply = self._asked("POST", f"/v1/subscriptions/{id}/{what}")
        gaps = _gaps(reply)
        if what == "resume" and own.limit is not None and not own.halted and gaps != own.gaps:
            # It was suspended just before.
            own.gaps = [*own.gaps, gaps[len(own.gaps)]]
            assert own.gaps[-1].status == "suspended"
        elif own.halted != (what == "pause"):
            wanted = changed(own)
            if len(gaps) >= len(wanted):
                here = len(wanted) - 1
                named = _named(wanted[here], gaps[here])
                if gaps[here] == named:
                    own.gaps = [*wanted[:here], named]
        self._agree(own, reply)


def _named(wanted: Gap, told: Gap) -> Gap:
    """The registration with the document from which the service counts it."""
    if wanted.first == -1:
        return wanted._replace(first=told.first)
    assert wanted.last == -1
    assert told.last is not None
    assert told.last >= wanted.first
    return wanted._replace(last=told.last)


def _canonical(text: str) -> str:
    (resolved,) = xscl.check([xscl.parse(text)]).queries
    return resolved.text


def _gaps(told: dict[str, Any]) -> list[Gap]:
    return [Gap(gap["first_doc"], gap["to_doc"], gap["status"]) for gap in told["gaps"]]

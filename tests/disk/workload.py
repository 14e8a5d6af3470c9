"""What is done to a state while its disk is watched, and what has to be there afterwards.

One thread does all that a service does to its files: it accepts documents, matches, hands over and
keeps house. Facts are what somebody outside was told: they hold whatever comes after them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import xscl
from broker.delivery import MailboxError
from broker.errors import BrokerError
from broker.query.prepared import compile_query
from broker.service.core.core import Core
from broker.service.core.errors import ServiceError
from broker.service.intake import Intake
from broker.service.maintenance import Maintenance
from broker.state.store import DatabaseError
from feeds.spool import SpoolError, read_rows
from tests.service.data import ORDERS, order, settings

HONEST = (
    BrokerError,
    ServiceError,
    SpoolError,
    MailboxError,
    DatabaseError,
    OSError,
    sqlite3.Error,
)
"""What may be raised where the disk fails."""

_TRIES = 3


class Fact(NamedTuple):
    """Something that was asked for; a document that was accepted; a subscription that is there, or
    is not any more; a match, with its number in the log, that was read."""

    kind: Literal["asked", "accepted", "there", "gone", "read"]
    what: str
    n: int = 0


@dataclass(slots=True)
class Known:
    """What is to be there, by the facts. `unsure` are the documents and subscriptions of which
    nobody outside knows whether they are: there was an error."""

    accepted: list[str] = field(default_factory=list)
    there: set[str] = field(default_factory=set)
    read: dict[int, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    _asked: str = ""

    def learn(self, fact: Fact) -> None:
        match fact.kind:
            case "asked":
                self._asked = fact.what
                return
            case "accepted":
                self.accepted.append(fact.what)
            case "there":
                self.there.add(fact.what)
            case "gone":
                self.there.discard(fact.what)
            case "read":
                self.read[fact.n] = fact.what
        self._asked = ""

    def may_be(self) -> set[str]:
        """What is unsure, and what was asked for and not answered."""
        return self.unsure | set(self._asked.split())


class Work:
    """Steps, each of which may fail; `told` gets each fact. `errors` are those that were raised.
    A start that is refused is tried again, up to `starts` times."""

    def __init__(self, state: Path, told: Callable[[Fact], object], starts: int = 1) -> None:
        self._told = told
        self.errors: list[BaseException] = []
        self.unsure: set[str] = set()
        self.core = self._started(state, starts)
        self._intake = Intake(self.core, lambda: 1.0)
        self._upkeep = Maintenance(self.core)
        self._read = 0

    def _started(self, state: Path, starts: int) -> Core:
        for _ in range(starts - 1):
            try:
                return Core(settings(state, intake={"min_free": "1 B"}))
            except HONEST as error:
                self.errors.append(error)
        return Core(settings(state, intake={"min_free": "1 B"}))

    def _insist(self, step: Callable[[], object], what: str = "") -> None:
        """Try until it is done: somebody who got an error asks again."""
        for _ in range(_TRIES):
            if what:
                self._told(Fact("asked", what))
            try:
                step()
                return
            except HONEST as error:
                self.errors.append(error)
                self.unsure |= set(what.split())
                with suppress(*HONEST):
                    self.core.mend()  # as the pipeline and the upkeep do

    def run(self) -> None:
        """All steps."""
        self.subscribe(ORDERS, "orders")
        self.publish(range(6))
        self.match()
        self.read()
        self.house()
        self.subscribe("seldom: SELECT p FROM S//order[./part->p][./site = 'Kiel'];", "seldom")
        for begin in range(6, 18, 3):
            self.publish(range(begin, begin + 3))
            self.match()
            self.read()
        self.drop("seldom")
        self.house()
        self.together(range(100, 120))
        self.publish(range(18, 21))
        self.match()
        self.house()
        self.together(range(200, 330), size=9_000)  # too much for the file of recent ones
        self.match()
        self.read()
        self.together(range(300, 320))
        self.match()
        self.house()
        self.together(range(400, 420))
        self.house()

    def subscribe(self, text: str, id: str) -> None:
        core = self.core

        def step() -> None:
            program = xscl.check([xscl.parse(text)])
            with core.lock:
                core.engine.subscribe([compile_query(q) for q in program.queries], core.now())
            self._told(Fact("there", id))

        self._insist(step, id)

    def drop(self, id: str) -> None:
        core = self.core

        def step() -> None:
            with core.lock:
                core.empty_outbox()
                if core.engine.registered(prefix=id, limit=1):
                    core.engine.unsubscribe(id)
                core.mailbox.drop(id)
            self._told(Fact("gone", id))

        self._insist(step, id)

    def publish(self, numbers: range) -> None:
        for number in numbers:

            def step(number: int = number) -> None:
                self._intake.publish("S", [order(number, id=str(number))])
                self._told(Fact("accepted", str(number)))

            self._insist(step, str(number))

    def together(self, numbers: range, size: int = 0) -> None:
        """Publish documents of a size at once."""
        ids = [str(number) for number in numbers]

        def step() -> None:
            self._intake.publish("S", [order(id, id=id, site=_site(id, size)) for id in ids])
            for id in ids:
                self._told(Fact("accepted", id))

        self._insist(step, " ".join(ids))

    def match(self) -> None:
        core = self.core

        def step() -> None:
            core.empty_outbox()
            rows = list(read_rows(core.reading, core.position, 2**62))
            if rows:
                core.apply(rows)

        self._insist(step)

    def read(self) -> None:
        """As a client reads the log, from where it was."""

        def step() -> None:
            for found in self.core.mailbox.matches("orders", self._read):
                self._read = found.n
                self._told(Fact("read", found.match.values["p"][0], found.n))

        self._insist(step)

    def house(self) -> None:
        for task in (self._upkeep.tick, self.core.trim, self._upkeep.retain, self._upkeep.compact):
            self._insist(task)

    def close(self) -> None:
        with suppress(*HONEST):
            self.core.close()


def _site(id: str, size: int) -> str:
    """A text of a document, which is longer in large ones."""
    return "Kiel" if size < 1_000 else f"Kiel {id} " * 900


def judge(state: Path, known: Known) -> None:
    """Open a state as a start does, let it go on, and see that all is there. AssertionError if
    anything is not; the errors of a state that is refused as they are."""
    work = Work(state, lambda fact: None)
    try:
        core = work.core
        told = [event.text for event in core.mailbox.events(limit=1_000)]
        assert not told, f"no file was damaged, but it is told: {told}"
        ids = {each.id for each in core.engine.registered()}
        missing, more = known.there - ids, ids - known.there
        assert missing <= known.may_be(), f"subscriptions are lost: {missing}"
        assert more <= known.may_be(), f"subscriptions are there again: {more}"
        work.match()
        core.empty_outbox()
        assert not work.errors, work.errors
        log = core.mailbox.matches("orders", 0, 10_000)
        found = [each.match.values["p"][0] for each in log]
        assert len(set(found)) == len(found), f"matches are there twice: {found}"
        if "orders" in known.there:
            lost = set(known.accepted) - set(found)
            assert not lost, f"accepted, and no match is found: {sorted(lost)} of {found}"
        extra = set(found) - set(known.accepted)
        assert extra <= known.may_be(), f"matches of documents that were refused: {extra}"
        stored = [each for some in core.engine.relations.history(0, 1_000) for each in some]
        texts = {each.id: each.xml for each in stored if each.source == "post:S"}
        lost = set(known.accepted) - texts.keys()
        assert not lost, f"accepted, and not stored any more: {sorted(lost)}"
        for id, xml in texts.items():
            assert xml == order(id, _site(id, len(xml))).xml, f"{id} is not as it was"
        numbers = {each.n: each.match.values["p"][0] for each in log}
        for n, part in known.read.items():
            assert numbers.get(n) == part, f"match {n} was {part}, and is {numbers.get(n)}"
        # And it goes on.
        work.publish(range(1_000, 1_003))
        work.match()
        assert not work.errors, work.errors
        if "orders" in ids:
            found = [m.match.values["p"][0] for m in core.mailbox.matches("orders", 0, 10_000)]
            assert found[-3:] == ["1000", "1001", "1002"]
    finally:
        work.close()

"""A state of a service whose documents are matched when a test says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import xscl
from broker.delivery import MailboxError
from broker.model import Match
from broker.query.prepared import compile_query
from broker.service.core.agreement import LOST
from broker.service.core.answers import Posted
from broker.service.core.core import Core
from broker.service.intake import Intake
from broker.service.maintenance import Maintenance
from feeds.packs import MOST
from feeds.spool import read_rows
from tests.service.data import PAIR, order, settings

N = 2 * MOST


class Desk:
    """A state whose documents are matched when the test says so. It remembers those of a batch and
    no others, or, if it `remembers`, as many as a service does."""

    def __init__(self, state: Path, *, remembers: bool = False, **more: Any) -> None:
        self._remembers = remembers
        self._settings = settings(state, time={"lateness": "0 s"}, **more)
        self.open()

    def open(self) -> None:
        self.core = Core(self._settings)
        self.intake = Intake(self.core, lambda: 1.0)
        self.upkeep = Maintenance(self.core)

    def subscribe(self, text: str = PAIR) -> None:
        program = xscl.check([xscl.parse(text)])
        self.core.engine.subscribe([compile_query(query) for query in program.queries])

    def publish(self, *documents: Posted) -> None:
        self.intake.publish("S", documents)
        self.match()

    def match(self) -> None:
        while rows := [*read_rows(self.core.reading, self.core.position, 2**62)]:
            if not self._remembers:
                self.core.engine.contents.clear()
            self.core.apply(rows)

    def found(self) -> list[Match]:
        return [delivered.match for delivered in self.core.mailbox.matches(None, 0, 10_000)]

    def stored(self) -> list[bytes]:
        """What the tables have in place of documents."""
        return [
            xml
            for (xml,) in self.core.engine.store.rows(
                "SELECT xml FROM documents WHERE xml IS NOT NULL ORDER BY doc"
            )
        ]

    def packs(self) -> list[int]:
        with self.core.spool._lock:
            rows = self.core.spool._db.execute("SELECT seq FROM pack ORDER BY seq").fetchall()
        return [seq for (seq,) in rows]

    def events(self) -> list[str]:
        return [event.text for event in self.core.mailbox.events(0, 100) if event.kind == LOST]

    def publish_in_vain(self, *documents: Posted) -> None:
        """Publish documents while the mailbox takes no matches: they stay in the outbox."""

        def refuses(*_: object, **__: object) -> int:
            raise MailboxError("the disk is full")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(self.core.mailbox, "take", refuses)
            with pytest.raises(MailboxError):
                self.publish(*documents)

    def again(self) -> None:
        """The next start."""
        self.core.close()
        self.open()


def orders(count: int = N, name: str = "o", **more: Any) -> list[Posted]:
    return [order(n, id=f"{name}{n}", **more) for n in range(count)]


def pair(part: int) -> str:
    """A part of what a match of an order and a receipt says."""
    return f"<order><part>{part}</part><site>Kiel</site></order>"


def lose(desk: Desk, condition: str) -> None:
    with desk.core.spool._lock:
        for table in ("document", "pack"):
            desk.core.spool._db.execute(f"DELETE FROM {table} WHERE {condition}")

"""Settings, documents and queries for the tests of the service, and the service with its
threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.service.core.answers import Posted
from broker.service.service import Service
from broker.settings.schema import Settings
from tests.waiting import until

PAIR = """
pair: S//order->o[./part->p][./site->s]
      FOLLOWED BY {p = q, 1 hour}
      S//receipt->r[./part->q][./site->t];
"""
ORDERS = "orders: SELECT p FROM S//order[./part->p];"
HOUR = 3_600_000_000


def settings(state: Path, **sections: Any) -> Settings:
    """Durations as text, as a file has them."""
    sections.setdefault("pipeline", {"kind": "local"})
    return Settings(state=state, **sections)


def order(part: object, site: str = "Kiel", **more: Any) -> Posted:
    return Posted(f"<order><part>{part}</part><site>{site}</site></order>".encode(), **more)


def receipt(part: object, site: str = "Kiel", **more: Any) -> Posted:
    return Posted(f"<receipt><part>{part}</part><site>{site}</site></receipt>".encode(), **more)


class Publisher(threading.Thread):
    """Publishes orders, one after the other, until it is stopped; `count` are accepted."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self.service = service
        self.stop = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self.stop.is_set():
            accepted = self.service.intake.publish(
                "S", [order(self.count, id=f"o{self.count + 1}")]
            )
            assert accepted.first == self.count + 1
            self.count += 1

    def __enter__(self) -> Publisher:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.join()


@contextmanager
def serving(state: Path, **sections: Any) -> Iterator[Service]:
    service = Service(settings(state, **sections))
    service.start()
    try:
        yield service
    finally:
        assert service.stop()


def applied(service: Service, number: int) -> None:
    """Until the documents up to a number are matched and what they complete is in the mailbox."""

    def done() -> bool:
        figures = service.figures()
        engine = figures.engine
        return (
            figures.spool.applied >= number and engine is not None and not engine.matches_in_outbox
        )

    until(done)


def found(service: Service, subscription: str) -> list[list[str]]:
    """The ids of the documents of each match, in order."""
    matches = service.mailbox.matches(subscription, limit=100_000)
    return [[document.id for document in each.match.documents] for each in matches]

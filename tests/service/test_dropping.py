"""Subscriptions that are dropped, and added again with the same id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.service.core.answers import ChannelSpec, Pending
from broker.service.core.errors import NotFound
from broker.service.service import Service
from tests.service.data import ORDERS, order, settings
from tests.waiting import until

PULL = ChannelSpec("pull")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(settings(tmp_path / "state"))
    service.start()
    yield service
    assert service.stop()


def publish(service: Service, id: str) -> None:
    last = service.intake.publish("S", [order(1, id=id)]).last

    def handed_over() -> bool:
        with service.lock:
            return service.core.position >= last and not service.engine.undelivered(1)

    until(handed_over)


def logged(service: Service) -> list[str]:
    return [each.match.documents[0].id for each in service.mailbox.matches("orders")]


def test_what_was_dropped_to_be_delivered_outlives_a_successor_that_is_not(
    service: Service,
) -> None:
    service.subscriptions.subscribe(ORDERS, channels=[PULL])
    publish(service, "o1")
    service.subscriptions.drop("orders", "deliver")
    service.subscriptions.subscribe(ORDERS, channels=[PULL])
    publish(service, "o2")
    service.subscriptions.drop("orders", "drop")
    assert logged(service) == ["o1"]
    with pytest.raises(NotFound):
        service.subscriptions.drop("orders", "drop")
    (left,) = service.channels.pull("orders.pull")
    assert left.match.documents[0].id == "o1"
    service.channels.ack("orders.pull", left.n)
    assert service.channels.all() == []


@pytest.mark.parametrize(("pending", "left"), [("drop", []), ("deliver", ["o1"])])
def test_a_drop_that_was_cut_off_is_finished_when_it_is_asked_for_again(
    service: Service, pending: Pending, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine has committed, and the mailbox has not been told; nobody else knows the id."""
    service.subscriptions.subscribe(ORDERS)
    publish(service, "o1")
    monkeypatch.setattr(service.mailbox, "drop", _aborted)
    with pytest.raises(ConnectionAbortedError):
        service.subscriptions.drop("orders", pending)
    monkeypatch.undo()
    assert service.subscriptions.page() == []
    assert logged(service) == ["o1"]
    service.subscriptions.drop("orders", pending)
    assert logged(service) == left
    with pytest.raises(NotFound):
        service.subscriptions.drop("orders", pending)


def _aborted(*_: object) -> None:
    raise ConnectionAbortedError

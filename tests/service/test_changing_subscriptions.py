"""Subscriptions of a service that runs: changed, dropped, suspended, with history, channels and throttles."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.delivery import Throttle
from broker.model import Limit
from broker.query.prepared import forget
from broker.service.core.answers import ChannelSpec
from broker.service.core.errors import Invalid, NotFound
from broker.service.service import Service
from broker.state.store import Store
from tests.service.data import (
    HOUR,
    ORDERS,
    PAIR,
    Publisher,
    applied,
    found,
    order,
    receipt,
    serving,
)
from tests.waiting import PATIENCE, until
from xscl import XsclError


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "state") as service:
        yield service


def test_subscriptions_change_while_documents_flow_without_a_gap(service: Service) -> None:
    """Documents are numbered as they are accepted, so what a subscription saw can be said
    exactly."""
    with Publisher(service) as publisher:

        def flow(more: int = 40) -> None:
            count = publisher.count
            until(lambda: service.figures().spool.applied > count + more)

        flow()
        (early,) = service.subscriptions.subscribe("early: " + ORDERS.partition(": ")[2])
        flow()
        (late,) = service.subscriptions.subscribe("late: " + ORDERS.partition(": ")[2])
        flow()
        paused = service.subscriptions.pause("early").gaps[-1]
        flow()
        resumed = service.subscriptions.resume("early").gaps[-1]
        flow()
        (replaced,) = service.subscriptions.subscribe(
            "late: SELECT p FROM S//order[./part->p][./site->s];"
        )
        flow()
    applied(service, publisher.count)
    end = publisher.count + 1
    assert resumed.to_doc is not None
    assert early.registered.first_doc < late.registered.first_doc < paused.first_doc
    assert paused.first_doc < resumed.to_doc < replaced.registered.first_doc < end
    assert replaced.outcome == "replaced"
    seen = [*range(early.registered.first_doc, paused.first_doc), *range(resumed.to_doc, end)]
    assert found(service, "early") == [[f"o{n}"] for n in seen]
    assert found(service, "late") == [[f"o{n}"] for n in range(late.registered.first_doc, end)]


def test_subscribing_again_goes_on(service: Service) -> None:
    service.subscriptions.subscribe(ORDERS)
    applied(service, service.intake.publish("S", [order(1)]).last)
    (again,) = service.subscriptions.subscribe(ORDERS)
    assert (again.outcome, again.registered.first_doc) == ("unchanged", 1)
    texts = service.subscriptions.subscribe(PAIR + ORDERS)
    assert [each.outcome for each in texts] == ["new", "unchanged"]
    assert [each.id for each in service.subscriptions.page()] == ["orders", "pair"]
    assert [each.id for each in service.subscriptions.page(prefix="p")] == ["pair"]
    assert [each.id for each in service.subscriptions.page(after="orders", limit=1)] == ["pair"]
    service.subscriptions.pause("pair")
    assert [each.id for each in service.subscriptions.page(status="paused")] == ["pair"]
    assert [each.id for each in service.subscriptions.page(status="active")] == ["orders"]


def test_what_is_wrong_is_said_and_changes_nothing(service: Service) -> None:
    pull = ChannelSpec("pull", "mine")
    for text in ("pair: S//order->", "pair: S//order PUBLISH x; again: S//order PUBLISH x;"):
        with pytest.raises(XsclError):
            service.subscriptions.subscribe(
                text, throttle=Throttle(None, HOUR), channels=[ChannelSpec("pull")]
            )
    with pytest.raises(Invalid, match="the text has 2 queries"):
        service.subscriptions.subscribe(PAIR + ORDERS, channels=[pull])
    with pytest.raises(Invalid, match="no query"):
        service.subscriptions.subscribe("-- nothing")
    with pytest.raises(Invalid):
        service.subscriptions.subscribe(
            ORDERS, channels=[pull, ChannelSpec("webhook", settings={"url": "x"})]
        )
    service.subscriptions.subscribe("a: SELECT p FROM S//order[./part->p] PUBLISH made;")
    with pytest.raises(XsclError, match="made is published by"):
        service.subscriptions.subscribe(
            "b: S//order PUBLISH made;", throttle=Throttle(None, 1), channels=[pull]
        )
    assert service.channels.all() == []
    assert service.mailbox.throttle("b") is None
    assert [each.id for each in service.subscriptions.page()] == ["a"]
    for call in (
        service.subscriptions.pause,
        service.subscriptions.resume,
        service.subscriptions.drop,
        service.subscriptions.get,
    ):
        with pytest.raises(NotFound, match="there is no subscription 'none'"):
            call("none")


def test_channels_and_throttles_are_there_before_the_first_match(
    service: Service, tmp_path: Path
) -> None:
    with Publisher(service) as publisher:
        until(lambda: publisher.count > 20)
        file = ChannelSpec(
            "file", settings={"path": str(tmp_path / "out.jsonl"), "format": "jsonl"}
        )
        (one,) = service.subscriptions.subscribe(ORDERS, channels=[file, ChannelSpec("pull")])
        (two,) = service.subscriptions.subscribe(
            "site: SELECT s FROM S//order[./site->s];", throttle=Throttle("s", HOUR)
        )
        until(lambda: publisher.count > 60)
    applied(service, publisher.count)
    first = one.registered.first_doc
    expected = [f"o{n}" for n in range(first, publisher.count + 1)]
    pulled = service.channels.pull("orders.pull", publisher.count)
    assert [each.match.documents[0].id for each in pulled] == expected
    service.channels.ack("orders.pull", pulled[4].n)
    left = service.channels.pull("orders.pull", publisher.count)
    assert len(left) == len(expected) - 5

    def written() -> list[str]:
        lines = (tmp_path / "out.jsonl").read_text().splitlines()
        return [json.loads(line)["documents"][0]["id"] for line in lines]

    until(lambda: len(written()) == len(expected))
    assert written() == expected
    assert found(service, "site") == [[f"o{two.registered.first_doc}"]]


def test_history(service: Service) -> None:
    last = service.intake.publish(
        "S", [order(1, id="o1"), order(2, id="o2"), receipt(1, id="r1")]
    ).last
    applied(service, last)
    dry = service.subscriptions.dry_run(PAIR)
    assert (dry.documents, len(dry.matches)) == (3, 1)
    assert service.subscriptions.page() == []
    assert service.subscriptions.dry_run(ORDERS, most=1).suspended == ("orders",)
    (pair,) = service.subscriptions.subscribe(PAIR, backfill=HOUR)
    assert pair.history is not None
    assert [match.id for match in pair.history.matches] == [match.id for match in dry.matches]
    assert pair.registered.first_doc == 1
    applied(service, service.intake.publish("S", [receipt(2, id="r2")]).last)
    assert found(service, "pair") == [["o1", "r1"], ["o2", "r2"]]


def test_dropping(service: Service) -> None:
    service.subscriptions.subscribe(ORDERS, channels=[ChannelSpec("pull")])
    service.subscriptions.subscribe(PAIR, channels=[ChannelSpec("pull")])
    applied(service, service.intake.publish("S", [order(1), receipt(1)]).last)
    service.subscriptions.drop("orders", "drop")
    assert [channel.name for channel in service.channels.all()] == ["pair.pull"]
    service.subscriptions.drop("pair", "deliver")
    (left,) = service.channels.pull("pair.pull")
    service.channels.ack("pair.pull", left.n)
    until(lambda: service.channels.all() == [])
    assert service.subscriptions.page() == []
    applied(service, service.intake.publish("S", [order(2), receipt(2)]).last)
    assert service.figures().mailbox.taken == 2


def test_one_that_is_dropped_while_it_matches_leaves_nothing(service: Service) -> None:
    """Between the commit of a batch and the mailbox's there is no room for a drop."""
    service.subscriptions.subscribe(ORDERS, channels=[ChannelSpec("pull")])
    committed, dropping = threading.Event(), threading.Event()
    take = service.mailbox.take

    def taken(*given: Any) -> int:
        committed.set()
        dropping.wait(PATIENCE)
        until(lambda: service.lock._queue)  # the one who drops waits for its turn
        return take(*given)

    service.mailbox.take = taken  # type: ignore[method-assign, assignment]
    last = service.intake.publish("S", [order(1)]).last

    def drop() -> None:
        committed.wait(PATIENCE)
        dropping.set()
        service.subscriptions.drop("orders", "drop")

    thread = threading.Thread(target=drop)
    thread.start()
    thread.join()
    applied(service, last)
    (again,) = service.subscriptions.subscribe(ORDERS, channels=[ChannelSpec("pull")])
    assert again.registered.first_doc == last + 1
    assert service.mailbox.matches("orders") == []
    assert service.channels.pull("orders.pull") == []


def test_one_that_matches_too_much_is_suspended_and_its_owner_told(service: Service) -> None:
    service.subscriptions.subscribe(ORDERS, limit=Limit.of(3, HOUR), channels=[ChannelSpec("pull")])
    service.subscriptions.subscribe(
        "events: SELECT s FROM broker.events//broker-event[./subject->s];"
    )
    service.subscriptions.subscribe("calm: SELECT p FROM S//order[./part->p];")
    applied(service, service.intake.publish("S", [order(n, id=f"o{n}") for n in range(10)]).last)
    assert found(service, "orders") == [["o0"], ["o1"], ["o2"]]
    assert len(found(service, "calm")) == 10
    suspended = service.subscriptions.get("orders")
    assert (suspended.status, suspended.gaps[-1].first_doc) == ("suspended", 4)
    until(lambda: found(service, "events"))
    (event,) = service.mailbox.matches("events")
    assert event.match.values == {"s": ["orders"]}
    assert service.figures().suspended == ("orders",)
    assert [e.subscription for e in service.mailbox.events()] == ["orders"]
    assert [e.kind for e in service.mailbox.events()] == ["subscription.suspended"]
    service.subscriptions.resume("orders")
    assert service.figures().suspended == ()


def test_one_that_is_refused_when_the_state_is_opened_is_suspended_and_its_owner_told(
    tmp_path: Path,
) -> None:
    """Before the first document, whose time is not set by this."""
    state = tmp_path / "state"
    with serving(state) as service:
        service.subscriptions.subscribe(
            "q: S//a FOLLOWED BY {1 h} NOT S//b;"
            "events: SELECT s FROM broker.events//broker-event[./subject->s];"
        )
    store = Store(state)
    store.run("UPDATE subscriptions SET text = 'S//a FOLLOWED BY NOT S//b' WHERE id = 'q'")
    store.close()
    forget()
    with serving(state) as service:
        until(lambda: found(service, "events"))
        (event,) = service.mailbox.matches("events")
        assert event.match.values == {"s": ["q"]}
        assert [e.subscription for e in service.mailbox.events()] == ["q"]
        with pytest.raises(XsclError, match="negation-window"):
            service.subscriptions.resume("q")
        service.subscriptions.subscribe("archive: SELECT p FROM S//order[./part->p];")
        old = order(1, id="o1", timestamp=10**15)
        applied(service, service.intake.publish("S", [old]).last)
        assert found(service, "archive") == [["o1"]]


def test_history_keeps_to_the_limit_that_comes_with_it(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as service:
        service.subscriptions.subscribe(ORDERS)
        applied(
            service, service.intake.publish("S", [order(1, id=f"o{n}") for n in range(10)]).last
        )
        (done,) = service.subscriptions.subscribe(
            ORDERS.replace("orders:", "few:"), backfill=HOUR, limit=Limit.of(4, HOUR)
        )
        assert done.history is not None
        assert (len(done.history.matches), done.history.suspended) == (4, ("few",))
        assert done.registered.status == "suspended"


def test_a_throttle_is_for_values_that_matches_have(tmp_path: Path) -> None:
    """Also one that was there before the text was replaced: all matches would count as one
    value."""
    with serving(tmp_path / "state") as service:
        service.subscriptions.subscribe(ORDERS, throttle=Throttle("p", HOUR))
        other = "orders: SELECT q FROM S//order[./part->q];"
        with pytest.raises(Invalid, match="no values of p; they have those of q"):
            service.subscriptions.subscribe(other)
        service.subscriptions.subscribe(other, throttle=Throttle("q", HOUR))

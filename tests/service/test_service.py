"""The service with its threads: it stops and goes on, figures, dead letters, feeds."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.delivery import Throttle
from broker.service.core.answers import ChannelSpec, Posted
from broker.service.core.errors import Draining, Invalid, NotFound, Starting
from broker.service.health import STALLED, reasons
from broker.service.service import Service
from broker.service.status import EngineFigures
from broker.state.store import StateError
from tests.feeds.data import rss
from tests.feeds.site import Site
from tests.service.data import (
    HOUR,
    ORDERS,
    PAIR,
    applied,
    found,
    order,
    receipt,
    serving,
    settings,
)
from tests.waiting import PATIENCE, until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "state") as service:
        yield service


# -- life ------------------------------------------------------------------------------------


def test_it_stops_and_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as service:
        token = service.token
        (pair,) = service.subscriptions.subscribe(PAIR)
        assert (pair.outcome, pair.registered.id, pair.registered.first_doc) == ("new", "pair", 1)
        applied(service, service.intake.publish("S", [order(1, id="o")]).last)
        assert service.figures().state == "running"
    with pytest.raises(Starting):
        service.intake.publish("S", [order(1)])
    with pytest.raises(Starting):
        service.subscriptions.subscribe(PAIR)
    with serving(tmp_path / "state") as again:
        assert again.token == token
        assert (tmp_path / "state" / "token").stat().st_mode & 0o077 == 0
        applied(again, again.intake.publish("S", [receipt(1, id="r")]).last)
        assert found(again, "pair") == [["o", "r"]]
        assert again.figures().engine_age < 10_000_000


def test_one_state_has_one_service(service: Service) -> None:
    with pytest.raises(StateError, match="another process uses this state"):
        Service(settings(service.state)).start()


def test_while_it_stops_nothing_is_accepted_and_all_may_be_asked(service: Service) -> None:
    service.subscriptions.subscribe(ORDERS)
    service.intake.publish("S", [order(1, id="o")])
    assert service.halt(30)
    with pytest.raises(Draining):
        service.intake.publish("S", [order(2)])
    assert service.figures().state == "draining"
    assert service.subscriptions.page()[0].id == "orders"
    assert service.channels.all() == []


def test_what_is_accepted_while_it_stops_is_matched_later(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as service:
        service.subscriptions.subscribe(ORDERS)
        accepted: list[int] = []

        def publish() -> None:
            try:
                while True:
                    accepted.append(service.intake.publish("S", [order(1)]).last)
            except Draining:
                pass

        threads = [threading.Thread(target=publish) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(accepted) > 50)
        service.drain()
        for thread in threads:
            thread.join()
    with serving(tmp_path / "state") as service:
        applied(service, max(accepted))
        assert sorted(accepted) == list(range(1, len(accepted) + 1))
        assert len(found(service, "orders")) == len(accepted)


def test_while_documents_wait_the_engine_is_asked_for_figures_once_a_second(
    service: Service,
) -> None:
    figures, at = EngineFigures(service.core), service.core.now()

    def subscriptions(later: int, waits: bool) -> int:
        counted, _, _ = figures.read(at + later, waits)
        assert counted is not None
        return counted.subscriptions

    assert subscriptions(0, waits=True) == 0
    service.subscriptions.subscribe(ORDERS)
    assert subscriptions(999_999, waits=True) == 0
    assert subscriptions(1_000_000, waits=True) == 1
    service.subscriptions.subscribe(PAIR)
    assert subscriptions(1_000_001, waits=True) == 1
    assert subscriptions(1_000_002, waits=False) == 2
    service.subscriptions.drop("pair")
    # A clock that was set back does not keep them.
    assert subscriptions(0, waits=True) == 1


def test_figures_wait_for_nobody(service: Service) -> None:
    before = service.figures()
    held, done = threading.Event(), threading.Event()

    def long_history() -> None:
        with service.lock:
            held.set()
            done.wait(PATIENCE)

    thread = threading.Thread(target=long_history)
    thread.start()
    held.wait(PATIENCE)
    last = service.intake.publish("S", [order(1)]).last  # documents are accepted meanwhile
    figures = service.figures()
    assert figures.engine == before.engine
    assert figures.engine_age >= before.engine_age
    assert (figures.spool.backlog, figures.spool.last) == (1, last)
    assert figures.spool.oldest is not None
    # Nobody is told to worry before it has lasted.
    assert reasons(figures, 0) == []
    later = replace(figures, at=figures.at + STALLED + 2_000_000)
    (stalled,) = reasons(later, 0)
    assert stalled.code == "stalled"
    assert re.fullmatch(r"no document was matched for 6\d s, and 1 wait", stalled.message)
    assert reasons(replace(later, spool=replace(later.spool, backlog=0)), 0) == []
    assert reasons(replace(later, state="draining"), 0)[0].code == "draining"
    done.set()
    thread.join()
    applied(service, last)
    assert service.figures().spool.backlog == 0


def test_a_database_that_has_given_up_is_opened_again_and_figures_stay(service: Service) -> None:
    """As after a checkpoint on a full disk: whatever is asked of the connection fails."""
    service.subscriptions.subscribe(ORDERS)
    applied(service, service.intake.publish("S", [order(1, id="a")]).last)
    before = service.figures().engine
    with service.lock:
        service.engine.store.connection.close()
        assert service.figures().engine == before
    applied(service, service.intake.publish("S", [order(2, id="b")]).last)
    assert found(service, "orders") == [["a"], ["b"]]
    assert service.figures().pipeline.failure is None


# -- what was kept aside ---------------------------------------------------------------------


def test_dead_letters_can_be_sent_on_their_way_again(tmp_path: Path) -> None:
    late = 10 * HOUR
    with serving(tmp_path / "state", time={"lateness": "1 h"}) as service:
        service.subscriptions.subscribe(ORDERS)
        documents = [
            order(1, id="new", timestamp=20 * HOUR),
            order(2, id="late", timestamp=late),
            Posted(b"<torn", id="torn"),
        ]
        applied(service, service.intake.publish("S", documents).last)
        one, other = service.letters.page()
        assert (one.id, one.streams, other.id) == ("late", ("S",), "torn")
        assert service.letters.page(after=one.number) == [other]
        again = service.letters.resubmit(one.number)
        assert again.ids == ("late",)
        applied(service, again.last)
        assert [letter.id for letter in service.letters.page()] == [
            "torn",
            "late",
        ]  # it is still late
        with pytest.raises(NotFound, match="there is no dead letter 1"):
            service.letters.resubmit(one.number)
    with serving(tmp_path / "state", time={"lateness": "12 h"}) as service:
        applied(service, service.letters.resubmit(service.letters.page()[-1].number).last)
        assert found(service, "orders") == [["new"], ["late"]]
        assert service.letters.forget(numbers=[other.number]) == 1
        assert service.letters.page() == []


# -- feeds -----------------------------------------------------------------------------------


def test_feeds_are_fetched_and_can_be_changed(tmp_path: Path) -> None:
    with (
        Site({"/f": rss("<title>a</title>"), "/g": rss("<title>b</title>")}) as site,
        serving(
            tmp_path / "state", feeds={"urls": [site.url("/f")], "allow_private": True}
        ) as service,
    ):
        service.subscriptions.subscribe("items: SELECT t FROM S//item[./title->t];", backfill=HOUR)
        until(lambda: service.figures().spool.last == 1)
        assert [feed.url for feed in service.feeds.all()] == [site.url("/f")]
        with pytest.raises(Invalid, match=r"private address; .*allow_private"):
            service.feeds.add(site.url("/g"))
        assert service.feeds.add(site.url("/g"), allow_private=True).status == "active"
        until(lambda: service.figures().spool.applied == 2)
        assert service.feeds.pause(site.url("/f")).status == "paused"
        figures = service.figures().feeds
        assert (figures.active, figures.paused, figures.failing, figures.failure) == (1, 1, 0, None)
        assert service.feeds.resume(site.url("/f")).status == "active"
        requests = len(site.asked)
        assert service.feeds.refresh(site.url("/g")).status == "active"
        until(lambda: len(site.asked) > requests)
        service.feeds.remove(site.url("/g"))
        feeds = service.feeds
        for call in (feeds.remove, feeds.pause, feeds.resume, feeds.refresh, feeds.edit):
            with pytest.raises(NotFound):
                call(site.url("/g"))
        for wrong in ("ftp://a.example/", str(tmp_path / "state" / "token"), "file:///etc/hosts"):
            with pytest.raises(Invalid):
                service.feeds.add(wrong)
        until(lambda: any("b" in m.match.values["t"] for m in service.mailbox.matches("items")))


def test_settings_that_cannot_be_are_told_at_the_start(tmp_path: Path) -> None:
    for url, said in (("gopher://a.example/", "gopher"), ("http://10.0.0.1/f", "allow_private")):
        service = Service(settings(tmp_path / "state", feeds={"urls": [url]}))
        with pytest.raises(ValueError, match=said):
            service.start()
    with serving(tmp_path / "state"):
        pass  # nothing of it stayed open


def test_what_could_never_be_delivered_is_refused(service: Service) -> None:
    hook = "http://{}/hook"
    refused = [
        *(
            (
                {"channels": [ChannelSpec("webhook", None, {"url": hook.format(host)})]},
                "is a private address; delivery.allow_private allows them",
            )
            for host in (
                *("localhost:8000", "LOCALHOST.", "a.localhost", "10.0.0.1", "[::1]"),
                *("127.1", "2130706433", "0x7f.1", "127.0.0.1.", "[::ffff:127.0.0.1]"),
            )
        ),
        ({"throttle": Throttle("nobody", 1)}, "no values of nobody; they have those of t"),
        ({"channels": [ChannelSpec("mail", None, {"to": "a@courier.example"})]}, "no mail server"),
        (
            {
                "channels": [
                    ChannelSpec("webhook", None, {"url": "http://a.example", "events": ["no.such"]})
                ]
            },
            "there is no 'no.such'; there are match, channel.disabled",
        ),
    ]
    for asked, reason in refused:
        with pytest.raises(Invalid, match=re.escape(reason)):
            service.subscriptions.subscribe("one: SELECT t FROM S//book[./title->t];", **asked)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=r"1,200 characters, and may have 1,000"):
        service.subscriptions.subscribe(f"{'x' * 1200}: S//book")
    assert service.subscriptions.page() == []
    assert service.channels.all() == []

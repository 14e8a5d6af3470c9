"""Paused and resumed subscriptions: the documents of a gap are recorded exactly."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker import Broker, XsclError
from broker.figures import figures
from broker.model import Match
from broker.query.prepared import compile_query
from broker.registered import Gap
from tests.engine.test_state import PAIR, item, pairs
from tests.oracle.generate import Batch, Subscribe, steady
from tests.properties.harness import _document
from tests.seeds import seeds
from xscl import check, parse

NOON = 1_800_000_000_000_000


def by(broker: Broker, matches: list[Match]) -> list[tuple[str, tuple[str, ...]]]:
    return sorted((m.query, tuple(d.id for d in m.documents)) for m in matches)


def test_a_paused_subscription_has_an_exact_gap(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        broker.process([item(1), item(2)])
        broker.engine.pause("pair", "holidays", NOON)
        assert broker.process([item(3), item(4)]) == []
    with Broker(tmp_path) as broker:
        one = broker.engine.registered_one("pair")
        assert (one.status, one.reason, one.periods) == ("paused", "holidays", [(1, 3)])
        assert one.gaps == (Gap("paused", "holidays", 3, NOON, None, None),)
        assert list(broker.subscriptions) == ["pair"]
        assert broker.process([item(5)]) == []
        broker.engine.resume("pair", NOON + 1)
        # From the next document on, as if it were new: no match spans the gap.
        assert broker.process([item(6)]) == []
    with Broker(tmp_path) as broker:
        assert pairs(broker.process([item(7)])) == {("6", "7")}
        one = broker.engine.registered_one("pair")
        assert (one.status, one.reason, one.first_doc) == ("active", None, 1)
        assert one.periods == [(1, 3), (6, None)]
        assert one.gaps == (Gap("paused", "holidays", 3, NOON, 6, NOON + 1),)


def test_a_paused_subscription_costs_nothing() -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    broker.engine.pause("pair")
    assert broker.engine.catalog.subscriptions == {}
    assert broker.engine.catalog.canonical == {}
    assert broker.engine.matcher.edges == {}
    broker.process([item(1), item(2)])
    assert broker.engine.store.rows("SELECT count(*) FROM rl") == [(0,)]


def test_to_pause_and_to_resume_twice_is_to_do_it_once() -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    broker.engine.resume("pair")
    broker.engine.pause("pair", "first")
    broker.engine.pause("pair", "second")
    assert [gap.reason for gap in broker.engine.registered_one("pair").gaps] == ["first"]
    broker.engine.resume("pair")
    broker.engine.resume("pair")
    assert len(broker.engine.registered_one("pair").gaps) == 1
    for unknown in (broker.engine.pause, broker.engine.resume, broker.engine.registered_one):
        with pytest.raises(KeyError):
            unknown("none")


def test_the_same_text_stays_paused_and_another_begins_anew(tmp_path: Path) -> None:
    def registered(text: str) -> str:
        (query,) = check([parse(text)]).queries
        (told,) = broker.engine.subscribe([compile_query(query)], NOON)
        return told.outcome

    with Broker(tmp_path) as broker:
        assert registered(PAIR) == "new"
        broker.engine.pause("pair")
        assert registered(PAIR) == "unchanged"
        assert broker.engine.registered_one("pair").status == "paused"
        broker.process([item(1)])
        assert registered(PAIR.replace("1 h", "2 h")) == "replaced"
        one = broker.engine.registered_one("pair")
        assert (one.status, one.first_doc, one.since, one.gaps) == ("active", 2, NOON, ())
        assert registered(PAIR) == "replaced"
        broker.engine.pause("pair")
        broker.unsubscribe("pair")
        assert broker.subscriptions == {}
        assert broker.engine.store.rows("SELECT count(*) FROM gaps") == [(0,)]
    with Broker(tmp_path) as broker:
        assert broker.subscriptions == {}


def test_a_paused_one_keeps_the_stream_that_it_publishes(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe("a: S//i->x PUBLISH p; b: p//i->y;")
        broker.engine.pause("a")
        assert broker.process([item(1)]) == []
    with Broker(tmp_path) as broker:
        with pytest.raises(XsclError, match="published by the subscription a already"):
            broker.subscribe("c: S//i PUBLISH p")
        broker.subscribe("d: q//i PUBLISH r")
        broker.engine.pause("d")
        with pytest.raises(XsclError, match="derived from themselves"):
            broker.subscribe("c: r//i PUBLISH q")
        broker.engine.resume("a")
        assert by(broker, broker.process([item(2)]))[0] == ("a", ("2",))
        assert [m.query for m in broker.process([item(3)])] == ["a", "b"]


def test_of_a_query_that_several_ask_the_others_go_on() -> None:
    broker = Broker()
    broker.subscribe(PAIR + PAIR.replace("pair:", "same:") + PAIR.replace("pair:", "wide:"))
    assert len(broker.engine.catalog.canonical) == 1
    broker.process([item(1)])
    broker.engine.pause("pair")
    assert [m.query for m in broker.process([item(2)])] == ["same", "wide"]
    broker.engine.resume("pair")
    assert [q for q, _ in by(broker, broker.process([item(3)]))] == ["same"] * 2 + ["wide"] * 2
    assert ("pair", ("3", "4")) in by(broker, broker.process([item(4)]))


def test_a_query_with_one_in_its_from_is_paused_with_it() -> None:
    broker = Broker()
    text = "o: (SELECT t AS t FROM S//i->x[./t->t])//t->a JOIN {1 h} S//z->b"
    broker.subscribe(text)
    broker.engine.pause("o")
    assert broker.engine.catalog.subscriptions == {}
    broker.engine.resume("o")
    assert len(broker.engine.catalog.subscriptions) == 2
    assert broker.subscriptions.keys() == {"o"}
    assert [r.id for r in broker.engine.registered()] == ["o"]
    assert figures(broker.engine).subscriptions == 1


@pytest.mark.parametrize("seed", seeds(5, 30))
def test_a_pause_is_to_leave_and_to_come_again(seed: int, tmp_path: Path) -> None:
    """What a resumed subscription matches is what one matches that is registered at that moment."""
    r = Random(seed)
    case = steady(r, "core" if seed % 2 else "full")
    (subscribe, *batches) = case.events
    assert isinstance(subscribe, Subscribe)
    documents = [
        _document(a) for batch in batches if isinstance(batch, Batch) for a in batch.documents
    ]
    cuts = sorted(r.randint(0, len(documents)) for _ in range(3))
    pieces = [documents[a:b] for a, b in zip([0, *cuts], [*cuts, len(documents)], strict=True)]
    answers: list[list[list[tuple[str, str]]]] = []
    for pausing in (True, False):
        broker = Broker(tmp_path / str(pausing), memory=case.memory)
        broker.subscribe(subscribe.text)
        answers.append([])
        for number, piece in enumerate(pieces):
            if pausing and number in (1, 3):
                for id in list(broker.subscriptions):
                    broker.engine.pause(id)
            elif number in (1, 3):
                for id in list(broker.subscriptions):
                    broker.unsubscribe(id)
            if number == 2:
                if pausing:
                    for id in list(broker.subscriptions):
                        broker.engine.resume(id)
                else:
                    broker.subscribe(subscribe.text)
            if pausing:
                broker.close()
                broker = Broker(tmp_path / str(pausing), memory=case.memory)
            answers[-1].append(sorted((m.id, m.result) for m in broker.process(piece)))
        broker.close()
    assert answers[0] == answers[1]


def test_subscriptions_are_listed_in_pages(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        for name in ("b1", "a2", "b3", "a1", "b2"):
            broker.subscribe(f"{name}: S//i")
        broker.engine.pause("b2")
        listed = broker.engine.registered
        assert [r.id for r in listed()] == ["a1", "a2", "b1", "b2", "b3"]
        assert [r.id for r in listed(prefix="b", limit=2)] == ["b1", "b2"]
        assert [(r.id, r.status) for r in listed(prefix="b", after="b1")] == [
            ("b2", "paused"),
            ("b3", "active"),
        ]
        status = figures(broker.engine)
        assert (status.subscriptions, status.paused, status.suspended) == (5, 1, 0)


def test_subscriptions_are_found_by_status() -> None:
    """One that was paused and goes on is active again, whatever its gaps."""
    broker = Broker()
    names = ("a", "b", "c", "d")
    for name in names:
        broker.subscribe(PAIR.replace("pair:", f"{name}:"))
    broker.engine.pause("b")
    broker.engine.pause("c")
    broker.engine.resume("c")

    def found(**which: Any) -> list[str]:
        return [each.id for each in broker.engine.registered(**which)]

    assert found() == [*names]
    assert found(status="active") == ["a", "c", "d"]
    assert found(status="active", after="a", limit=1) == ["c"]
    assert found(status="paused") == ["b"]
    assert found(status="paused", prefix="c") == []
    assert found(status="suspended") == []

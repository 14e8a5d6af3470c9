"""A restarted process continues the state of the former one, also after unusual sequences of
changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker import Broker, Document, Match
from broker.model import Limit

DAY = 86_400
US = 1_000_000


def doc(id: str, at: float, xml: str) -> Document:
    return Document(id, "S", at, xml)


def keyed(name: str, at: float, key: int = 1, number: str = "1") -> Document:
    """An element of a name with a key."""
    return doc(f"{name}{number}", at, f"<{name}><k>{key}</k></{name}>")


def ids(matches: list[Match]) -> list[tuple[str, str]]:
    """Each match by its query and the last of its documents."""
    return sorted((m.query, m.documents[-1].id) for m in matches)


def outer(name: str, days: int, last: str) -> str:
    """Queries that have the one in their FROM in common."""
    inner = "SELECT p AS k FROM S//a->x[./k->p] FOLLOWED BY {p = q, 1 day} S//b->y[./k->q]"
    last_block = f"FOLLOWED BY {{r = s, {days} days}} S//{last}[./k->s]"
    return f"{name}: SELECT r FROM ({inner})/result[./k->r] {last_block}"


def ranked(name: str, days: int) -> str:
    """Queries that differ in their windows only."""
    first, second = "S//a->x[./k->p]", "S//b->y[./k->q]"
    return f"{name}: SELECT x FROM {first} FOLLOWED BY {{p = q, {days} days}} {second}"


@contextmanager
def twice(state: Path) -> Iterator[list[Broker]]:
    """A broker, or two one after the other over one state: the current one is the last."""
    brokers = [Broker(state)]
    try:
        yield brokers
    finally:
        brokers[-1].close()


def again(brokers: list[Broker], state: Path, restart: bool) -> Broker:
    if restart:
        brokers[-1].close()
        brokers.append(Broker(state))
    return brokers[-1]


@pytest.mark.parametrize("restart", [False, True])
def test_a_shared_query_in_from_counts_from_the_earliest_that_anybody_asks(
    restart: bool, tmp_path: Path
) -> None:
    """A registered the inner query; it was paused since, and B counts from before that."""
    with twice(tmp_path) as brokers:
        broker = brokers[0]
        broker.subscribe(outer("A", 7, "c"))
        broker.subscribe(outer("B", 6, "d"))
        broker.process([keyed("a", 0)])
        broker.engine.pause("A")
        broker.engine.resume("A")
        broker = again(brokers, tmp_path, restart)
        found = broker.process([keyed("b", 10)])
        found += broker.process([keyed("c", 20), keyed("d", 20)])
        assert ids(found) == [("B", "d1")]


def test_what_is_taken_back_counts_from_where_it_did() -> None:
    """Taken back in the other order: the later one comes first."""
    broker = Broker()
    broker.subscribe(outer("A", 7, "c"))
    broker.process([keyed("a", 0)])
    broker.subscribe(outer("B", 6, "d"))

    def remove(*names: str) -> None:
        with broker.engine.store.transaction():
            for name in names:
                broker.unsubscribe(name)

    with pytest.raises(KeyError, match="nobody"):
        remove("A", "B", "nobody")
    found = broker.process([keyed("b", 1), keyed("c", 2), keyed("d", 2)])
    assert ids(found) == [("A", "c1")]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("leave", [False, True])
def test_a_shared_query_knows_its_earliest_subscriber_when_others_leave(
    leave: bool, restart: bool, tmp_path: Path
) -> None:
    with twice(tmp_path) as brokers:
        broker = brokers[0]
        for days, name in enumerate("ABC", 1):
            broker.subscribe(ranked(name, days))
        broker.process([keyed("a", 0)])
        broker.engine.pause("B")
        broker.engine.resume("B")
        broker = again(brokers, tmp_path, restart)
        if leave:
            broker.unsubscribe("A")
        found = broker.process([keyed("b", 10)])
        assert ids(found) == [("A", "b1")] * (not leave) + [("C", "b1")]


FILE = (
    "LET NAMESPACE p = 'urn:p'; other: S//p:never; Q: SELECT r FROM"
    " (SELECT x AS k FROM S//a->x[starts-with(@u, 'http://')])/result[./k->r]"
    " FOLLOWED BY {r = s} S//c->s"
)


@pytest.mark.parametrize("restart", [False, True])
def test_a_prefix_that_a_query_does_not_use_is_no_part_of_it(restart: bool, tmp_path: Path) -> None:
    """The stream of a query in FROM is named by what the query says, the same in each process."""
    with twice(tmp_path) as brokers:
        brokers[0].subscribe(FILE)
        brokers[0].process([doc("a1", 0, '<a u="http://x">1</a>')])
        broker = again(brokers, tmp_path, restart)
        assert ids(broker.process([doc("c1", 1, "<c>1</c>")])) == [("Q", "c1")]
        broker.engine.pause("Q")
        broker.engine.resume("Q")
        broker.unsubscribe("Q")
        assert list(broker.subscriptions) == ["other"]


def test_an_id_that_is_given_while_a_state_is_read_is_written_down(tmp_path: Path) -> None:
    """As where the text of a definition is not what an earlier version wrote."""
    with Broker(tmp_path) as broker:
        broker.subscribe("q: S//a->x JOIN {x = y} S//b->y")
        broker.engine.store.run("DELETE FROM variables")
    with Broker(tmp_path) as broker:
        there = dict(broker.engine.catalog.variables)
    with Broker(tmp_path) as broker:
        written = broker.engine.store.rows("SELECT definition, id FROM variables")
        assert dict(written) == dict(broker.engine.catalog.variables) == there


def test_each_suspension_is_told_until_somebody_has_asked_again(tmp_path: Path) -> None:
    limit = Limit.of(1, 10**15)
    with Broker(tmp_path, limit=limit) as broker:
        broker.subscribe("q: S//a->x")
        for now in (10**15, 10**15 + 1):
            broker.process([keyed("a", 0, number=f"{now}{i}") for i in range(2)], now=now / 10**6)
            assert [each.at for each in broker.engine.take_suspensions()] == [now]
            if now == 10**15:
                broker.engine.resume("q", now)
    with Broker(tmp_path, limit=limit) as broker:
        assert [each.at for each in broker.engine.take_suspensions()] == [10**15 + 1]
        assert broker.engine.take_suspensions() == []
    with Broker(tmp_path, limit=limit) as broker:
        assert broker.engine.take_suspensions() == []


def test_documents_of_now_stay_though_a_wrong_clock_was_believed_before(tmp_path: Path) -> None:
    """The highest time is a year ahead; only what the right clock says may expire."""
    now = 1_800_000_000
    with Broker(tmp_path) as broker:
        broker.subscribe(ranked("q", 7))
        ahead = now + 365 * DAY
        broker.process([doc("w", ahead, "<w/>")], now=ahead)
    with Broker(tmp_path) as broker:
        broker.process([keyed("a", now)], now=now)
        for i in range(1, 70):
            broker.process([doc(f"z{i}", now + i, "<z/>")], now=now + i)
        assert ids(broker.process([keyed("b", now + 100)], now=now + 100)) == [("q", "b1")]

"""The feeds of a spool: their states, schedule, rates and hubs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from feeds.hubs import Subscription
from feeds.spool import (
    Batch,
    FeedState,
    Spool,
)
from tests.feeds.spooling import A, B, batch, broken, item


def test_the_state_of_a_feed_is_kept_whole(spool: Spool) -> None:
    assert spool.state(A) == FeedState(A, A)
    state = FeedState(A, B, "T", 'W/"x"', "Mon", 123, 4, "fetch: no", status="gone")
    spool.append(Batch(state, 1))
    assert spool.state(A) == state
    assert spool.feeds() == [state]
    assert spool.last_seq() == 0


def test_managing_the_feeds(spool: Spool) -> None:
    assert spool.add(A)
    assert spool.add(B, "me:secret")
    assert not spool.add(A, "me:$A")
    assert [(state.url, state.login, state.status) for state in spool.feeds()] == [
        (A, "me:$A", "active"),
        (B, "me:secret", "active"),
    ]
    assert "secret" not in repr(spool.feeds())
    assert spool.set_status(A, "paused")
    assert not spool.set_status("http://c.example/", "paused")
    assert spool.schedule() == [(0, B)]
    spool.append(batch(B, item("1", 5)))
    assert spool.remove(B)
    assert not spool.remove(B)
    # Added again, it brings only what is new.
    spool.add(B)
    assert spool.append(batch(B, item("1", 5), item("2", 6))) == 1
    assert spool.append(batch("http://c.example/", item("1", 5)), known_only=True) == 0
    assert [state.url for state in spool.feeds()] == [A, B]


def test_what_is_due_comes_by_time(spool: Spool) -> None:
    for url, next_fetch in ((A, 5), (B, 3), ("http://c.example/", 9)):
        spool.append(Batch(FeedState(url, url, next_fetch=next_fetch), 1))
    assert spool.schedule(until=5) == [(3, B), (5, A)]
    assert spool.schedule() == [(3, B), (5, A), (9, "http://c.example/")]


DAY = 86_400 * 1_000_000


def test_the_spool_counts_what_a_feed_brings(spool: Spool) -> None:
    def fetch(day: int, *items: str) -> float:
        arrival = 1_792_000_000_000_000 + day * DAY
        document = batch(A, *items, arrival=arrival) if items else None
        state = replace(spool.state(A), last_success=arrival)
        channel = document.channel if document else None
        spool.append(Batch(state, arrival, channel))
        rate = spool.state(A).items_per_day
        assert rate is not None
        return rate

    assert fetch(0, item("0")) == 1.0  # without dates, a guess
    rates = [fetch(day, *(item(str(n)) for n in range(day * 3))) for day in range(1, 40)]
    assert rates[-1] == pytest.approx(3.0, rel=0.1)
    rates = [fetch(day) for day in range(40, 80)]  # "not modified", again and again
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.02
    # A failure says nothing of the items.
    before = spool.state(A)
    spool.append(
        Batch(replace(before, errors=1, problem="fetch: no"), before.next_fetch + 90 * DAY)
    )
    assert spool.state(A).items_per_day == before.items_per_day


def test_a_drifting_guid_is_the_same_item(spool: Spool) -> None:
    def linked(guid: str) -> str:
        return (
            item(guid, 5).replace(f"<title>{guid}", "<title>t") + "<link>http://a.example/1</link>"
        )

    assert spool.append(batch(A, linked("http://a.example/?p=1"))) == 1
    assert spool.append(batch(A, linked("https://a.example/?p=1"))) == 0
    assert spool.append(batch(A, linked("tag:a.example,1"), item("2", 6))) == 1


def test_hubs_are_kept_while_documents_name_them(spool: Spool) -> None:
    def hub(address: str, token: str) -> Subscription:
        return Subscription(A, address, A, False, token, "secret")

    spool.append(replace(batch(A, item("1", 5)), hub=hub("http://h.example/", "t1")))
    spool.append(replace(batch(A, item("2", 5)), hub=hub("http://h.example/", "t2")))
    assert [known.token for known in spool.hubs()] == ["t1"]
    assert spool.hub(token="t1") == spool.hub(url=A) == spool.hubs()[0]
    assert spool.hub(token="t2") is None
    spool.append(Batch(FeedState(A, A), 1))  # not modified
    spool.append(broken(A, b"<html/>"))
    spool.append(replace(batch(A, item("3", 5)), pushed=True))
    assert len(spool.hubs()) == 1
    spool.append(replace(batch(A, item("4", 5)), hub=hub("http://i.example/", "t3")))
    assert [known.token for known in spool.hubs()] == ["t3"]
    assert [known.url for known in spool.hubs(due=0)] == [A]
    spool.set_status(A, "paused")
    assert spool.hubs(due=0) == []
    spool.append(batch(A, item("5", 5)))
    assert spool.hubs() == []

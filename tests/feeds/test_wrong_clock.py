"""After a clock was far ahead for a while, nothing is postponed for good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from feeds.fetch import Fetcher
from feeds.hubs import Subscription
from feeds.poll import SECOND, Poller
from feeds.schedule import DAY
from feeds.spool import Spool
from feeds.websub import Subscriber
from tests.feeds.data import rss
from tests.feeds.odd_server import OddServer, response

RIGHT = 1_792_000_000.0
NEWS = rss("<guid>1</guid>")


class Reader:
    """A server, and who reads it by a clock that can be set."""

    def __init__(self, server: OddServer, fetcher: Fetcher, path: Path) -> None:
        self.server, self.fetcher, self.path = server, fetcher, path
        self.clock = RIGHT
        self.spool = Spool(path)

    def now(self) -> float:
        return self.clock

    def poller(self) -> Poller:
        return Poller(
            self.spool,
            self.fetcher,
            [self.server.url("/f")],
            interval=60.0,
            now=self.now,
            chance=lambda: 1.0,
        )

    def subscriber(self) -> Subscriber:
        return Subscriber(self.spool, self.fetcher, now=self.now, chance=lambda: 1.0)

    def subscription(self) -> Subscription:
        (found,) = self.spool.hubs()
        return found

    def restart(self) -> None:
        self.spool.close()
        self.spool = Spool(self.path)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with (
        OddServer({"/f": response("200 OK", NEWS, ETag='"a"')}) as server,
        Fetcher(allow_private=True, now=lambda: reading.clock) as fetcher,
    ):
        reading = Reader(server, fetcher, tmp_path / "spool")
        yield reading
        reading.spool.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_feed_is_fetched_once_the_clock_is_set_right(reader: Reader, restarted: bool) -> None:
    poller = reader.poller()
    reader.clock += 400 * DAY
    assert poller.fetch_wave().fetched == 1
    reader.clock = RIGHT
    if restarted:
        reader.restart()
        poller = reader.poller()
    assert poller.seconds_until_due() == 0.0
    assert poller.fetch_wave().fetched == 1
    # The last whole document seems to come from the future: it is asked for anew.
    assert "if-none-match" not in reader.server.requests[-1][1]
    wait = poller.seconds_until_due()
    assert wait is not None
    assert 0 < wait < DAY
    assert poller.fetch_wave().fetched == 0


def test_a_host_that_asked_for_a_pause_has_it_by_the_right_clock(reader: Reader) -> None:
    poller = reader.poller()
    reader.server.answers["/f"] = response("503 Busy", Retry_After="900")
    reader.clock += 400 * DAY
    poller.fetch_wave()
    reader.clock = RIGHT
    reader.server.answers["/f"] = response("200 OK", NEWS)
    assert poller.fetch_wave().rows == 1


def test_a_wait_that_a_feed_may_have_is_waited(reader: Reader) -> None:
    poller = reader.poller()
    reader.server.answers["/f"] = response("200 OK", NEWS, Cache_Control="max-age=9999999")
    poller.fetch_wave()
    assert poller.seconds_until_due() == pytest.approx(1.1 * DAY)
    assert poller.fetch_wave().fetched == 0


@pytest.mark.parametrize("ahead", [400, 50])
@pytest.mark.parametrize("state", ["active", "wanted", "denied"])
def test_a_hub_is_asked_once_the_clock_is_set_right(reader: Reader, ahead: int, state: str) -> None:
    reader.server.answers["/hub"] = response("202 Accepted")
    subscriber = reader.subscriber()
    feed, hub = reader.server.url("/f"), reader.server.url("/hub")
    reader.spool.add(feed)
    reader.spool.save_hub(Subscription(feed, hub, feed, True, "token", "secret"))
    reader.clock += ahead * DAY
    assert subscriber.renew_due() == 1
    question = {"hub.mode": "subscribe", "hub.topic": feed, "hub.challenge": "x"}
    if state == "active":
        assert subscriber.verify("token", question | {"hub.lease_seconds": str(10 * DAY)[:-2]})
    elif state == "denied":
        assert subscriber.verify("token", question | {"hub.mode": "denied"}) == b""
    assert subscriber.renew_due() == 0
    reader.clock = RIGHT
    assert subscriber.renew_due() == 1
    # What was agreed by the wrong clock counts no more, until the hub has said it again.
    assert subscriber.live() == frozenset()
    asked = reader.subscription()
    assert (asked.state, asked.expires) == ("asked", 0)
    assert asked.next_try <= (RIGHT + DAY) * SECOND
    assert subscriber.verify("token", question) == b"x"
    assert (set(subscriber.live()), subscriber.renew_due()) == ({feed}, 0)


@pytest.mark.parametrize("lease", [60, 10 * 86_400, 366 * 86_400])
def test_a_lease_is_left_alone_until_it_is_to_be_renewed(reader: Reader, lease: int) -> None:
    subscriber = reader.subscriber()
    feed = reader.server.url("/f")
    reader.spool.add(feed)
    reader.spool.save_hub(
        replace(Subscription(feed, feed, feed, True, "token", "secret"), state="asked")
    )
    question = {"hub.mode": "subscribe", "hub.topic": feed, "hub.challenge": "x"}
    assert subscriber.verify("token", question | {"hub.lease_seconds": str(lease)})
    due = []
    for tenth in range(9):
        reader.clock = RIGHT + lease * tenth / 10 + 1
        due.append(len(reader.spool.hubs(due=int(reader.clock * SECOND))))
    assert due == [0] * 8 + [1]

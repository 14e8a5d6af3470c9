"""Polling of feeds on a server that answers as it is told: when they are due, and who waits for whom."""

from __future__ import annotations

import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feeds.fetch import Fetcher
from feeds.poll import SECOND, Poller, Terms, Wave
from feeds.rows import DocumentRow
from feeds.spool import FeedState, Spool
from tests.feeds.data import rss
from tests.feeds.odd_server import OddServer, response
from tests.feeds.test_server_and_poll import Clock
from tests.waiting import PATIENCE, until


class Site:
    """An odd server, a poller of its /f without chance, and time that passes when told to."""

    def __init__(self, server: OddServer, fetcher: Fetcher, spool: Spool, clock: Clock) -> None:
        self.server, self.fetcher, self.spool, self.clock = server, fetcher, spool, clock
        self.url = server.url("/f")
        self.poller = self.poll([self.url])

    def poll(self, feeds: list[str] | None, **settings: Any) -> Poller:
        known: dict[str, Any] = {"interval": 60.0, "now": self.clock, "chance": lambda: 0.0}
        return Poller(self.spool, self.fetcher, feeds, **known | settings)

    def serve(self, *items: str, path: str = "/f", **headers: str) -> None:
        body = rss(*(f"<guid isPermaLink='false'>{name}</guid>" for name in items))
        self.server.answers[path] = response("200 OK", body, **headers)

    def wave(self, seconds: float) -> Wave:
        self.clock.seconds += seconds
        return self.poller.fetch_wave()

    @property
    def sent(self) -> dict[str, str]:
        return self.server.requests[-1][1]


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with (
        OddServer({}) as server,
        Fetcher(allow_private=True, now=clock) as fetcher,
        Spool(tmp_path / "spool") as spool,
    ):
        yield Site(server, fetcher, spool, clock)


DAY = 86_400


def test_not_modified_is_not_believed_for_ever(odd: Site) -> None:
    odd.serve("1", ETag='"always"')
    assert odd.wave(0).rows == 1
    odd.server.answers["/f"] = response("304 Not Modified", ETag='"always"')
    for _ in range(3):
        assert odd.wave(2 * DAY).fetched == 1
        assert odd.sent["if-none-match"] == '"always"'
    # After a week the whole document is asked for, and there was news under the old ETag.
    odd.serve("2", "1", ETag='"always"')
    assert odd.wave(2 * DAY).rows == 1
    assert "if-none-match" not in odd.sent
    # So this ETag says nothing, and is not sent again until the server makes a new one.
    odd.serve("3", ETag='"always"')
    assert odd.wave(DAY).rows == 1
    assert "if-none-match" not in odd.sent
    assert odd.spool.state(odd.url).trusted is False
    odd.serve("4", ETag='"next"')
    assert odd.wave(DAY).rows == 1
    odd.wave(DAY)
    assert odd.sent["if-none-match"] == '"next"'


def test_a_validator_that_held_for_a_week_is_sent_again(odd: Site) -> None:
    odd.serve("1", ETag='"a"')
    odd.wave(0)
    assert odd.wave(8 * DAY).rows == 0
    assert "if-none-match" not in odd.sent
    odd.wave(DAY)
    assert odd.sent["if-none-match"] == '"a"'


def test_a_slow_host_keeps_nobody_else_waiting(odd: Site) -> None:
    release = threading.Event()
    odd.serve("1")
    slow = odd.server.answers["/f"]
    assert isinstance(slow, bytes)

    def answer(send: Callable[[bytes], object]) -> None:
        release.wait(PATIENCE)
        send(slow)

    with OddServer({}, "127.0.0.2") as quick:
        odd.server.answers["/f"] = answer
        quick.answers["/g"] = response("200 OK", rss("<title>q</title>"))
        poller = odd.poll([odd.url, quick.url("/g")])
        first = Wave()

        def fetched() -> bool:
            nonlocal first
            first = poller.fetch_wave(patience=0.1)
            return first.fetched > 0

        until(fetched)
        assert (first.fetched, first.rows, poller.seconds_until_due()) == (1, 1, 0.0)
        assert poller.fetch_wave(patience=0.1) == Wave()
        release.set()
        assert poller.fetch_wave().rows == 1
        assert len(odd.server.requests) == 1


def test_a_feed_that_seldom_brings_anything_is_asked_less_often(odd: Site) -> None:
    days = "".join(
        f"<item><guid isPermaLink='false'>{n}</guid><pubDate>{n:02} Oct 2026 10:00:00 "
        "GMT</pubDate></item>"
        for n in range(1, 13)
    )
    body = rss().replace(b"</channel>", days.encode() + b"</channel>")
    odd.server.answers["/f"] = response("200 OK", body)
    poller = odd.poll(None, interval=900.0)
    poller.fetch_wave()
    rate = odd.spool.state(odd.url).items_per_day
    assert rate is not None
    assert 0.8 < rate < 1.2
    # An eighth of a day between two items.
    assert poller.seconds_until_due() == pytest.approx(DAY / 8 / rate, rel=0.01)
    for _ in range(20):  # and when nothing comes for long, the longest time
        odd.clock.seconds += 30_000
        poller.fetch_wave()
    assert poller.seconds_until_due() == 32 * 900


def test_a_host_that_is_busy_is_left_alone_with_all_its_feeds(odd: Site) -> None:
    odd.serve("1")
    odd.server.answers["/g"] = response("429 Slow Down", Retry_After="600")
    odd.serve("2", path="/h")
    names = [odd.server.url(path) for path in ("/g", "/h")]
    poller = odd.poll(names)
    wave = poller.fetch_wave()
    assert [path for path, _ in odd.server.requests] == ["/g"]
    assert [odd.spool.state(name).errors for name in names] == [1, 0]
    assert odd.spool.state(names[1]).problem == "fetch: the server has asked for time"
    assert [url for url, _ in wave.problems] == names[:1], "only what was asked is said to fail"
    assert poller.seconds_until_due() == pytest.approx(600, abs=1)
    odd.clock.seconds += 601
    assert poller.fetch_wave().fetched == 1
    assert [path for path, _ in odd.server.requests] == ["/g", "/g"]
    # One feed that wants to be left alone for a day does not speak for its whole host.
    odd.server.answers["/g"] = response("429 Slow Down", Retry_After=str(DAY))
    odd.clock.seconds += 601
    poller.fetch_wave()
    odd.clock.seconds += 901
    assert (poller.fetch_wave().rows, len(odd.server.requests)) == (1, 4)


def test_a_login_is_sent_and_shown_nowhere(odd: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWS_PASSWORD", "s3cret:/@")
    odd.serve("1")
    typed = odd.url.replace("http://", "http://me:$NEWS_PASSWORD@")
    poller = odd.poll([typed])
    assert (poller.fetch_wave().rows, poller.sources) == (1, [odd.url])
    assert b64decode(odd.sent["authorization"].removeprefix("Basic ")) == b"me:s3cret:/@"
    (row,) = odd.spool.read(0, 9)
    state = odd.spool.state(odd.url)
    assert state.login == "me:$NEWS_PASSWORD"
    assert "NEWS_PASSWORD" not in repr((row, state, odd.spool.feeds()))
    # The name is missing: a failure of this feed that does not show the login.
    monkeypatch.delenv("NEWS_PASSWORD")
    ((_, problem),) = odd.wave(60).problems
    assert problem == "fetch: the login names $NEWS_PASSWORD, which is not set in the environment"


def test_a_feed_of_somebody_else_is_on_no_private_address_and_in_no_file(
    odd: Site, tmp_path: Path
) -> None:
    file = tmp_path / "feed.xml"
    file.write_bytes(rss("<title>t</title>"))
    odd.serve("1")
    feeds = [file.as_uri(), odd.url]
    listed = odd.poll(feeds, terms=lambda url: Terms(private=False))
    problems = dict(listed.fetch_wave().problems)
    assert "local files are not allowed here" in problems[file.as_uri()]
    assert "127.0.0.1 is a private address" in problems[odd.url]
    assert odd.server.requests == []
    odd.clock.seconds += 120
    assert odd.poll(feeds).fetch_wave().rows == 2


def test_the_first_document_does_not_flood(odd: Site) -> None:
    def document(*days: int) -> bytes:
        dates = (
            f"<guid>{day}</guid><pubDate>{day:02} Oct 2026 01:00:00 GMT</pubDate>" for day in days
        )
        return response("200 OK", rss(*dates, "<guid>undated</guid>"))

    since = 1_791_763_200 * SECOND  # 12 October
    odd.server.answers["/f"] = document(13, 11)
    assert odd.poll([odd.url], terms=lambda url: Terms(since=since)).fetch_wave().rows == 1
    odd.server.answers["/f"] = document(13, 11, 10)
    assert odd.wave(DAY).rows == 1  # after the first document everything is news
    assert [row.id for row in odd.spool.read(0, 9)] == ["13", "10"]


def test_what_happens_to_a_feed_can_be_told_as_a_document(odd: Site) -> None:
    def observe(before: FeedState, after: FeedState, at: int) -> list[DocumentRow]:
        if before.status == after.status:
            return []
        return [DocumentRow(after.url, "gone", ("feeds",), at, True, None, False, b"<gone/>")]

    odd.server.answers["/f"] = response("410 Gone")
    poller = odd.poll([odd.url], observe=observe)
    wave = poller.fetch_wave()
    assert (wave.rows, wave.problems) == (1, ((odd.url, "fetch: the feed is gone (410)"),))
    assert [row.xml for row in odd.spool.read(0, 9)] == [b"<gone/>"]
    assert poller.seconds_until_due() is None
    assert odd.spool.set_status(odd.url, "active")
    odd.serve("1")
    assert (poller.seconds_until_due(), poller.fetch_wave().rows) == (0.0, 1)


def test_what_a_user_decides_during_a_fetch_stays(odd: Site) -> None:
    def answer(send: Callable[[bytes], object]) -> None:
        with Spool(odd.spool.path) as other:  # as another process would
            other.set_status(odd.url, "paused")
            other.remove(odd.server.url("/g"))
        send(response("200 OK", rss("<title>t</title>")))

    odd.server.answers.update({"/f": answer, "/g": answer})
    assert odd.poll([odd.url, odd.server.url("/g")]).fetch_wave().rows == 1
    assert [(state.url, state.status) for state in odd.spool.feeds()] == [(odd.url, "paused")]
    assert odd.wave(DAY) == Wave()


def test_a_document_that_is_cut_off_changes_nothing_and_is_fetched_whole(odd: Site) -> None:
    """Its last item is no other one without its link, and its validators do not hide the rest."""
    items = [f"<guid>{n}</guid><link>http://a.example/{n}</link>" for n in range(3)]
    body = rss(*items)
    odd.server.answers["/f"] = response("200 OK", body[: body.rindex(b"<link>")], ETag='"1"')
    assert odd.wave(0).rows == 2
    odd.server.answers["/f"] = response("200 OK", body, ETag='"1"')
    assert odd.wave(DAY).rows == 1
    assert "if-none-match" not in odd.sent
    odd.server.answers["/f"] = response("200 OK", body[: body.index(b"</guid>")], ETag='"2"')
    assert odd.wave(DAY).rows == 0
    odd.server.answers["/f"] = response("200 OK", body, ETag='"1"')
    assert odd.wave(DAY).rows == 0
    assert not any(row.revision for row in odd.spool.read(0, 9))


def test_an_interval_that_is_set_counts_for_feeds_that_would_be_due_later(odd: Site) -> None:
    """Those that are well and have none of their own."""
    odd.serve("1")
    odd.wave(0)
    assert odd.poller.seconds_until_due() == 60.0
    sooner = odd.poll(None, interval=10.0, exact=True)
    own = odd.poll(None, interval=10.0, exact=True, terms=lambda url: Terms(interval=60.0))
    assert own.fetch_wave().fetched == 0
    assert own.seconds_until_due() == 60.0
    assert sooner.fetch_wave().fetched == 0
    assert sooner.seconds_until_due() == 10.0
    odd.server.answers.clear()
    odd.clock.seconds += 10.0
    assert sooner.fetch_wave().problems
    left = sooner.seconds_until_due()
    odd.poll(None, interval=1.0, exact=True).fetch_wave()
    assert sooner.seconds_until_due() == left, "who fails is asked when it would be"


def test_a_feed_of_which_nothing_is_known_is_not_unchanged(odd: Site) -> None:
    odd.server.answers["/f"] = response("304 Not Modified")
    ((_, problem),) = odd.wave(0).problems
    assert "304" in problem
    assert odd.spool.state(odd.url).last_success is None
    odd.serve("1")
    assert odd.wave(DAY).rows == 1

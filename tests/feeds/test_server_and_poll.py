"""The loopback server, the fetcher, the adapter and the spool together, over real HTTP."""

from __future__ import annotations

import http.client
import os
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from feeds.fetch import Fetched, Fetcher, Request
from feeds.poll import SECOND, Poller, Terms, Wave, batch_of
from feeds.rows import DocumentRow
from feeds.sample_server import FeedServer
from feeds.schedule import LONGEST_WAIT
from feeds.spool import FeedState, Spool
from tests.feeds.data import SAMPLES, rss
from tests.feeds.odd_server import OddServer, response
from tests.waiting import PATIENCE, until


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.seconds = 1_792_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.rss").write_bytes(rss("<guid>http://a.example/1</guid><title>one</title>"))
    (tmp_path / "secret.rss").write_bytes(b"secret")
    return site


def test_what_the_server_sends(site: Path) -> None:
    with FeedServer(site) as server, Fetcher(allow_private=True) as fetcher:
        first = fetcher.fetch(Request(server.url("a.rss")))
        assert first.headers["content-type"] == "application/rss+xml"
        by_tag = fetcher.fetch(Request(server.url("a.rss"), etag=first.etag))
        by_date = fetcher.fetch(Request(server.url("a.rss"), None, first.last_modified))
        assert (by_tag.outcome, by_date.outcome) == ("not modified", "not modified")
        os.utime(site / "a.rss", (2e9, 2e9))
        assert fetcher.fetch(Request(server.url("a.rss"), None, first.last_modified)).body
        assert fetcher.fetch(Request(server.url("a.rss"), '"other"')).body == first.body
        for path in ("none.rss", "../secret.rss", "%2e%2e/secret.rss", "", "%00"):
            assert fetcher.fetch(Request(server.url(path))).outcome == "missing"
        assert server.requests == 10


def test_head(site: Path) -> None:
    with FeedServer(site) as server:
        connection = http.client.HTTPConnection(server.base.split("/")[2])
        connection.request("HEAD", "/a.rss")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")
        assert int(response.headers["Content-Length"]) > 0
        connection.close()


def test_a_feed_is_polled_again_when_due_and_only_news_is_stored(
    site: Path, tmp_path: Path
) -> None:
    clock = Clock()
    with (
        FeedServer(site) as server,
        Fetcher(allow_private=True) as fetcher,
        Spool(tmp_path / "spool") as spool,
    ):
        feeds = [server.url("a.rss")] * 2
        poller = Poller(spool, fetcher, feeds, interval=60, now=clock, chance=lambda: 0.0)
        assert poller.fetch_wave().rows == 1
        assert (poller.fetch_wave().fetched, poller.seconds_until_due()) == (0, 60.0)
        clock.seconds += 60
        again = poller.fetch_wave()
        assert (again.fetched, again.rows, again.problems) == (1, 0, ())
        assert server.requests == 2
        two = "<guid>http://a.example/2</guid><title>two</title>"
        (site / "a.rss").write_bytes(rss(two))
        assert (
            poller.seconds_until_due() == 32 * 60
        )  # nothing is known of how often it brings something
        clock.seconds += 32 * 60
        assert poller.fetch_wave().rows == 1
        # A new process knows the validators and what was seen.
        clock.seconds += 60
        other = Poller(spool, fetcher, None, interval=60, now=clock)
        assert (other.fetch_wave().rows, spool.last_seq()) == (0, 2)


def test_all_samples_in_one_wave(tmp_path: Path) -> None:
    names = sorted(
        path.name for path in SAMPLES.iterdir() if path.suffix in (".rss", ".atom", ".rdf")
    )
    with (
        FeedServer(SAMPLES) as server,
        Fetcher(allow_private=True) as fetcher,
        Spool(tmp_path / "spool") as spool,
    ):
        wave = Poller(spool, fetcher, [server.url(name) for name in names]).fetch_wave()
        assert (wave.fetched, wave.problems) == (17, ())
        times = [row.timestamp for row in spool.read(0, spool.last_seq())]
        assert times == sorted(times)
        assert len(times) == wave.rows == 132


def test_trouble_is_reported_and_the_others_go_on(site: Path, tmp_path: Path) -> None:
    (site / "page.html").write_text("<html><body>no feed</body></html>")
    clock = Clock()
    with (
        FeedServer(site) as server,
        Fetcher(allow_private=True) as fetcher,
        Spool(tmp_path / "spool") as spool,
    ):
        none, page, good = (server.url(name) for name in ("none.rss", "page.html", "a.rss"))
        feeds = [good, none, page]
        poller = Poller(spool, fetcher, feeds, interval=60, now=clock, chance=lambda: 1.0)
        wave = poller.fetch_wave()
        assert wave.problems == (
            (none, "fetch: not found (404)"),
            (page, "parse: an HTML page, not a feed"),
        )
        rows = list(spool.read(0, 9))
        assert {row.error for row in rows} == {None, "an HTML page, not a feed"}
        clock.seconds += 66
        assert poller.fetch_wave().fetched == 1  # neither the page nor the missing one is asked yet
        clock.seconds += 54
        assert (poller.fetch_wave().rows, spool.state(none).errors) == (0, 2)
        # The page has not changed, and is still none.
        assert (spool.state(page).errors, spool.state(page).problem) == (
            2,
            "parse: an HTML page, not a feed",
        )
        (site / "page.html").write_bytes(rss("<title>back</title>"))
        clock.seconds += 240
        assert poller.fetch_wave().rows == 1
        assert (spool.state(page).errors, spool.state(page).problem) == (0, None)


URL = "http://a.example/f"
ASKED = FeedState(URL, URL, "Title", "tag", "Mon", 0)


def after(fetched: Fetched, state: FeedState = ASKED) -> FeedState:
    return batch_of(state, fetched, 0, 100.0).state


def test_failures_wait_longer_each_time_and_keep_the_validators() -> None:
    failed = Fetched(URL, "failed", URL, problem="fetch: no")
    state, waits = ASKED, []
    for _ in range(12):
        state = after(failed, state)
        waits.append(state.next_fetch / SECOND)
    assert waits[:4] == [100.0, 200.0, 400.0, 800.0]
    assert waits[-1] == LONGEST_WAIT / 2  # chance may double it
    assert (state.errors, state.problem, state.etag) == (12, "fetch: no", "tag")
    well = after(Fetched(URL, "ok", URL, 200, rss("<title>t</title>")), state)
    assert (well.errors, well.problem, well.next_fetch) == (0, None, 100 * SECOND)
    assert (well.etag, well.title, well.last_success) == (None, "News", 0)
    healed = after(Fetched(URL, "not modified", URL, 304), state)
    assert (healed.errors, healed.problem) == (0, None)


def test_what_the_server_asks_for_is_done() -> None:
    assert after(Fetched(URL, "busy", URL, 429, retry_after=3600.0)).next_fetch == 3600 * SECOND
    assert after(Fetched(URL, "busy", URL, 503)).next_fetch == 100 * SECOND
    assert after(Fetched(URL, "busy", URL, 503, retry_after=1e9)).next_fetch == 86_400 * SECOND
    assert after(Fetched(URL, "gone", URL, 410)).status == "gone"
    held = after(Fetched(URL, "busy", URL, retry_after=3600.0, problem="fetch: held"))
    # It was not asked: no failure, but whoever looks at it is told why nothing came.
    assert held == replace(ASKED, next_fetch=3600 * SECOND, problem="fetch: held")
    assert after(Fetched(URL, "not modified", URL, 304), held).problem is None
    cached = Fetched(URL, "not modified", URL, 304, headers={"cache-control": "max-age=7200"})
    assert after(cached).next_fetch == 7200 * SECOND
    assert after(cached, replace(ASKED, wish=9000)).next_fetch == 9000 * SECOND


def test_an_address_moves_when_the_new_one_has_the_feed() -> None:
    there = "http://b.example/"
    moved = after(Fetched(URL, "not modified", URL, 304, moved_to=there))
    assert (moved.url, moved.address) == (URL, there)
    body = rss("<title>t</title>")
    assert after(Fetched(URL, "ok", URL, 200, body, moved_to=there)).address == there
    parked = b"<html><body>this domain is for sale</body></html>"
    assert after(Fetched(URL, "ok", URL, 200, parked, moved_to=there)).address == URL


def test_a_document_says_how_often_it_wants_to_be_read() -> None:
    body = rss("<title>t</title>", channel="<title>News</title><ttl>60</ttl>")
    state = after(Fetched(URL, "ok", URL, 200, body))
    assert (state.wish, state.next_fetch) == (3600, 3600 * SECOND)
    # The same bytes again are not parsed again, and the wish stands.
    again = batch_of(state, Fetched(URL, "ok", URL, 200, body, {"etag": "new"}), 5, 100.0)
    assert (again.channel, again.state.wish, again.state.etag) == (None, 3600, "new")


def test_a_feed_that_is_gone_is_never_due(tmp_path: Path) -> None:
    with Fetcher() as fetcher, Spool(tmp_path / "spool") as spool:
        spool.append(batch_of(ASKED, Fetched(URL, "gone", URL, 410), 0, 100.0))
        poller = Poller(spool, fetcher, [URL])
        assert (poller.fetch_wave().fetched, poller.seconds_until_due()) == (0, None)


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

"""The loopback server, the fetcher, the adapter and the spool together, over real HTTP."""

from __future__ import annotations

import http.client
import os
from dataclasses import replace
from pathlib import Path

import pytest

from feeds.fetch import Fetched, Fetcher, Request
from feeds.poll import SECOND, Poller, batch_of
from feeds.sample_server import FeedServer
from feeds.schedule import LONGEST_WAIT
from feeds.spool import FeedState, Spool
from tests.feeds.data import SAMPLES, rss


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

"""The loopback server, the fetcher, the adapter and the spool together, over real HTTP."""

from __future__ import annotations

import http.client
import os
from dataclasses import replace
from pathlib import Path

import pytest

from feeds.fetch import Fetched, Fetcher, Request
from feeds.poll import LONGEST_WAIT, SECOND, Poller, digest
from feeds.server import FeedServer
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
        poller = Poller(spool, fetcher, [server.url("a.rss")] * 2, interval=60, now=clock)
        assert poller.wave().rows == 1
        assert (poller.wave().fetched, poller.wait()) == (0, 60.0)
        clock.seconds += 60
        again = poller.wave()
        assert (again.fetched, again.rows, again.problems) == (1, 0, ())
        assert server.requests == 2
        two = "<guid>http://a.example/2</guid><title>two</title>"
        (site / "a.rss").write_bytes(rss(two))
        clock.seconds += 60
        assert poller.wave().rows == 1
        # A new process knows the validators and what was seen.
        clock.seconds += 60
        other = Poller(spool, fetcher, [server.url("a.rss")], interval=60, now=clock)
        assert (other.wave().rows, spool.last_seq()) == (0, 2)


def test_all_samples_in_one_wave(tmp_path: Path) -> None:
    names = sorted(
        path.name for path in SAMPLES.iterdir() if path.suffix in (".rss", ".atom", ".rdf")
    )
    with (
        FeedServer(SAMPLES) as server,
        Fetcher(allow_private=True) as fetcher,
        Spool(tmp_path / "spool") as spool,
    ):
        wave = Poller(spool, fetcher, [server.url(name) for name in names]).wave()
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
        page, none, good = (server.url(name) for name in ("page.html", "none.rss", "a.rss"))
        poller = Poller(spool, fetcher, [page, none, good], interval=60, now=clock)
        wave = poller.wave()
        assert wave.problems == (
            (page, "parse: an HTML page, not a feed"),
            (none, "fetch: not found (404)"),
        )
        rows = list(spool.read(0, 9))
        assert {row.error for row in rows} == {None, "an HTML page, not a feed"}
        clock.seconds += 60
        assert poller.wave().rows == 0  # the page has not changed
        assert spool.state(none).errors == 1  # and the missing one is not asked yet
        clock.seconds += 60
        poller.wave()
        assert spool.state(none).errors == 2
        (site / "page.html").write_bytes(rss("<title>back</title>"))
        clock.seconds += 60
        assert poller.wave().rows == 1
        assert (spool.state(page).errors, spool.state(page).problem) == (0, None)


URL = "http://a.example/f"
ASKED = FeedState(URL, URL, "Title", "tag", "Mon", 0)


def after(fetched: Fetched, state: FeedState = ASKED) -> FeedState:
    return digest(state, fetched, 0, 100.0).state


def test_failures_wait_longer_each_time_and_keep_the_validators() -> None:
    failed = Fetched(URL, "failed", URL, problem="fetch: no")
    state, waits = ASKED, []
    for _ in range(12):
        state = after(failed, state)
        waits.append(state.next_fetch / SECOND)
    assert waits[:4] == [200.0, 400.0, 800.0, 1600.0]
    assert waits[-1] == LONGEST_WAIT
    assert (state.errors, state.problem, state.etag) == (12, "fetch: no", "tag")
    well = after(Fetched(URL, "ok", URL, 200, rss("<title>t</title>")), state)
    assert (well.errors, well.problem, well.next_fetch) == (0, None, 100 * SECOND)
    assert (well.etag, well.title) == (None, "News")


def test_what_the_server_asks_for_is_done() -> None:
    assert after(Fetched(URL, "busy", URL, 429, retry_after=3600.0)).next_fetch == 3600 * SECOND
    assert after(Fetched(URL, "busy", URL, 503)).next_fetch == 100 * SECOND
    assert after(Fetched(URL, "busy", URL, 503, retry_after=1e9)).next_fetch == 7 * 86_400 * SECOND
    assert after(Fetched(URL, "gone", URL, 410)).gone
    moved = Fetched(URL, "not modified", URL, 304, moved_to="http://b.example/")
    assert after(moved) == replace(ASKED, address="http://b.example/", next_fetch=100 * SECOND)


def test_a_feed_that_is_gone_is_never_due(tmp_path: Path) -> None:
    with Fetcher() as fetcher, Spool(tmp_path / "spool") as spool:
        spool.append(digest(ASKED, Fetched(URL, "gone", URL, 410), 0, 100.0))
        poller = Poller(spool, fetcher, [URL])
        assert (poller.wave().fetched, poller.wait()) == (0, None)

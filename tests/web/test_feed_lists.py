"""Feeds of sites, lists of feeds and the samples, over the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.service.feeds import SAMPLES
from feeds.sample_server import FeedServer
from tests.service.api_harness import Running, problem, serving
from tests.waiting import until

PAGE = """<html><head><link rel="alternate" type="application/rss+xml" href="a.rss">
<link rel="alternate" type="application/atom+xml" href="b.atom"></head></html>"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    state = tmp_path_factory.mktemp("lists") / "state"
    with serving(state, feeds__allow_private=True) as running:
        yield running


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FeedServer]:
    (tmp_path / "index.html").write_text(PAGE)
    for name, sample in (("a.rss", "gannet.rss"), ("b.atom", "cratebay.atom")):
        (tmp_path / name).write_bytes((SAMPLES / sample).read_bytes())
    with FeedServer(tmp_path) as server:
        yield server


def test_a_site_is_asked_for_its_feeds(running: Running, site: FeedServer) -> None:
    asked = {"url": site.url("index.html"), "allow_private": True}
    found = running.http.post("/v1/feeds/discover", json=asked).raise_for_status().json()
    assert {each["title"] for each in found["feeds"]} == {"Gannet", "Cratebay Releases"}
    assert all(each["items"] > 3 and each["newest"] for each in found["feeds"])
    assert running.http.get("/v1/feeds").json() == []
    one = {"url": site.url("a.rss"), "allow_private": True}
    (feed,) = running.http.post("/v1/feeds/discover", json=one).json()["feeds"]
    assert feed["url"] == site.url("a.rss")


def test_no_address_of_this_network_is_asked_unless_it_may(
    running: Running, site: FeedServer
) -> None:
    before = site.requests
    found = running.http.post("/v1/feeds/discover", json={"url": site.url("index.html")}).json()
    assert found["feeds"] == []
    assert found["problems"]
    assert site.requests == before
    for wrong in ("file:///etc/passwd", "ftp://example.org/", "http://a b/"):
        problem(running.http.post("/v1/feeds/discover", json={"url": wrong}), 422, "invalid")


def test_what_a_page_names_is_not_asked_where_the_page_is_not(
    running: Running, tmp_path: Path, site: FeedServer
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "index.html").write_text(PAGE.replace("a.rss", site.url("a.rss")))
    with FeedServer(other) as server:
        asked = {"url": server.url("index.html"), "allow_private": True}
        found = running.http.post("/v1/feeds/discover", json=asked).json()
    assert found["feeds"] == []
    assert site.requests == 0


def test_a_list_goes_in_and_out(running: Running) -> None:
    opml = (
        '<opml><body><outline text="News"><outline text="A &amp; B" '
        'xmlUrl="http://a.invalid/feed"/></outline><outline xmlUrl="file:///etc/passwd"/>'
        '<outline xmlUrl="http://127.0.0.1:9/x"/></body></opml>'
    )
    listed = running.http.post("/v1/feeds/opml", json={"opml": opml, "folder": "in"}).json()
    assert (listed["feeds"], listed["new"]) == (1, 1)
    assert len(listed["left_out"]) == 2
    again = running.http.post("/v1/feeds/opml", json={"opml": opml}).json()
    assert again["new"] == 0
    reply = running.http.get("/v1/feeds/opml")
    assert reply.headers["content-type"] == "text/x-opml; charset=utf-8"
    assert "in/News" not in reply.text
    assert 'text="A &amp; B"' in reply.text
    running.http.delete("/v1/feeds", params={"url": "http://a.invalid/feed"}).raise_for_status()
    problem(running.http.post("/v1/feeds/opml", json={"opml": "<html/>"}), 422, "invalid")


def test_the_samples_match_without_any_network(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as running:
        running.subscribe((SAMPLES / "demo.xscl").read_text()).raise_for_status()
        listed = running.http.post("/v1/feeds/samples").raise_for_status().json()
        assert listed == {"feeds": 17, "new": 17, "left_out": []}
        assert running.http.post("/v1/feeds/samples").json()["new"] == 0
        until(lambda: len(running.matches(limit=1_000)) == 57)
        assert running.http.get("/v1/dead-letters").json() == []
        # What waits is the same wherever one asks.
        engine = running.http.get("/v1/status").json()["engine"]
        waiting = {each["query"]: each["count"] for each in engine["waiting"]}
        for id in ("comes-up", "unpatched"):
            told = running.http.get(f"/v1/subscriptions/{id}/why").json()
            assert [each["waiting_count"] for each in told] == [waiting.get(id, 0)]
        assert waiting == {"unpatched": 1}

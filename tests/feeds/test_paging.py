"""The older pages of a feed, from a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from feeds.adapter import Channel, parse_feed
from feeds.fetch import Fetcher, Request
from feeds.paging import older_page, with_history
from tests.feeds.site import Page, Site


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher(allow_private=True) as fetcher:
        yield fetcher


def page(*names: str, title: str = "News", **links: str) -> bytes:
    head = "".join(
        f'<link rel="{rel.replace("_", "-")}" href="{href}"/>' for rel, href in links.items()
    )
    entries = "".join(
        f"<entry><id>{name}</id><title>{name} {title}</title></entry>" for name in names
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>{title}</title>{head}{entries}</feed>'.encode()


def walk(
    pages: Mapping[str, Page | bytes], fetcher: Fetcher, max_pages: int = 100
) -> tuple[Channel, int, list[str]]:
    with Site(pages) as site:
        url = site.url("/feed")
        first = fetcher.fetch(Request(url))
        channel = parse_feed(first.body, url, first.headers, arrival=3)
        whole, read = with_history(
            channel,
            lambda url: fetcher.fetch(Request(url)),
            arrival=3,
            final_url=first.final_url,
            max_pages=max_pages,
        )
        return whole, read, site.asked


def ids(channel: Channel) -> list[str]:
    return [item.id for item in channel.items]


def test_an_archive_is_read_to_its_beginning(fetcher: Fetcher) -> None:
    channel, read, asked = walk(
        {
            "/feed": page("5", "4", prev_archive="/2", next="/ignored"),
            "/2": page("4", "3", "2", title="News, 2", prev_archive="{base}/1"),
            "/1": page("1", title="News, 1"),
        },
        fetcher,
    )
    assert (ids(channel), read) == (["5", "4", "3", "2", "1"], 2)
    assert asked == ["/feed", "/2", "/1"]
    assert {item.channel_title for item in channel.items} == {"News"}
    assert channel.items[1].title == "4 News"  # the newer page counts
    assert channel.problems == ()


def test_a_paged_feed_and_a_json_feed(fetcher: Fetcher) -> None:
    channel, read, _ = walk({"/feed": page("2", next="?p=2"), "/feed?p=2": page("1")}, fetcher)
    assert (ids(channel), read) == (["2", "1"], 1)

    def document(name: str, **more: str) -> bytes:
        version = "https://jsonfeed.org/version/1.1"
        return json.dumps({"version": version, "items": [{"id": name}], **more}).encode()

    pages = {"/feed": document("2", next_url="/1"), "/1": document("1")}
    assert ids(walk(pages, fetcher)[0]) == ["2", "1"]


@pytest.mark.parametrize(
    ("pages", "found", "problem"),
    [
        ({"/feed": page("2", next="/feed")}, ["2"], None),
        (
            {"/feed": page("3", next="/b"), "/b": page("2", next="/c"), "/c": page("1", next="/b")},
            ["3", "2", "1"],
            None,
        ),
        ({"/feed": page("2", next="/b"), "/b": page("2", next="/c"), "/c": page("1")}, ["2"], None),
        ({"/feed": page("2", next="/b")}, ["2"], "history: {base}/b: fetch: not found (404)"),
        (
            {"/feed": page("2", next="/b"), "/b": b"<html>sorry</html>"},
            ["2"],
            "history: {base}/b: parse: an HTML page, not a feed",
        ),
        (
            {"/feed": page("2", next="http://other.example/b")},
            ["2"],
            "history: http://other.example/b is on another host, not followed",
        ),
        (
            {"/feed": page("2", next="ftp://127.0.0.1/b")},
            ["2"],
            "history: ftp://127.0.0.1/b is on another host, not followed",
        ),
    ],
)
def test_where_the_walk_ends(
    pages: dict[str, bytes], found: list[str], problem: str | None, fetcher: Fetcher
) -> None:
    channel, _, _ = walk(pages, fetcher)
    assert ids(channel) == found
    base = channel.url.removesuffix("/feed")
    assert channel.problems == (() if problem is None else (problem.replace("{base}", base),))


def test_a_file_does_not_lead_to_other_files(tmp_path: Path, fetcher: Fetcher) -> None:
    (tmp_path / "other").write_bytes(page("1"))
    for address in (str(tmp_path / "other"), (tmp_path / "other").as_uri(), "other"):
        (tmp_path / "feed").write_bytes(page("2", next=address))
        channel = parse_feed((tmp_path / "feed").read_bytes(), str(tmp_path / "feed"), arrival=0)
        whole, read = with_history(channel, lambda url: fetcher.fetch(Request(url)), arrival=0)
        assert (ids(whole), read) == (["2"], 0)


def test_a_feed_that_redirects_has_its_pages_where_it_led_to(fetcher: Fetcher) -> None:
    with Site({"/feed": page("2", next="{base}/1"), "/1": page("1")}) as there:
        moved = Page(b"", 302, {"Location": there.url("/feed")})
        channel, _, _ = walk({"/feed": moved}, fetcher)
        assert ids(channel) == ["2", "1"]
        named = page("3", self=there.url("/feed"), next=there.url("/1"))
        channel, _, _ = walk({"/feed": named}, fetcher)
        assert ids(channel) == ["3"]


def test_an_endless_archive_is_not_read_endlessly(fetcher: Fetcher) -> None:
    pages = {"/feed": page("0", next="/1")}
    pages |= {f"/{n}": page(str(n), next=f"/{n + 1}") for n in range(1, 40)}
    channel, read, asked = walk(pages, fetcher, max_pages=7)
    assert (read, len(channel.items), len(asked)) == (7, 8, 8)
    assert channel.problems == ("history: stopped after 7 older pages, there are more",)


def test_problems_of_pages_are_kept(fetcher: Fetcher) -> None:
    broken = page("1").replace(b"</feed>", b"")
    channel, _, _ = walk({"/feed": page("2", next="/b"), "/b": broken}, fetcher)
    assert ids(channel) == ["2", "1"]
    (problem,) = channel.problems
    assert "/b: not well-formed: line 1" in problem


def test_a_feed_without_pages_has_none() -> None:
    assert older_page(parse_feed(page("1"), "http://a.example/", arrival=0)) == ""

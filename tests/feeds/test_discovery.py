"""Discovery of the feeds of a site, on a real server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from feeds.discovery import MAX_REQUESTS, Discovery, discover, with_scheme
from feeds.fetch import Fetcher, Request
from tests.feeds.data import atom, rss
from tests.feeds.site import Page, Site

RSS = rss(*(f"<title>{n}</title><link>http://a.example/{n}</link>" for n in range(4)))
ATOM = atom(
    *(f"<title>{n}</title><id>{n}</id><link href='http://a.example/{n}'/>" for n in range(4))
)
COMMENTS = rss("<title>c</title>", channel="<title>Comments on News</title>")


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher(allow_private=True) as fetcher:
        yield fetcher


def search(
    pages: Mapping[str, Page | bytes], fetcher: Fetcher, path: str = "/"
) -> tuple[list[str], Discovery, list[str]]:
    with Site(pages) as site:
        found = discover(site.url(path), lambda url: fetcher.fetch(Request(url)), arrival=0)
        return [feed.url.removeprefix(site.base) for feed in found.feeds], found, site.asked


def html(head: str = "", body: str = "") -> bytes:
    return f"<!doctype html><html><head>{head}</head><body>{body}</body></html>".encode()


def link(href: str, kind: str = "application/rss+xml", rel: str = "alternate") -> str:
    return f'<link rel="{rel}" type="{kind}" href="{href}">'


def test_an_address_that_is_a_feed_itself(fetcher: Fetcher) -> None:
    urls, _, asked = search({"/news": RSS}, fetcher, "/news")
    assert (urls, asked) == (["/news"], ["/news"])


def test_what_the_page_declares_the_best_first(fetcher: Fetcher) -> None:
    head = (
        link("/comments.rss")
        + link("/feed.rss", "application/rss+xml; charset=utf-8")
        + link("feed.atom", "application/atom+xml")
        + link("/dead.rss")
        + link("/page.html")
        + link("/style.css", "text/css", "alternate stylesheet")
    )
    urls, found, asked = search(
        {
            "/blog/": html(head),
            "/comments.rss": COMMENTS,
            "/feed.rss": RSS,
            "/blog/feed.atom": ATOM,
            "/page.html": html(),
            "/dead.rss": Page(b"", 500),
        },
        fetcher,
        "/blog/",
    )
    assert urls == ["/blog/feed.atom", "/feed.rss", "/comments.rss"]
    assert [bool(feed.same_as) for feed in found.feeds] == [False, True, False]
    assert found.feeds[1].same_as == found.feeds[0].url
    assert "/style.css" not in asked
    assert len(found.problems) == 1
    assert found.problems[0].endswith("/dead.rss: fetch: HTTP status 500")


@pytest.mark.parametrize(
    "page",
    [
        html('<base href="/deep/">' + link("f")),
        html("<LINK REL='Alternate Home' TYPE='Application/RSS+XML' HREF=' f ' >", "").replace(
            b"' f '", b"'/deep/f\n'"
        ),
        html('<link rel="feed" href="/deep/f">'),
        html(link("/deep/f", "text/xml")),
        html(link("feed:{base}/deep/f")),
        html().replace(b"</head>", link("/deep/f").encode()),
        Page(html(), headers={"Link": '</deep/f>; rel="alternate"; type="application/rss+xml"'}),
    ],
    ids=["base", "capitals", "rel=feed", "vague type", "feed: address", "sloppy page", "header"],
)
def test_ways_to_declare_a_feed(page: Page | bytes, fetcher: Fetcher) -> None:
    assert search({"/": page, "/deep/f": RSS}, fetcher)[0] == ["/deep/f"]


def test_links_in_the_text_that_look_like_feeds(fetcher: Fetcher) -> None:
    body = (
        '<a href="/about">About</a> <a href="http://other.example/feed">theirs</a>'
        '<a href="/tag/news/feed/">RSS</a> <a href="http://[broken/rss">x</a>'
    )
    urls, _, asked = search({"/": html("", body), "/tag/news/feed/": RSS}, fetcher)
    assert urls == ["/tag/news/feed/"]
    assert asked == ["/", "/tag/news/feed/"]


@pytest.mark.parametrize(
    ("page", "feed"),
    [
        ("/", "/feed"),
        ("/", "/index.xml"),
        ("/", "/?feed=rss2"),
        ("/blog/post.html", "/blog/atom.xml"),
        ("/blog", "/blog/rss"),
        ("/blog", "/rss.xml"),
    ],
)
def test_well_known_paths(page: str, feed: str, fetcher: Fetcher) -> None:
    urls, _, asked = search({page: html(), feed: RSS}, fetcher, page)
    assert urls == [feed]
    assert asked[-1] == feed  # nothing more is asked for


def test_a_page_cannot_make_us_ask_for_ever(fetcher: Fetcher) -> None:
    head = "".join(link(f"/{n}") for n in range(1_000))
    pages: dict[str, Page | bytes] = {f"/{n}": html() for n in range(1_000)}
    urls, _, asked = search({"/": html(head), **pages}, fetcher)
    assert (urls, len(asked)) == ([], MAX_REQUESTS)


def test_no_other_scheme_is_asked(fetcher: Fetcher) -> None:
    head = link("file:///etc/hostname") + link("ftp://a.example/f") + link("javascript:alert(1)")
    urls, found, _ = search({"/": html(head)}, fetcher)
    assert (urls, found.problems) == ([], ())


def test_a_site_that_does_not_answer(fetcher: Fetcher) -> None:
    urls, found, asked = search({}, fetcher)
    assert (urls, asked) == ([], ["/"])
    assert found.problems[0].endswith("/: fetch: not found (404)")


@pytest.mark.parametrize("body", [b"", b"\0\1\2", b"{}", b"<" * 100_000, b"<a>" * 100_000])
def test_a_page_that_is_none(body: bytes, fetcher: Fetcher) -> None:
    assert search({"/": body, "/atom.xml": ATOM}, fetcher)[0] == ["/atom.xml"]


def test_a_moved_feed_is_given_by_its_new_address(fetcher: Fetcher) -> None:
    moved = Page(b"", 301, {"Location": "/new"})
    assert search({"/": html(link("/old")), "/old": moved, "/new": RSS}, fetcher)[0] == ["/new"]


def test_a_bare_host_means_https() -> None:
    assert with_scheme("example.org/blog") == "https://example.org/blog"
    assert with_scheme("http://example.org/") == "http://example.org/"

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.hints import Hints, header_links, read_hints
from tests.feeds.data import atom, rss

URL = "http://a.example/feeds/news.xml"
HUB, SELF = "https://hub.example/", "http://a.example/self"
LINK = '<link xmlns="http://www.w3.org/2005/Atom" rel="{}" href="{}"/>'
SY = 'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"'


def hints(body: bytes, link: str = "") -> Hints:
    return read_hints(body, {"link": link} if link else {}, URL)


def channel(inside: str) -> bytes:
    return rss("<title>t</title>", channel=f"<title>News</title>{inside}")


@pytest.mark.parametrize(
    ("inside", "wish"),
    [
        ("<ttl>60</ttl>", 3600),
        ("<ttl> 5 </ttl>", 300),
        ("<ttl>soon</ttl>", 0),
        ("<ttl>-5</ttl>", 0),
        ("<ttl>999999999999</ttl>", 999_999 * 60),
        (f"<sy:updatePeriod {SY}>daily</sy:updatePeriod>", 86_400),
        (
            f"<sy:updatePeriod {SY}>\n Hourly </sy:updatePeriod>"
            f"<sy:updateFrequency {SY}>4</sy:updateFrequency>",
            900,
        ),
        (f"<sy:updateFrequency {SY}>4</sy:updateFrequency>", 0),
        ("<image><ttl>1</ttl></image><ttl>2</ttl>", 120),
        ("", 0),
    ],
)
def test_how_often_a_feed_wants_to_be_read(inside: str, wish: int) -> None:
    assert hints(channel(inside)) == Hints(wish)


def test_hubs_in_documents() -> None:
    links = LINK.format("hub", HUB) + LINK.format("hub", "http://two.example/")
    assert hints(channel(links + LINK.format("self", SELF))) == Hints(0, HUB, SELF)
    assert hints(atom("<title>t</title>", feed=LINK.format("self hub", "/h"))) == Hints(
        0, "http://a.example/h", "http://a.example/h"
    )
    bom = b"\xef\xbb\xbf" + channel(LINK.format("hub", HUB))
    assert hints(bom).hub == HUB
    late = rss(f"<title>t</title>{LINK.format('hub', HUB)}")  # in an item
    assert hints(late) == Hints()
    plain = channel('<link rel="hub" href="http://hub.example/"/>')  # in no namespace
    assert hints(plain) == Hints()


def test_the_link_header_goes_before_the_document() -> None:
    body = channel(LINK.format("hub", HUB) + LINK.format("self", SELF))
    above = '<http://above.example/>; rel="hub"'
    assert hints(body, above) == Hints(0, "http://above.example/", SELF)
    assert hints(body, above + ", <//x.example/s>; rel=self").topic == "http://x.example/s"


@pytest.mark.parametrize(
    ("value", "links"),
    [
        ("<a>; rel=hub", [("hub", "a")]),
        ('<a>;rel="hub self"', [("hub", "a"), ("self", "a")]),
        ('<a>; title="x, <b>; rel=hub"; REL="Self"', [("self", "a")]),
        ("<a>; rel=next, <b> ; rel = hub", [("next", "a"), ("hub", "b")]),
        ("<a>", []),
        ("a; rel=hub", []),
        ("", []),
    ],
)
def test_link_headers(value: str, links: list[tuple[str, str]]) -> None:
    assert header_links(value) == links


def test_json_feeds() -> None:
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "feed_url": SELF,
        "hubs": [{"type": "rssCloud", "url": "http://no.example/"}, {"type": "WebSub", "url": HUB}],
    }
    assert hints(json.dumps(feed).encode()) == Hints(0, HUB, SELF)
    for odd in ('{"hubs": 5}', '{"hubs": [5, {"type": "websub"}]}', "{", "{" * 100_000, "[]"):
        assert hints(odd.encode()) == Hints()


@pytest.mark.parametrize(
    "address",
    [
        "ftp://hub.example/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://me:secret@hub.example/",
        "http://hub.example/&#13;&#10;X-Evil: 1",
        "http://hub.example/a b",
        "http://hub.exämple/",
        "http://",
        "http://[::1",
        "//",
    ],
)
def test_addresses_that_are_no_hub(address: str) -> None:
    assert hints(channel(LINK.format("hub", address))) == Hints()


def test_a_document_type_ends_the_reading() -> None:
    text = (
        '<!DOCTYPE rss [<!ENTITY a "http://hub.example/">]>'
        + channel(LINK.format("hub", "&a;")).decode()
    )
    assert hints(text.encode()) == Hints()


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode), st.text(max_size=100))
def test_anything_at_all(body: bytes, link: str) -> None:
    for document in (body, b"<rss><channel>" + body, b"{" + body):
        assert isinstance(read_hints(document, {"link": link}, URL), Hints)

"""JSON Feed gives the same items as other formats, or an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.adapter import Channel, parse_feed
from feeds.item import Item
from tests.feeds.data import DATA, needs_data

URL = "http://feeds.example/news.json"
V1 = "https://jsonfeed.org/version/1"
V11 = "https://jsonfeed.org/version/1.1"


def parse(document: Any, **more: Any) -> Channel:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_feed(body, URL, arrival=7, **more)


def feed(*items: Any, version: str = V11, **more: Any) -> dict[str, Any]:
    return {"version": version, "title": "News", "items": list(items), **more}


def only(item: dict[str, Any], **more: Any) -> Item:
    channel = parse(feed(item, **more))
    assert channel.error is None
    assert [text for text in channel.problems if "the arrival counts" not in text] == []
    (found,) = channel.items
    return found


def test_every_member_that_an_item_has_a_place_for() -> None:
    found = only(
        {
            "id": "urn:1",
            "url": "/1",
            "external_url": "http://b.example/other",
            "title": "Fish & <chips>",
            "content_html": "<p>long</p>",
            "content_text": "long",
            "summary": "short",
            "date_published": "2026-10-05T10:00:00+02:00",
            "date_modified": "2026-10-06T00:00:00Z",
            "authors": [{"name": "Ann"}, {"url": "http://bob.example/"}],
            "tags": ["sea", "food"],
            "attachments": [{"url": "/1.mp3", "mime_type": "audio/mpeg"}],
        }
    )
    assert found == Item(
        channel_url=URL,
        channel_title="News",
        id="urn:1",
        guid="urn:1",
        timestamp=1_791_187_200_000_000,
        dated=True,
        item_url="http://feeds.example/1",
        title="Fish & <chips>",
        authors=("Ann", "http://bob.example/"),
        categories=("sea", "food"),
        description="short",
        content="<p>long</p>",
        enclosures=("http://feeds.example/1.mp3",),
    )


@pytest.mark.parametrize(
    ("version", "dialect"),
    [(V1, "json10"), (V11, "json11"), ("http://www.jsonfeed.org/version/1.1/", "json11")],
)
def test_versions(version: str, dialect: str) -> None:
    assert parse(feed(version=version)).dialect == dialect


def test_authors_of_version_1_and_of_the_feed() -> None:
    feeds_own = {"author": {"name": "Feed"}}
    assert only({"id": "1", "author": {"name": "Ann"}}, **feeds_own).authors == ("Ann",)
    assert only({"id": "1"}, **feeds_own).authors == ("Feed",)
    assert only({"id": "1"}, authors=[{"name": "A"}, {"name": "B"}]).authors == ("A", "B")


def test_identity_and_dates_fall_back_as_everywhere() -> None:
    linked = only({"url": "http://a.example/1", "date_modified": "2026-10-05T08:00:00Z"})
    assert (linked.guid, linked.timestamp) == ("http://a.example/1", 1_791_187_200_000_000)
    undated = only({"id": 5, "date_published": "soon"})
    assert (undated.guid, undated.timestamp, undated.dated) == ("5", 7, False)
    assert only({"id": "1", "external_url": "http://b.example/"}).item_url == "http://b.example/"


def test_links_of_the_feed() -> None:
    document = feed(
        home_page_url="http://a.example/",
        feed_url="http://a.example/feed.json",
        next_url="?page=2",
        hubs=[{"type": "WebSub", "url": "http://hub.example/"}, {"type": "rssCloud", "url": "x"}],
    )
    assert parse(document).links == (
        ("alternate", "http://a.example/"),
        ("self", "http://a.example/feed.json"),
        ("next", "http://feeds.example/news.json?page=2"),
        ("hub", "http://hub.example/"),
    )


def test_an_xml_feed_and_its_json_form_have_the_same_items() -> None:
    xml = (
        b'<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry><id>urn:1</id>'
        b"<title>One</title><link href='http://a.example/1'/><author><name>Ann</name></author>"
        b"<published>2026-10-05T08:00:00Z</published><category term='x'/>"
        b"<content type='html'>&lt;p>all&lt;/p></content></entry></feed>"
    )
    document = feed(
        {
            "id": "urn:1",
            "title": "One",
            "url": "http://a.example/1",
            "authors": [{"name": "Ann"}],
            "date_published": "2026-10-05T08:00:00Z",
            "tags": ["x"],
            "content_html": "<p>all</p>",
        }
    )
    assert parse(document).items == parse(xml).items


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "JSON, but no feed"),
        (b'{"a": 1}', "JSON, but no feed"),
        (b'{"items": [1, {"id": "x"}]}', "JSON, but no feed"),
        (json.dumps({"version": V11}).encode(), "JSON Feed without items"),
        (json.dumps({"version": V11, "items": {}}).encode(), "JSON Feed without items"),
        (b'{\n"version": oops}', "not well-formed JSON: line 2: Expecting value"),
        (b'{"version": "' + V11.encode(), "not well-formed JSON: line 1: Unterminated string"),
        (b"[" * 100_000, "JSON that no feed holds: "),
        (b'{"items": ' + b"9" * 10_000 + b"}", "JSON that no feed holds: "),
        (b'{"items": [' + b"{}," * 100_000 + b"{}]}", "JSON that no feed holds: 100,001 items"),
    ],
)
def test_what_is_no_feed(body: bytes, reason: str) -> None:
    channel = parse(body)
    assert channel.items == ()
    assert channel.error is not None
    assert channel.error.startswith(reason)


def test_what_is_sloppy_is_read_and_reported() -> None:
    raw = json.dumps(feed({"id": "1", "title": "two lines"}, "x", None)).replace(
        " lines", "\nlines"
    )
    channel = parse(raw.encode())
    assert [item.title for item in channel.items] == ["two lines"]
    assert channel.problems == ("JSON Feed: 2 items are no objects",)
    unnamed = parse({"title": "T", "items": [{"id": "1", "title": "t"}]})
    assert [item.guid for item in unnamed.items] == ["1"]
    assert unnamed.problems == ("JSON Feed: it does not name its version",)


def test_characters_that_xml_cannot_hold_do_not_get_into_items() -> None:
    found = only({"id": "1", "title": "a\0b\ud800c", "content_text": "\x0bd"})
    assert (found.title, found.description) == ("abc", "d")


def test_encodings_and_marks() -> None:
    text = json.dumps(feed({"id": "1", "title": "São"}), ensure_ascii=False)
    for body in (text.encode(), text.encode("utf-8-sig"), text.encode("utf-16")):
        assert [item.title for item in parse(body).items] == ["São"]


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
nested = plain | st.lists(plain, max_size=3) | st.dictionaries(st.text(max_size=5), plain)
values = nested | st.lists(nested, max_size=3)
NAMES = """id url external_url title content_html content_text summary date_published
    date_modified author authors tags attachments version feed_url hubs next_url name"""
members = st.sampled_from(NAMES.split())


@given(
    st.dictionaries(members, values | st.lists(st.dictionaries(members, values))),
    st.lists(st.dictionaries(members, values) | values),
)
def test_no_value_in_the_wrong_place_raises(top: dict[str, Any], items: list[Any]) -> None:
    channel = parse({"version": V11, **top, "items": items})
    for item in channel.items:
        assert item.guid
        item.to_xml()


@needs_data
def test_the_example_of_feedparser() -> None:
    body = (DATA / "feedparser_tests" / "tests" / "json" / "example.json").read_bytes()
    channel = parse(body)
    assert channel.title == "My Example Feed"
    assert [(item.guid, item.item_url, item.authors) for item in channel.items] == [
        ("2", "https://example.org/second-item", ("me",)),
        ("1", "https://example.org/initial-post", ("you",)),
    ]

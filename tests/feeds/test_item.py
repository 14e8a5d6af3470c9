from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from feeds.item import Item, iso8601, legal_text, one_line, stream_name, streams_of

ITEM = Item(
    channel_url="http://a.example/feed",
    channel_title="A & B",
    id="1",
    guid="1",
    timestamp=1_791_187_200_000_000,
    dated=True,
    item_url="http://a.example/1?x=1&y=2",
    title="Fish < chips",
    authors=("Ann", "Bob"),
    categories=("food", "sea"),
    description="<p>HTML &amp; all</p>",
    content="]]> \r",
    enclosures=("http://a.example/1.mp3", "http://a.example/1.ogg"),
    source_url="http://b.example/feed",
    source_title="B > A",
)


def children(item: Item) -> list[tuple[str, str | None]]:
    return [(child.tag, child.text) for child in etree.fromstring(item.to_xml())]


def test_every_field_has_its_element_in_order() -> None:
    assert children(ITEM) == [
        ("channel_url", "http://a.example/feed"),
        ("channel_title", "A & B"),
        ("item_url", "http://a.example/1?x=1&y=2"),
        ("guid", "1"),
        ("title", "Fish < chips"),
        ("author", "Ann"),
        ("author", "Bob"),
        ("category", "food"),
        ("category", "sea"),
        ("timestamp", "2026-10-05T08:00:00Z"),
        ("description", "<p>HTML &amp; all</p>"),
        ("content", "]]> \r"),
        ("enclosure", "http://a.example/1.mp3"),
        ("enclosure", "http://a.example/1.ogg"),
        ("source_url", "http://b.example/feed"),
        ("source_title", "B > A"),
    ]


def test_a_document_says_whether_its_date_is_its_own() -> None:
    assert dict(etree.fromstring(ITEM.to_xml()).items()) == {"dated": "yes"}
    assert dict(etree.fromstring(replace(ITEM, dated=False).to_xml()).items()) == {"dated": "no"}


def test_what_has_no_value_has_no_element() -> None:
    bare = Item("http://a.example/feed", "A", "1", "1", 0, False)
    assert [name for name, _ in children(bare)] == [
        "channel_url",
        "channel_title",
        "guid",
        "timestamp",
    ]


@given(st.text())
def test_legal_text_is_what_xml_can_hold(text: str) -> None:
    item = replace(ITEM, title=one_line(text), description=legal_text(text))
    root = etree.fromstring(item.to_xml())
    assert (root.findtext("title") or "") == one_line(text)
    assert (root.findtext("description") or "") == legal_text(text)
    assert set(legal_text(text)) <= set(text)


def test_the_hash_follows_the_item_not_the_channel_nor_the_arrival() -> None:
    same = ITEM.content_hash()
    assert (
        replace(ITEM, channel_title="Other", channel_url="http://b.example/").content_hash() == same
    )
    undated = replace(ITEM, dated=False)
    assert replace(undated, timestamp=5).content_hash() == undated.content_hash()
    for change in (
        {"title": "x"},
        {"timestamp": 5},
        {"authors": ("AnnBob",)},
        {"categories": ("food",)},
        {"description": ""},
        {"content": ""},
        {"item_url": ""},
        {"enclosures": ()},
        {"source_url": ""},
        {"source_title": ""},
    ):
        assert replace(ITEM, **change).content_hash() != same, change


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_791_187_200_000_500, "2026-10-05T08:00:00.000500Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
    ],
)
def test_iso8601(timestamp: int, text: str) -> None:
    assert iso8601(timestamp) == text


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Courier City", "Courier_City"),
        ("The Readers' Table", "The_Readers_Table"),
        ("Caderno de Inês Carvalho", "Caderno_de_Inês_Carvalho"),
        ("Cafe\u0301", "Café"),
        ("новости дня", "новости_дня"),
        ("2600 nights", "_2600_nights"),
        ("  -.: news! ", "news"),
        ("a - b", "a_-_b"),
        ("The -- News: daily!", "The_-_News_daily"),
        ("a--b", "a-b"),
        ("v1.2", "v1.2"),
        ("broker.feeds", "_broker.feeds"),
        ("×÷²", "feeds.example"),
        ("", "feeds.example"),
    ],
)
def test_stream_names(title: str, name: str) -> None:
    assert stream_name(title, "http://feeds.example:8080/x") == name


def test_stream_name_without_title_or_host() -> None:
    assert stream_name("", "some/dir/my feed.xml") == "my_feed.xml"
    assert stream_name("") == "feed"


@given(st.text())
def test_a_stream_name_is_an_ncname(title: str) -> None:
    name = stream_name(title)
    element = etree.Element(name)  # lxml refuses what is no name
    assert ":" not in name
    assert etree.fromstring(etree.tostring(element, encoding="unicode")).tag == name


def test_streams_end_with_the_default_and_repeat_nothing() -> None:
    assert streams_of("News", "") == ("News", "S")
    assert streams_of("S", "") == ("S",)
    assert streams_of("BBC - Biz", "", "biz") == ("biz", "BBC_-_Biz", "S")

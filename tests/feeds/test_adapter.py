from __future__ import annotations

import pytest

from feeds.adapter import Channel, parse_feed
from feeds.item import Item
from tests.feeds.data import atom, rss

URL = "http://feeds.example/news.rss"
ARRIVAL = 1_700_000_000_000_000


def parse(body: bytes, **more: str) -> Channel:
    return parse_feed(body, URL, arrival=ARRIVAL, **more)  # type: ignore[arg-type]


def only(body: bytes) -> Item:
    channel = parse(body)
    assert channel.error is None
    (item,) = channel.items
    return item


def test_rss_2_0() -> None:
    item = only(
        rss(
            "<title>One</title><link>http://a.example/1</link><guid>http://a.example/1</guid>"
            "<dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator><category>x</category>"
            "<category>y</category><pubDate>Mon, 05 Oct 2026 10:00:00 +0200</pubDate>"
            "<description>&lt;b&gt;short&lt;/b&gt;</description>"
            "<content:encoded><![CDATA[<p>long &amp; rich</p>]]></content:encoded>"
            '<enclosure url="http://a.example/1.mp3" length="1" type="audio/mpeg"/>'
            '<enclosure url="/2.mp3" length="1" type="audio/mpeg"/>'
        )
    )
    assert item == Item(
        channel_url=URL,
        channel_title="News",
        id="http://a.example/1",
        guid="http://a.example/1",
        timestamp=1_791_187_200_000_000,
        dated=True,
        item_url="http://a.example/1",
        title="One",
        authors=("Ann", "Bob"),
        categories=("x", "y"),
        description="<b>short</b>",
        content="<p>long &amp; rich</p>",
        enclosures=("http://a.example/1.mp3", "http://feeds.example/2.mp3"),
    )


def test_rss_1_0() -> None:
    channel = parse(
        b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
        b' xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        b'<channel rdf:about="http://a.example/"><title>Books</title></channel>'
        b'<item rdf:about="http://a.example/b1"><title>One</title><link>http://a.example/1</link>'
        b"<dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator><dc:subject>fog</dc:subject>"
        b"<dc:date>2026-10-05T09:00:00+01:00</dc:date></item></rdf:RDF>"
    )
    (item,) = channel.items
    assert channel.title == "Books"
    assert (item.guid, item.item_url) == ("http://a.example/b1", "http://a.example/1")
    assert (item.authors, item.categories) == (("Ann", "Bob"), ("fog",))
    assert (item.timestamp, item.dated) == (1_791_187_200_000_000, True)


def test_atom() -> None:
    item = only(
        atom(
            '<title type="html">Fish &amp;amp; &lt;i&gt;chips&lt;/i&gt;</title>'
            '<link rel="self" href="http://a.example/self"/><link href="/1"/>'
            '<link rel="enclosure" href="http://a.example/1.pdf"/>'
            "<id>tag:a.example,2026:1</id><updated>2026-10-07T00:00:00Z</updated>"
            "<published>2026-10-05T08:00:00.25Z</published>"
            "<author><name>Ann</name></author><author><email>bob@a.example</email></author>"
            '<category term="x" label="X"/><summary>short</summary>'
            '<content type="html">&lt;p&gt;long&lt;/p&gt;</content>'
        )
    )
    assert item.title == "Fish & chips"
    assert (item.guid, item.item_url) == ("tag:a.example,2026:1", "http://feeds.example/1")
    assert item.authors == ("Ann", "bob@a.example")
    assert item.categories == ("x",)
    assert item.timestamp == 1_791_187_200_250_000
    assert (item.description, item.content) == ("short", "<p>long</p>")
    assert item.enclosures == ("http://a.example/1.pdf",)


def test_an_atom_entry_inherits_the_authors_of_its_source_then_of_the_feed() -> None:
    feed = "<title>News</title><author><name>Feed</name></author>"
    entry = "<title>t</title><id>urn:1</id>"
    source = "<source><author><name>Source</name></author></source>"
    (plain,) = parse(atom(entry, feed=feed)).items
    (copied,) = parse(atom(entry + source, feed=feed)).items
    assert (plain.authors, copied.authors) == (("Feed",), ("Source",))


def test_rss_authors_are_not_inherited() -> None:
    channel = "<title>t</title><managingEditor>Ed</managingEditor>"
    (item,) = parse(rss("<title>a</title>", channel=channel)).items
    assert item.authors == ()


def test_rss_0_91_with_its_document_type() -> None:
    channel = parse(
        b'<?xml version="1.0"?><!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN"'
        b' "http://my.netscape.com/publish/formats/rss-0.91.dtd">'
        b'<rss version="0.91"><channel><title>Old</title><item><title>Caf&#233;</title>'
        b"<link>http://a.example/1</link></item></channel></rss>"
    )
    assert channel.problems == ()
    assert [(item.title, item.guid) for item in channel.items] == [("Café", "http://a.example/1")]


MODULES = (
    "<title>News</title>"
    '<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="next" href="?page=2"/>'
)


def module(uri: str, item: str) -> Item:
    """The item of a feed that declares a module under a prefix of its own."""
    body = rss(item).replace(b"<item>", f'<item xmlns:m="{uri}">'.encode())
    (found,) = parse(body).items
    return found


def test_itunes() -> None:
    item = module(
        "http://www.itunes.com/dtds/podcast-1.0.dtd",
        "<m:title>Episode</m:title><m:author>Ann</m:author><m:keywords>fog, sea</m:keywords>"
        "<m:summary>About fog</m:summary><guid>1</guid>",
    )
    assert (item.title, item.authors, item.categories) == ("Episode", ("Ann",), ("fog", "sea"))
    assert item.description == "About fog"


def test_media() -> None:
    item = module(
        "http://search.yahoo.com/mrss/",
        "<title>t</title><m:group><m:content url='/1.mp4'/><m:content url='/2.mp4'/></m:group>"
        "<m:thumbnail url='/t.png'/><m:keywords>fog</m:keywords><m:description>d</m:description>"
        "<enclosure url='/0.mp4' length='1' type='video/mp4'/>",
    )
    assert item.enclosures == tuple(f"http://feeds.example/{n}.mp4" for n in (0, 1, 2))
    assert (item.title, item.categories, item.description) == ("t", ("fog",), "d")


@pytest.mark.parametrize(
    "uri", ["http://source.scripting.com/", "https://source.scripting.com/", "urn:x"]
)
def test_source_markdown(uri: str) -> None:
    item = module(uri, "<title>t</title><m:markdown>*fog*</m:markdown>")
    assert item.description == ("*fog*" if "scripting" in uri else "")


@pytest.mark.parametrize(
    ("uri", "item", "author", "content"),
    [
        ("http://purl.org/dc/elements/1.1/", "<m:creator>Ann</m:creator>", ("Ann",), ""),
        ("http://purl.org/dc/elements/1.1", "<m:creator>Ann</m:creator>", ("Ann",), ""),
        ("http://purl.org/rss/1.0/modules/content/", "<m:encoded>c</m:encoded>", (), "c"),
        ("https://purl.org/dc/elements/1.1/", "<m:creator>Ann</m:creator>", ("Ann",), ""),
        ("http://purl.org/rss/1.0/modules/content", "<m:encoded>c</m:encoded>", (), "c"),
    ],
)
def test_dc_and_content_also_where_the_namespace_is_misspelt(
    uri: str, item: str, author: tuple[str, ...], content: str
) -> None:
    found = module(uri, f"<title>t</title><description>d</description>{item}")
    assert (found.authors, found.description, found.content) == (author, "d", content)


def test_the_source_of_an_aggregated_item() -> None:
    plain = only(rss('<title>t</title><source url="/other.rss">Other</source>'))
    assert (plain.source_url, plain.source_title) == ("http://feeds.example/other.rss", "Other")
    entry = only(
        atom(
            "<title>t</title><id>1</id><source><title>Other</title>"
            '<link href="http://b.example/"/><link rel="self" href="http://b.example/feed"/></source>'
        )
    )
    assert (entry.source_url, entry.source_title) == ("http://b.example/feed", "Other")
    none = only(rss("<title>t</title>"))
    assert (none.source_url, none.source_title) == ("", "")


def test_links_of_the_feed() -> None:
    channel = parse(rss("<title>t</title>", channel=MODULES), final_url="http://new.example/f")
    assert channel.links == (("next", "http://new.example/f?page=2"),)
    assert channel.link("next") == "http://new.example/f?page=2"
    assert channel.link("hub") == ""


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        (rss(), "rss20"),
        (rss().replace(b"2.0", b"0.91"), "rss091u"),
        (rss().replace(b"2.0", b"0.92"), "rss092"),
        (atom(), "atom10"),
        (
            b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
            b' xmlns="http://my.netscape.com/rdf/simple/0.9/"><channel/></r:RDF>',
            "rss090",
        ),
        (b'<feed version="0.3" xmlns="http://purl.org/atom/ns#"/>', "atom03"),
    ],
)
def test_dialects(body: bytes, dialect: str) -> None:
    assert (parse(body).dialect, parse(body).error) == (dialect, None)


def test_content_alone_is_the_description() -> None:
    item = only(atom('<title>t</title><id>urn:1</id><content type="html">all</content>'))
    assert (item.description, item.content) == ("all", "")


@pytest.mark.parametrize(
    ("body", "guid", "link"),
    [
        ("<guid>plain-1</guid><title>t</title>", "plain-1", ""),
        (
            "<guid>http://a.example/g</guid><title>t</title>",
            "http://a.example/g",
            "http://a.example/g",
        ),
        ("<link>http://a.example/l</link>", "http://a.example/l", "http://a.example/l"),
        (
            "<title>t</title><pubDate>Mon, 05 Oct 2026 08:00:00 GMT</pubDate>",
            "t 2026-10-05T08:00:00Z",
            "",
        ),
        ("<title>t</title>", "t", ""),
        ('<enclosure url="/1.mp3" length="1" type="x/y"/>', "http://feeds.example/1.mp3", ""),
    ],
)
def test_identity_falls_back(body: str, guid: str, link: str) -> None:
    item = only(rss(body))
    assert (item.guid, item.id, item.item_url) == (guid, guid, link)


def test_identity_of_a_text_without_anything_else_is_stable() -> None:
    one = only(rss("<description>words</description>"))
    two = only(rss("<description>words</description>", channel="<title>Other</title>"))
    assert one.id == two.id != only(rss("<description>other words</description>")).id


@pytest.mark.parametrize(
    "date",
    [
        "",
        "yesterday",
        "Mon, 45 Oct 2026 10:00:00 GMT",
        "0001-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "2026-02-30T10:00:00Z",
    ],
)
def test_an_impossible_date_is_the_arrival(date: str) -> None:
    item = only(rss(f"<title>t</title><pubDate>{date}</pubDate>"))
    assert (item.timestamp, item.dated) == (ARRIVAL, False)


@pytest.mark.parametrize(
    ("date", "microseconds"),
    [
        ("2026-10-05T13:30:00+0530", 0),
        ("2026-10-05T13:30:00+05:30", 0),
        ("2026-10-05 08:00:00", 0),
        ("2026-10-05T08:00:00.123456789Z", 123_456),
        ("Mon, 5 Oct 2026 04:00:00 EDT", 0),
        ("5 Oct 26 10:00 +0200", 0),
    ],
)
def test_dates_in_the_forms_that_feeds_use(date: str, microseconds: int) -> None:
    item = only(rss(f"<title>t</title><pubDate>{date}</pubDate>"))
    assert (item.timestamp, item.dated) == (1_791_187_200_000_000 + microseconds, True)


def test_dates_that_are_not_read_are_reported() -> None:
    dates = ["10/01/2020", "Fri, 10 Jan 2020 10:00:00 XYZ", "", "Fri, 10 Jan 2020 10:00:00 GMT"]
    items = [f"<title>t{n}</title><pubDate>{date}</pubDate>" for n, date in enumerate(dates)]
    channel = parse(rss(*items))
    assert [item.dated for item in channel.items] == [False, False, False, True]
    assert channel.problems == (
        "2 dates are unreadable or ambiguous, such as '10/01/2020': the arrival counts",
    )


def test_another_date_serves_where_the_first_is_not_read() -> None:
    dates = "<published>10/01/2026</published><updated>2026-10-05T08:00:00Z</updated>"
    channel = parse(atom(f"<title>t</title><id>urn:1</id>{dates}"))
    assert (channel.items[0].timestamp, channel.problems) == (1_791_187_200_000_000, ())


def test_a_future_date_is_kept() -> None:
    item = only(rss("<title>t</title><pubDate>Fri, 01 Jan 2100 00:00:00 GMT</pubDate>"))
    assert (item.timestamp, item.dated) == (4_102_444_800_000_000, True)


def test_updated_serves_where_published_is_missing() -> None:
    item = only(atom("<title>t</title><id>urn:1</id><updated>2026-10-05T08:00:00Z</updated>"))
    assert (item.timestamp, item.dated) == (1_791_187_200_000_000, True)


def test_one_guid_for_all_items_is_told_apart_by_links() -> None:
    items = [f"<guid isPermaLink='false'>g</guid><link>http://a.example/{n}</link>" for n in "ab"]
    channel = parse(rss(*items))
    assert [item.id for item in channel.items] == ["g http://a.example/a", "g http://a.example/b"]
    assert {item.guid for item in channel.items} == {"g"}
    assert channel.problems == ("1 guids are shared by items with different links",)


def test_of_true_repeats_the_first_is_kept() -> None:
    same = "<guid>http://a.example/1</guid><title>first</title>"
    other = "<guid>http://a.example/1</guid><title>second</title>"
    assert parse(rss(same, same)).problems == ()
    channel = parse(rss(same, other))
    assert [item.title for item in channel.items] == ["first"]
    assert channel.problems == ("1 items repeat the id of another and were left out",)


def test_empty_items_are_reported() -> None:
    channel = parse(rss("", "<title>t</title>"))
    assert len(channel.items) == 1
    assert channel.problems == ("1 items are empty and were left out",)


def test_relative_links_are_relative_to_where_the_document_came_from() -> None:
    body = rss("<title>t</title><link>../1</link>")
    assert parse(body).items[0].item_url == "http://feeds.example/1"
    moved = parse(body, final_url="https://new.example/a/b/feed")
    assert moved.items[0].item_url == "https://new.example/a/1"
    assert moved.items[0].channel_url == URL
    local = parse_feed(
        rss("<link>1</link>", channel="<link>http://site.example/x/</link>"), "f.rss", arrival=0
    )
    assert local.items[0].item_url == "http://site.example/x/1"

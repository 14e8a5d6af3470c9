from __future__ import annotations

from dataclasses import replace

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


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the document is empty"),
        (b" \n", "the document is empty"),
        (b"<!DOCTYPE html><html><body>Not found</body></html>", "an HTML page, not a feed"),
        (b"\n<!-- x --><HTML lang='en'><p>", "an HTML page, not a feed"),
        (b"hello", "plain text, not XML"),
        (bytes(range(256)) * 4, "binary data, not XML"),
        (b"<invoice><total>1</total></invoice>", "not a feed: the root element is <invoice>"),
        (
            b"<a><b>",
            "not a feed: the root element is <a>; not well-formed: line 1: no element found",
        ),
    ],
)
def test_what_is_no_feed_says_what_it_is(body: bytes, reason: str) -> None:
    channel = parse(body)
    assert (channel.error, channel.items) == (reason, ())
    assert channel.streams == ("feeds.example", "S")


def test_a_feed_without_items_is_a_feed() -> None:
    assert parse(rss()).error is None


@pytest.mark.parametrize(
    "root",
    ['<r:rss xmlns:r="urn:x" version="2.0">', '<rss xmlns:r="urn:x" version="2.0">'],
)
@pytest.mark.parametrize("title", ["x", "x & y"])
def test_a_feed_of_which_no_item_is_found_says_so(root: str, title: str) -> None:
    items = "<r:item><r:title>a</r:title></r:item>" * 2
    name = root[1:].split()[0]
    body = f"{root}<r:channel><r:title>{title}</r:title>{items}</r:channel></{name}>"
    channel = parse(body.encode())
    assert channel.items == ()
    assert channel.error is not None
    wanted = (
        "not a feed: the root" if name == "r:rss" else "no item found in its 2 elements <r:item>"
    )
    assert channel.error.startswith(wanted)
    assert ("not well-formed: line 1" in channel.error) == ("&" in title)


@pytest.mark.parametrize(
    ("p", "declared"),
    [
        ("", "xmlns='http://backend.userland.com/rss2'"),
        ("r:", "xmlns:r='http://backend.userland.com/rss2'"),
        ("rss:", ""),
    ],
)
def test_a_malformed_feed_in_a_namespace_keeps_its_items(p: str, declared: str) -> None:
    items = f"<{p}item><{p}title>a</{p}title></{p}item><{p}item><{p}title>b</{p}title></{p}item>"
    body = f"<{p}rss {declared} version='2.0'><{p}channel><{p}title>x & y</{p}title>{items}"
    channel = parse(f"{body}</{p}channel></{p}rss>".encode())
    assert [item.title for item in channel.items] == ["a", "b"]
    assert channel.malformed


@pytest.mark.parametrize(
    ("inner", "titles", "word"),
    [
        ("<!-- never closed <item><title>b</title></item>", ["a"], "1 of its 2"),
        (
            "<item><title><![CDATA[b</title></item><item><title>c</title></item>",
            ["a"],
            "1 of its 3",
        ),
        ("<item><title>b & c<title></item><item><title>d</title></item>", ["a"], "1 of its 3"),
        (
            "<!-- <item> --><item><title><![CDATA[<item>]]> & b</title></item> & ",
            ["a", "<item> & b"],
            "",
        ),
    ],
)
def test_items_that_a_malformed_feed_loses_are_counted(
    inner: str, titles: list[str], word: str
) -> None:
    body = f"<rss version='2.0'><channel><item><title>a</title></item>{inner}</channel></rss>"
    channel = parse(body.encode())
    assert channel.malformed
    assert [item.title for item in channel.items] == titles
    words = [text for text in channel.problems if text.endswith("items could not be read")]
    assert words == ([f"{word} items could not be read"] if word else [])


def test_malformed_but_recovered_is_reported_with_its_line() -> None:
    body = b'<rss version="2.0">\n<channel><title>T</title>\n<item><title>Tom & Ann</title></item>'
    channel = parse(body)
    assert [item.title for item in channel.items] == ["Tom & Ann"]
    assert channel.problems == ("not well-formed: line 3: not well-formed (invalid token)",)
    assert channel.malformed
    assert not parse(rss("<title>t</title>")).malformed


ESCAPED = (
    "<guid>http://a.example/?a=1&amp;b=&#38;&#x26;</guid><link>http://a.example/?a=1&amp;b=2</link>"
    "<title>Q&amp;amp;A &amp;lt;x&gt;</title><category>Arts &amp; Crafts</category>"
    "<dc:creator>Tom &#38; Ann &#233;</dc:creator>"
    "<description>&lt;p title=&quot;&amp;quot;&quot;&gt;a &amp;amp;quot; b&lt;/p&gt;</description>"
    "<content:encoded><![CDATA[<p>&#39;a&#39; &amp;&amp; b</p>]]></content:encoded>"
    "<enclosure url='http://a.example/?a=1&#38;b=&quot;&#x32;' length='1' type='x/y'/>"
)


def test_an_item_is_the_same_when_its_feed_breaks() -> None:
    sound = rss(ESCAPED)
    broken = parse(sound.replace(b"</channel>", b"</channel"))
    assert broken.malformed
    assert broken.items == parse(sound).items
    (item,) = broken.items
    assert (item.guid, item.item_url) == (
        "http://a.example/?a=1&b=&&",
        "http://a.example/?a=1&b=2",
    )
    assert (item.categories, item.authors) == (("Arts & Crafts",), ("Tom & Ann é",))
    assert item.enclosures == ('http://a.example/?a=1&b="2',)


def test_an_item_in_xhtml_is_the_same_when_its_feed_breaks() -> None:
    """A `<` that its text shows is no beginning of a tag."""
    text = '<div xmlns="http://www.w3.org/1999/xhtml">a &lt;b&gt; &amp;amp; <i>c</i></div>'
    sound = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><id>f</id><title>T</title>'
        f'<entry><id>1</id><title type="xhtml">{text}</title><content type="xhtml">{text}</content>'
        "<updated>2026-01-01T00:00:00Z</updated></entry></feed>"
    )
    broken = parse(sound.removesuffix("</feed>").encode())
    assert broken.malformed
    assert broken.items == parse(sound.encode()).items
    assert "<b>" in broken.items[0].title


def test_references_to_no_character_stay() -> None:
    for reference in ("&#xD800;", "&#1114112;", "&#x110000;", "&#;", "&#x;"):
        assert only(rss(f"<guid>{reference}</guid><title>t</title>")).title == "t"


def test_html_entities_of_a_feed_that_never_declared_them() -> None:
    channel = parse(rss("<title>caf&eacute; &#xD800;</title>"))
    assert channel.items[0].title == "café"
    assert channel.problems[0].startswith("not well-formed: line 1: ")


def test_control_characters_are_removed() -> None:
    channel = parse(rss("<title>a\x01b</title>"))
    assert channel.items[0].title == "ab"
    assert channel.problems == ("characters that XML does not allow were removed",)


@pytest.mark.parametrize(
    ("encoding", "declared", "header", "problems"),
    [
        ("utf-8", None, "", 0),
        ("utf-8", "utf-8", "text/xml", 0),
        ("iso-8859-1", "iso-8859-1", "", 0),
        ("iso-8859-1", None, "text/xml; charset=iso-8859-1", 0),
        ("utf-8", "utf-8", 'text/xml; charset="iso-8859-1"', 0),
        ("utf-8", "iso-8859-1", "", 0),
        ("utf-16", "utf-16", "", 0),
        ("utf-16-le", "utf-16", "", 0),
        ("cp1252", "utf-8", "", 1),
        ("cp1252", "no-such-thing", "", 1),
        ("cp1252", "utf-7", "", 1),
        ("cp1252", "utf-16", "", 1),
        ("utf-8", "utf-16", "", 0),
    ],
)
def test_encodings(encoding: str, declared: str | None, header: str, problems: int) -> None:
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    body = (declaration + rss("<title>Inês em São João</title>").decode()).encode(encoding)
    channel = parse_feed(body, URL, {"Content-Type": header}, arrival=0)
    assert channel.items[0].title == "Inês em São João"
    assert len(channel.problems) == problems


def test_a_few_stray_bytes_do_not_spoil_the_rest() -> None:
    body = rss("<title>São João</title>", "<title>caf# \u0023</title>").replace(b"#", b"\xe9", 1)
    channel = parse(body)
    assert [item.title for item in channel.items] == ["São João", "café #"]
    assert channel.problems == (
        "encoding: not all of it is valid utf-8, the rest read as windows-1252",
    )


def test_stateful_encodings_are_read_although_they_look_like_ascii() -> None:
    text = '<?xml version="1.0" encoding="iso-2022-jp"?>' + rss("<title>東京</title>").decode()
    assert parse(text.encode("iso-2022-jp")).items[0].title == "東京"


def test_the_channel_in_one_piece() -> None:
    channel = parse(rss("<title>a</title>", channel="<title>Fish &amp;amp; Chips</title>"))
    assert replace(channel, items=()) == Channel(
        URL, "Fish & Chips", ("Fish_Chips", "S"), dialect="rss20"
    )

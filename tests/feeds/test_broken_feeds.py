"""Feeds that are none, are malformed, or are in odd encodings: what is kept of them, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from feeds.adapter import Channel, parse_feed
from tests.feeds.data import atom, rss
from tests.feeds.test_adapter import URL, only, parse


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


WHOLE = rss(
    "<guid>1</guid><title>One</title><link>http://a.example/1</link>",
    "<guid>2</guid><title><![CDATA[Two <item> </item>]]></title><!-- </item> -->"
    "<description>d</description><link>http://a.example/2</link>",
)
ATOM = atom(
    "<id>1</id><title>One</title>", "<id>2</id><title>Two</title><link href='http://a.example/2'/>"
)


@pytest.mark.parametrize(
    ("body", "name"), [(WHOLE, b"item"), (ATOM, b"entry")], ids=["rss", "atom"]
)
def test_an_item_in_which_a_document_ends_is_left_out(body: bytes, name: bytes) -> None:
    """Wherever that is: items are whole or not there."""
    whole = parse(body)
    assert (len(whole.items), whole.cut) == (2, False)
    begin, end = body.index(b"<" + name), body.rindex(b"</" + name)
    cuts = 0
    for at in range(begin, len(body)):
        channel = parse(body[:at])
        if channel.error is None:
            items = [replace(item, channel_title=whole.title) for item in channel.items]
            assert items == [*whole.items[: len(items)]], at
            cuts += channel.cut
            if at > end + len(name) + 2:
                assert (len(items), channel.cut) == (2, False), at
    assert cuts > 100


def test_what_lacks_the_end_of_an_item_elsewhere_is_not_cut_off() -> None:
    body = WHOLE.replace(b"</item>", b"")
    channel = parse(body)
    assert channel.items
    assert not channel.cut
    assert not parse(b"<rss version='2.0'><channel><title>A & B</title><item/>").cut

"""Documents that are made to hang, exhaust or mislead a parser are refused soon, with a reason."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from feeds.adapter import Channel, parse_feed
from feeds.fetch import MAX_BYTES, Fetcher, Request
from feeds.parser import parse_document
from feeds.prolog import make_safe
from tests.feeds.data import DATA, needs_data, rss
from tests.feeds.odd_server import OddServer
from tests.feeds.site import Site


def parse(text: str, max_seconds: float = 10.0) -> Channel:
    return parse_feed(text.encode(), "http://a.example/", arrival=0, max_seconds=max_seconds)


def feed(title: str) -> str:
    return f'<rss version="2.0"><channel><item><title>{title}</title></item></channel></rss>'


def laughs(depth: int, prolog: str = "") -> str:
    entities = "".join(f'<!ENTITY e{n} "&e{n - 1};&e{n - 1};">' for n in range(1, depth))
    return f'{prolog}<!DOCTYPE rss [<!ENTITY e0 "ha"> {entities}]>{feed(f"&e{depth - 1};")}'


@pytest.mark.parametrize(
    "text",
    [
        laughs(40),
        laughs(40, "<!-- <rss> hides the document type from a search for the root -->"),
        laughs(10_000),
        f'<!DOCTYPE rss [<!ENTITY a "{"x" * 100_000}">]>{feed("&a;" * 11)}',
    ],
    ids=["laughs", "hidden laughs", "endless laughs", "quadratic"],
)
def test_entity_bombs_are_refused_unexploded(text: str) -> None:
    began = time.process_time()
    assert parse(text).error == "entities would expand to more than 1,000,000 characters"
    assert time.process_time() - began < 2


def test_entities_in_a_circle() -> None:
    text = '<!DOCTYPE rss [<!ENTITY a "&b;"> <!ENTITY b "&a;">]>' + feed("&a;")
    assert parse(text).error == "entity 'a' refers to itself"


def test_harmless_entities_are_expanded() -> None:
    text = (
        '<!DOCTYPE rss [\n<!ENTITY co "Tom &#38;#38; Co"> <!ENTITY both "&co; and &co;">'
        '<!ENTITY co "the first one counts">]>\n'
    ) + feed("&both;")
    channel = parse(text)
    assert [item.title for item in channel.items] == ["Tom & Co and Tom & Co"]
    assert channel.problems == ()


def test_nothing_outside_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    dtd = tmp_path / "evil.dtd"
    dtd.write_text(f'<!ENTITY x SYSTEM "{secret.as_uri()}">')
    text = (
        f'<!DOCTYPE rss SYSTEM "{dtd.as_uri()}" [<!ENTITY y SYSTEM "{secret.as_uri()}">'
        f'<!ENTITY % p SYSTEM "{dtd.as_uri()}"> %p;]>' + feed("a &y; &x; b")
    )
    channel = parse(text)
    assert channel.items[0].title.startswith("a ")
    assert b"secret" not in channel.items[0].to_xml()
    assert "document type: external entity 'y' not read" in channel.problems
    assert "document type: parameter entity 'p' ignored" in channel.problems


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://{host}/r.dtd">',
        '<!DOCTYPE rss SYSTEM "http://{host}/r.dtd">',
        '<!DOCTYPE rss [<!ELEMENT rss ANY><!ATTLIST rss version CDATA "2.0">]>',
        '<!DOCTYPE rss [<!ENTITY % remote SYSTEM "http://{host}/r.dtd"> %remote;]>',
        '<!DOCTYPE rss [<!ENTITY remote SYSTEM "http://{host}/r.txt">]>',
    ],
)
def test_a_document_type_is_harmless_and_nobody_is_asked_for_it(doctype: str) -> None:
    with Site({}) as site:
        text = doctype.replace("{host}", site.base.removeprefix("http://"))
        title = "t &remote;" if "ENTITY remote" in doctype else "t"
        channel = parse(text + feed(title))
        assert [item.title for item in channel.items] == [title]
        assert site.asked == []


def test_xml_that_never_ends_is_cut_off() -> None:
    """A body that goes on for ever is read to the limit; one that stops at it is read as far."""

    def endless(write: Callable[[bytes], object]) -> None:
        write(b"HTTP/1.1 200 OK\r\n\r\n<rss><channel>")
        while True:
            write(b"<item><title>and on</title></item>" * 1_000)

    with OddServer({"/f": endless}) as server, Fetcher(allow_private=True) as fetcher:
        answer = fetcher.fetch(Request(server.url("/f")))
    assert answer.problem == f"fetch: response body too large: {MAX_BYTES + 1} bytes"
    cut = (b"<rss><channel>" + b"<item><title>and on</title></item>" * 200_000)[:MAX_BYTES]
    began = time.thread_time()
    channel = parse_feed(cut, "http://a.example/", arrival=0, max_seconds=2.0)
    assert time.thread_time() - began < 7
    assert channel.error == "took too long to parse" or channel.malformed


@pytest.mark.parametrize("name", ["../../etc/x", "..\\x", "/etc/x", "a\0b", "a/b", ".", "-", "~"])
def test_names_do_not_lead_out_of_a_folder(name: str) -> None:
    channel = parse(feed("t").replace("<item>", f"<title>{name}</title><item>"))
    for stream in channel.streams:
        assert re.fullmatch(r"\w[\w.-]*", stream)
        assert ".." not in Path(stream).parts


def test_a_path_or_url_as_the_body_is_text(tmp_path: Path) -> None:
    file = tmp_path / "feed.xml"
    file.write_bytes(rss("<title>t</title>"))
    assert parse(str(file)).error == "plain text, not XML"
    assert parse("http://127.0.0.1:9/").error == "plain text, not XML"


def test_line_numbers_survive_a_document_type() -> None:
    text = '<?xml version="1.0"?>\n<!DOCTYPE rss [\n<!ENTITY a "b">\n]>\n<rss><channel>\n</rss>'
    assert parse_document(text.encode()).problems == ("not well-formed: line 6: mismatched tag",)
    assert make_safe(text).text.count("\n") == text.count("\n")


# feedparser takes minutes to hours for these.
SLOW = {
    "many categories": feed("t").replace(
        "</item>", "".join(f"<category>c{n}</category>" for n in range(60_000)) + "</item>"
    ),
    "many keywords": (
        '<rss version="2.0" xmlns:itunes="http://www.itunes.com/DTDs/PodCast-1.0.dtd"><channel>'
        f"<item><itunes:keywords>{','.join(map(str, range(200_000)))}</itunes:keywords></item>"
        "</channel></rss>"
    ),
    "unclosed tags": "<rss><channel><item><title>" + "<a " * 400_000,
    "unclosed quotes": "<rss><channel><item><title>" + '<a "' * 400_000,
    "many namespaces": (
        "<rss "
        + " ".join(f'xmlns:n{n}="u{n}"' for n in range(900))
        + ">"
        + "<n899:x/>" * 100_000
        + "</rss>"
    ),
    "deep": '<rss version="2.0"><channel><item>' + "<a>" * 500_000,
}


@pytest.mark.parametrize("name", SLOW)
def test_time_is_bounded(name: str) -> None:
    began = time.thread_time()
    channel = parse(SLOW[name], max_seconds=0.3)
    assert channel.error == "took too long to parse"
    assert time.thread_time() - began < 3


QUICK = {
    "long author": feed("t").replace("</item>", f"<author>{'a' * 1_000_000}</author></item>"),
    "comments": "<!-- x -->" * 100_000 + "<rss/>",
    "half comments": "<rss><channel><item><title>" + "<!--" * 250_000,
    "half CDATA": "<rss><channel><item><title>" + "<![CDATA[" * 100_000,
    "long date": feed("t").replace("</item>", f"<pubDate>{'1' * 1_000_000}</pubDate></item>"),
    "entity chain": (
        "<!DOCTYPE rss ["
        + "".join(f'<!ENTITY e{n} "&e{n + 1};">' for n in range(30_000))
        + "]>"
        + feed("t")
    ),
}


@pytest.mark.parametrize("name", QUICK)
def test_what_looks_slow_is_not(name: str) -> None:
    began = time.thread_time()
    parse(QUICK[name])
    assert time.thread_time() - began < 3


def test_too_many_attributes() -> None:
    text = "<rss " + " ".join(f'a{n}="1"' for n in range(20_000)) + "/>"
    assert parse(text).error == "an element with 20,000 attributes"


@needs_data
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("xmlbomb.xml", "not a feed"),
        ("xmlbomb2.xml", "not a feed"),
        ("quadratic.xml", "entities would expand"),
        ("cyclic.xml", "refers to itself"),
        ("external.xml", "not a feed"),
        ("external_file.xml", "not a feed"),
    ],
)
def test_known_bombs(name: str, reason: str) -> None:
    body = (DATA / "xml_defusedxml" / "xmltestdata" / name).read_bytes()
    began = time.thread_time()
    channel = parse_feed(body, "http://a.example/", arrival=0)
    assert channel.error is not None
    assert reason in channel.error
    assert time.thread_time() - began < 2


@needs_data
def test_no_malformed_document_of_the_conformance_suite_raises() -> None:
    files = [p for p in (DATA / "xml_w3c_xmlconf").rglob("*.xml") if p.stat().st_size < 20_000]
    assert len(files) > 1000
    reasons = {
        parse_feed(path.read_bytes(), "http://a.example/", arrival=0).error is None
        for path in files[::3]
    }
    assert reasons == {False}


def test_defaults_of_attributes_count() -> None:
    text = (
        '<!DOCTYPE rss [<!ATTLIST guid isPermaLink CDATA "false" x NMTOKENS "  a &lt;  b ">'
        '<!ATTLIST guid isPermaLink CDATA "true"><!ATTLIST item note CDATA "&quot;1&quot;">]>'
        + feed("<guid>http://a.example/1</guid>")
    )
    prolog = make_safe(text)
    declared = "".join(prolog.text.partition("[")[1:]).partition("]")[0]
    assert declared == (
        '[<!ATTLIST guid isPermaLink CDATA "false"><!ATTLIST guid x CDATA "a &lt; b">'
        "<!ATTLIST item note CDATA '\"1\"'>"
    )
    (item,) = parse_feed(text.encode(), "http://a.example/", arrival=1).items
    assert item.item_url == ""  # by default the guid is an address here


@pytest.mark.parametrize(
    "text",
    [
        f'<!DOCTYPE rss [<!ATTLIST b z CDATA "{"x" * 100_000}">]>' + feed("<b/>" * 11),
        f'<!DOCTYPE rss [<!ATTLIST b z CDATA "{"x" * 1_000}"><!ENTITY m "{"<b/>" * 100}">]>'
        + feed("&m;" * 100),
    ],
)
def test_defaults_of_attributes_are_bounded(text: str) -> None:
    assert (make_safe(text).refused or "").startswith("defaults of attributes would be more than")

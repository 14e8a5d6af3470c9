"""The Atom feed of a subscription: valid, stable, and readable by the project's own feed reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lxml import etree, html

from broker.delivery import atom
from broker.model import DocumentRef, iso_time
from broker.text.people import moment
from feeds.parser import parse_document
from tests.delivery.support import START, match, open_mailbox

ATOM = "{http://www.w3.org/2005/Atom}"
URL = "http://127.0.0.1:8321/feeds/tides.atom?key=a&b=c"
LATER = START + 1_500_000


def rules(feed: etree._Element) -> None:
    """What RFC 4287 demands of a feed and its entries (4.1.1 and 4.1.2)."""
    assert feed.tag == f"{ATOM}feed"
    for element in (feed, *feed.findall(f"{ATOM}entry")):
        for name in ("id", "title", "updated"):
            assert len(element.findall(f"{ATOM}{name}")) == 1, name
        assert len(element.findall(f"{ATOM}content")) <= 1
        alternates = [
            e for e in element.findall(f"{ATOM}link") if e.get("rel") in (None, "alternate")
        ]
        assert len(alternates) <= 1
        # 4.1.2: without an alternate link an entry has content.
        if element.tag == f"{ATOM}entry":
            assert alternates or element.find(f"{ATOM}content") is not None
    assert feed.find(f"{ATOM}author/{ATOM}name") is not None
    ids = [e.findtext(f"{ATOM}id") for e in feed.findall(f"{ATOM}entry")]
    assert len(set(ids)) == len(ids)
    assert all(id and id.startswith("urn:") for id in ids)


def test_the_feed_reads_back(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(0, title="Ebbe & Flut ✓"), match(0, "other")], START)
        mailbox.take([match(1)], LATER)
        made = atom(mailbox, "tides", URL, title="My tides")
        rules(etree.fromstring(made))
        parsed = parse_document(made, "application/atom+xml")
        assert (parsed.error, parsed.malformed, parsed.problems) == (None, False, ())
        assert parsed.version == "atom10"
        assert parsed.feed.title == "My tides"
        assert parsed.feed.updated == iso_time(LATER)
        assert [link.href for link in parsed.feed.links if link.rel == "self"] == [URL]
        newest, oldest = parsed.entries
        assert newest.id == f"urn:xscl:match:{match(1).id}"
        assert newest.updated == iso_time(LATER)
        assert oldest.title == "Ebbe & Flut ✓ 0"
        assert [author.name for author in oldest.authors] == ["Courier"]
        assert [link.href for link in oldest.links] == ["https://courier.example/0"]
        content = html.fromstring(oldest.content[0].value)
        assert oldest.content[0].type == "text/html"
        result = etree.fromstring(content.findall(".//pre")[-1].text or "")
        assert result.get("query") == "tides"
        assert result.findtext("item/title") == "Ebbe & Flut ✓ 0"
        assert [a.get("href") for a in content.iter("a")] == ["https://courier.example/0"]


def test_entries_stay_the_same_when_others_come(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(0)], START)
        (before,) = etree.fromstring(atom(mailbox, "tides", URL)).findall(f"{ATOM}entry")
        mailbox.take([match(n) for n in range(1, 100)], LATER)
        limited = etree.fromstring(atom(mailbox, "tides", URL, limit=100))
        entries = limited.findall(f"{ATOM}entry")
        assert etree.tostring(entries[-1]) == etree.tostring(before)
        assert len(entries) == 100
        assert len(etree.fromstring(atom(mailbox, "tides", URL)).findall(f"{ATOM}entry")) == 50


def test_nothing_yet(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        made = atom(mailbox, "nobody & <friends>", URL)
        rules(etree.fromstring(made))
        assert parse_document(made).error is None


def test_odd_matches_make_no_invalid_feed(tmp_path: Path) -> None:
    """Results that are no XML, with characters that XML does not have, with names of their own."""
    odd = [
        match(0, result="<unfinished"),
        match(1, result="plain \x00 text \ud83d"),
        match(2, values={"title": ["\x07 half \ud83d"]}),
        match(3, result='<r xmlns="urn:own" xmlns:p="urn:p"><p:a p:b="1"/></r>'),
        match(4, result="<bare xmlns=''><title>t</title></bare>"),
    ]
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take(odd, START)
        made = atom(mailbox, "tides", URL)
        feed = etree.fromstring(made)
        rules(feed)
        assert parse_document(made).error is None
        assert len(feed.findall(f"{ATOM}entry")) == len(odd)


def test_markup_in_a_match_is_no_markup_in_the_feed(tmp_path: Path) -> None:
    evil = match(0, title="<script>x</script>", values={"a": ["<img src=x onerror=y>"]})
    evil = replace(evil, joined=(("<b>", "a"),))
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([evil], START)
        (entry,) = parse_document(atom(mailbox, "tides", URL)).entries
        content = html.fromstring(entry.content[0].value)
        assert {element.tag for element in content.iter()} == {
            "div",
            "pre",
            "ul",
            "li",
            "a",
            "br",
            "p",
            "details",
            "summary",
        }


def test_how_many_were_left_out_is_told(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.set_throttle("tides", None, 10_000_000)
        mailbox.take([match(n) for n in range(15)], START)
        assert b"(9 before it were left out)" in atom(mailbox, "tides", URL)


def test_an_entry_is_called_by_what_was_found_and_leads_there(tmp_path: Path) -> None:
    first, second, third = (f"https://{name}.example/1" for name in ("tide", "ebb", "flow"))
    addresses = (first, "urn:x", second, first)
    documents = tuple(DocumentRef(id, "S", START, "Ebb") for id in addresses)
    found = [
        # The documents themselves: by their titles, each once.
        replace(match(0), documents=documents),
        # Documents without a title: by the match's values, without addresses.
        replace(
            match(1),
            documents=tuple(DocumentRef(id, "S", START) for id in addresses),
            values={"t": ["Ebb", " Tide\n Clerk "], "u": ["Ebb"], "link": [third]},
        ),
        # Nothing but addresses.
        replace(match(2, values={"link": [third]}), documents=()),
        replace(match(3, values={"t": ["long " * 100]}), documents=()),
    ]
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take(found, START)
        feed = etree.fromstring(atom(mailbox, "tides", URL))
    rules(feed)
    *_, nameless, parts, whole = feed.findall(f"{ATOM}entry")
    assert whole.findtext(f"{ATOM}title") == "Ebb"
    links = [(link.get("rel"), link.get("href")) for link in whole.findall(f"{ATOM}link")]
    assert links == [("via", first), ("alternate", second)]
    shown = html.fromstring(whole.findtext(f"{ATOM}content") or "").iter("a")
    assert [(a.get("href"), a.text) for a in shown] == [
        (first, "Ebb"),
        (second, "Ebb"),
        (first, "Ebb"),
    ]
    assert parts.findtext(f"{ATOM}title") == "Ebb, Tide Clerk"
    assert nameless.findtext(f"{ATOM}title") == f"tides {moment(match(2).end_us)}"
    assert len(feed.findall(f"{ATOM}entry")[0].findtext(f"{ATOM}title") or "") == 200


def test_without_a_match_the_time_is_that_of_the_subscription(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        feed = etree.fromstring(atom(mailbox, "tides", URL, since=LATER))
    assert feed.findtext(f"{ATOM}updated") == iso_time(LATER)

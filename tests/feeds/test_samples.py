"""The sample feeds are as their README describes, including each planted correlation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree

from feeds.adapter import parse_feed
from feeds.item import Item
from feeds.opml import read_opml
from feeds.parser import parse_document
from tests.feeds.data import SAMPLES

DAY = 86_400_000_000
FEEDS = sorted(path for path in SAMPLES.iterdir() if path.suffix in (".rss", ".atom", ".rdf"))


@pytest.fixture(scope="module")
def streams() -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for path in FEEDS:
        channel = parse_feed(path.read_bytes(), path.name, arrival=0)
        for stream in channel.streams:
            found.setdefault(stream, []).extend(channel.items)
    return found


@pytest.mark.parametrize("path", FEEDS, ids=lambda path: path.name)
def test_a_feed_is_well_formed_dated_and_newest_first(path: Path) -> None:
    body = path.read_bytes()
    etree.fromstring(body)
    channel = parse_feed(body, "f", arrival=0)
    assert (channel.error, channel.problems) == (None, ())
    times = [item.timestamp for item in channel.items]
    assert times == sorted(times, reverse=True)
    first, end = (datetime(2026, 10, day, tzinfo=UTC).timestamp() * 1e6 for day in (5, 19))
    assert all(item.dated and first <= item.timestamp < end for item in channel.items)
    assert all(item.title and item.item_url and item.description for item in channel.items)
    hosts = set(re.findall(rb"https?://([^/\"< ]+)", body))
    standard = {b"www.w3.org", b"purl.org", b"www.itunes.com", b"backend.userland.com"}
    assert {host for host in hosts if not host.endswith(b".example")} <= standard


def test_every_dialect_is_there(streams: dict[str, list[Item]]) -> None:
    versions = {parse_document(path.read_bytes()).version for path in FEEDS}
    assert versions == {"rss20", "rss10", "rss092", "atom10"}
    assert b"ISO-8859-1" in (SAMPLES / "ines-carvalho.rss").read_bytes()
    assert (len(FEEDS), len(streams["S"])) == (17, 132)


def test_the_opml_file_lists_the_feeds() -> None:
    listed = read_opml((SAMPLES / "subscriptions.opml").read_bytes())
    assert sorted(entry.url for entry in listed) == [path.name for path in FEEDS]
    for entry in listed:
        channel = parse_feed((SAMPLES / entry.url).read_bytes(), entry.url, arrival=0)
        assert channel.title == entry.title


def within(days: int, first: Item, last: Item) -> bool:
    return first.timestamp < last.timestamp <= first.timestamp + days * DAY


def test_the_planted_correlations(streams: dict[str, list[Item]]) -> None:
    """What demo.xscl asks, once more in Python: as many matches as the README says."""
    everything = streams["S"]
    courier = [item for item in everything if item.channel_title.startswith("Courier ")]
    books = streams["Tidewater_Press_New_Books"]
    decided = max(item.timestamp for item in everything) - DAY // 24
    found: dict[str, Sequence[object]] = {
        "same-story": [
            (a, b) for a in courier for b in courier if a.item_url == b.item_url and within(1, a, b)
        ],
        "book-then-author": [
            (author, a, b)
            for a in books
            for b in everything
            if a.title == b.title and within(7, a, b)
            for author in set(a.authors) & set(b.authors)
        ],
        "book-reviewed": [
            (a, b, reviewer)
            for a in books
            for b in streams["The_Readers_Table"]
            if a.title in b.categories and within(10, a, b)
            for reviewer in b.authors
        ],
        "discussed": [
            (a, b)
            for a in everything
            for b in streams["Gannet"]
            if a.channel_title != "Planet Saltmarsh"
            and a.item_url == b.item_url
            and within(3, a, b)
        ],
        "transcript": [
            (a, b)
            for a in streams["Undertow"]
            for b in streams["Undertow_Transcripts"]
            if (a.guid, a.title) == (b.guid, b.title) and within(4, a, b)
        ],
        "same-byline": [
            (a, b, author, category)
            for a in streams["Courier_City"]
            for b in streams["Harbour_Radio_News"]
            if abs(a.timestamp - b.timestamp) <= 2 * DAY
            for author in set(a.authors) & set(b.authors)
            for category in set(a.categories) & set(b.categories)
        ],
        "patched": [
            (a, b, c, package)
            for a in streams["Lanternfish_Advisories"]
            for b in streams["Cratebay_Releases"]
            if within(5, a, b)
            for c in streams["Brightmoor_Status"]
            if b.timestamp < c.timestamp and within(7, a, c)
            for package in set(a.categories) & set(b.categories) & set(c.categories)
        ],
        "repeated": [
            (a, b, author)
            for a in streams["Half_a_Loaf_of_Bits"]
            for b in streams["Planet_Saltmarsh"]
            if a.title == b.title and abs(a.timestamp - b.timestamp) <= DAY
            for author in set(a.authors) & set(b.authors)
        ],
        "unpatched": [
            (a, package)
            for a in streams["Lanternfish_Advisories"]
            if not a.title.startswith("Withdrawn") and a.timestamp + 4 * DAY < decided
            for package in a.categories
            if not [
                b
                for b in streams["Cratebay_Releases"]
                if package in b.categories and within(4, a, b)
            ]
        ],
        "comes-up": [
            (a, subject)
            for a in everything
            if a.timestamp + 4 * DAY < decided
            for subject in set(a.categories)
            if not [b for b in everything if subject in b.categories and within(2, b, a)]
            and len([b for b in everything if subject in b.categories and within(4, a, b)]) >= 3
        ],
    }
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", readme, re.MULTILINE))
    assert {name: str(len(matches)) for name, matches in found.items()} == stated
    queries = (SAMPLES / "demo.xscl").read_text(encoding="utf-8")
    assert set(re.findall(r"^([a-z-]+):$", queries, re.MULTILINE)) == set(stated)

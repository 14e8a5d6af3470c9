"""Real feeds: each is parsed or refused with a reason, feedparser itself finds the same entries, and
how well they are read when they are spoilt; `report.txt` has the results. Their parses are shared."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import feedparser
import pytest
from lxml import etree

from feeds.parser import parse_document
from tests.conftest import Golden
from tests.feeds import agreement, expectations, recovery
from tests.feeds.data import DATA, needs_data

pytestmark = needs_data

REPORT = Path(__file__).parent / "report.txt"


@pytest.mark.parametrize("folder", recovery.FOLDERS)
def test_real_feeds_become_items_of_well_formed_xml(folder: str) -> None:
    count = 0
    for path in recovery.files(folder):
        channel = recovery.channel(path)
        assert bool(channel.error) == (path.name in recovery.NO_FEEDS), (path, channel.error)
        count += len(channel.items)
        assert len({item.id for item in channel.items}) == len(channel.items)
        for item in channel.items[:5]:
            root = etree.fromstring(item.to_xml())
            assert root.findtext("guid")
            assert root.findtext("timestamp")
    assert count >= len(recovery.files(folder))


def entries(parsed: Any) -> list[tuple[Any, ...]]:
    return [
        tuple(dict.get(entry, key) for key in ("title", "published", "updated", "tags"))
        for entry in parsed.entries
    ]


def test_feedparser_finds_the_same() -> None:
    """Driving the parsers ourselves changes nothing about what they find."""
    paths = sorted((DATA / "feedparser_tests" / "tests").rglob("*.xml"))
    assert len(paths) > 1000
    different = []
    for path in paths:
        body = path.read_bytes()
        ours = parse_document(body)
        theirs = feedparser.parse(
            io.BytesIO(body), sanitize_html=False, resolve_relative_uris=False
        )
        if ours.error is None and entries(ours) != entries(theirs):
            different.append(path.name)
        if ours.error is not None and theirs.entries:
            different.append(path.name)
    # One is in Shift-JIS and does not say so; there both are wrong, each in its own way. The other
    # ends within its item, which is left out.
    assert different == ["shiftjis.xml", "rss_incomplete_cdata.xml"]


def test_the_report(golden: Golden) -> None:
    agreed, _ = agreement.report()
    expected, _ = expectations.report()
    lines = [
        "Real feeds of six collections, read.",
        "",
        *recovery.census(),
        "",
        "",
        "Sound feeds, spoilt and read again: how many there are, can be read, are remarked on;",
        "their items, and the share that is there with the id and the title that it had.",
        "",
        *recovery.report(),
        "",
        "The same feeds read by the loose parser: the share of items whose field is as the strict",
        "one has it.",
        "",
        *recovery.both_parsers(),
        "",
        "",
        "Items beside those of another parser, and why they differ.",
        "",
        *agreed,
        "",
        "",
        "feedparser's own tests.",
        "",
        *expected,
    ]
    golden(REPORT, "\n".join(lines) + "\n")


def test_every_difference_from_the_other_parser_is_explained() -> None:
    _, unexplained = agreement.report()
    assert unexplained == []


def test_a_difference_is_seen() -> None:
    pair = next(agreement.pairs())
    assert agreement.judge(pair) == "agrees"
    changed = agreement.Pair(pair.feed, "title", ("x",), pair.ours, pair.entry, pair.text)
    assert agreement.judge(changed) == ""


def test_no_expectation_of_feedparser_is_broken_unexplained() -> None:
    _, left = expectations.report()
    assert left == set()


def test_a_broken_expectation_is_seen() -> None:
    asked = [case for case in expectations.cases() if expectations.about_items(case)]
    assert len(asked) > 400
    wrong = expectations.Case(asked[0].path, asked[0].body, "entries[0].title == '!'", {})
    assert not expectations.of_our_items(wrong)
    assert not expectations.of_our_parser(wrong)


def test_nothing_but_contents_depends_on_which_parser_reads_a_feed() -> None:
    for line in recovery.both_parsers():
        share, _, names = line.strip().partition("%  ")
        assert share == "100.0" or set(names.split(", ")) <= {"content", "description"}

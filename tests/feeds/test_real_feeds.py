"""Every real feed is parsed or refused with a reason, and feedparser itself finds the same entries."""

from __future__ import annotations

import io
from typing import Any

import feedparser
import pytest
from lxml import etree

from feeds.adapter import parse_feed
from feeds.parser import parse_document
from tests.feeds.data import DATA, needs_data
from tests.feeds.recovery import FOLDERS, NO_FEEDS, files

pytestmark = needs_data


@pytest.mark.parametrize("folder", FOLDERS)
def test_real_feeds_become_items_of_well_formed_xml(folder: str) -> None:
    count = 0
    for path in files(folder):
        channel = parse_feed(path.read_bytes(), f"http://a.example/{path.name}", arrival=1)
        assert bool(channel.error) == (path.name in NO_FEEDS), (path, channel.error)
        count += len(channel.items)
        assert len({item.id for item in channel.items}) == len(channel.items)
        for item in channel.items[:5]:
            root = etree.fromstring(item.to_xml())
            assert root.findtext("guid")
            assert root.findtext("timestamp")
    assert count >= len(files(folder))


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
    # It is in Shift-JIS and does not say so; there both are wrong, each in its own way.
    assert different == ["shiftjis.xml"]

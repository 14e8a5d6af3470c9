"""Events of feeds as documents for subscriptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from broker import Broker, Document
from feeds.feed_events import DEAD_AFTER, DEAD_ERRORS, STREAM, event_rows, is_dead
from feeds.fetch import Fetcher
from feeds.poll import Poller
from feeds.spool import FeedState, Spool
from tests.feeds.data import rss
from tests.feeds.site import Page, Site

DAY = 86_400_000_000
NOW = 1_791_187_200_000_000
WELL = FeedState(
    "http://a.example/f",
    "http://a.example/f",
    "A & B",
    last_fetch=NOW - DAY,
    last_success=NOW - DAY,
)


def kinds(before: FeedState, after: FeedState, at: int = NOW) -> list[str]:
    found = [etree.fromstring(row.xml).get("kind") for row in event_rows(before, after, at)]
    return [kind or "" for kind in found]


def failed(state: FeedState, errors: int, days: float, at: int = NOW) -> FeedState:
    """The state after failures in a row, which began that many days ago."""
    return replace(state, errors=errors, last_fetch=at, last_success=int(at - days * DAY))


def test_an_event_says_what_happened() -> None:
    gone = replace(WELL, status="gone", errors=1, problem="fetch: the feed is gone (410)")
    (row,) = event_rows(WELL, gone, NOW)
    assert (row.source, row.streams, row.timestamp, row.dated) == (WELL.url, (STREAM,), NOW, True)
    assert row.id == "broker.feeds gone 2026-10-05T08:00:00Z"
    root = etree.fromstring(row.xml)
    assert (root.tag, dict(root.items())) == ("feed-event", {"kind": "gone"})
    assert [(child.tag, child.text) for child in root] == [
        ("url", "http://a.example/f"),
        ("title", "A & B"),
        ("problem", "fetch: the feed is gone (410)"),
        ("errors", "1"),
        ("last_success", "2026-10-04T08:00:00Z"),
        ("timestamp", "2026-10-05T08:00:00Z"),
    ]


@pytest.mark.parametrize(
    ("errors", "days", "dead"),
    [
        (DEAD_ERRORS, 14, True),
        (DEAD_ERRORS - 1, 14, False),
        (DEAD_ERRORS, 13.9, False),
        (0, 100, False),
    ],
)
def test_a_feed_is_dead_after_many_failures_over_a_long_time(
    errors: int, days: float, dead: bool
) -> None:
    assert is_dead(failed(WELL, errors, days), NOW) is dead
    assert DEAD_AFTER == 14 * DAY


def test_a_feed_that_never_worked_is_dead_after_as_many_failures() -> None:
    never = replace(WELL, last_success=None)
    assert kinds(replace(never, errors=9), replace(never, errors=10)) == ["dead"]
    assert kinds(replace(never, errors=10), replace(never, errors=11)) == []


def test_it_dies_once_and_comes_back_once() -> None:
    ill = failed(WELL, 15, 13, NOW - DAY)
    dead = failed(WELL, 16, 14)
    assert kinds(ill, dead) == ["dead"]
    assert kinds(dead, failed(WELL, 17, 15, NOW + DAY), NOW + DAY) == []
    well = replace(dead, errors=0, problem=None, last_fetch=NOW + DAY, last_success=NOW + DAY)
    assert kinds(dead, well, NOW + DAY) == ["back"]
    assert kinds(well, well, NOW + 2 * DAY) == []
    assert kinds(ill, well, NOW + DAY) == []


def test_a_feed_that_moved() -> None:
    moved = replace(WELL, address="https://b.example/f")
    (row,) = event_rows(WELL, moved, NOW)
    assert etree.fromstring(row.xml).findtext("address") == "https://b.example/f"
    assert kinds(moved, moved) == []


def test_a_subscription_reads_them(tmp_path: Path) -> None:
    """From a server that says 410 through poller, spool and broker to a match, and back again."""
    clock = [NOW / 1e6]
    with (
        Site({"/f": Page(rss("<title>t</title>"))}) as site,
        Fetcher(allow_private=True) as fetcher,
        Spool(tmp_path / "spool.sqlite") as spool,
        Broker() as broker,
    ):
        broker.subscribe(
            "died: SELECT url, why FROM broker.feeds//feed-event[@kind = 'gone']"
            "[./url->url][./problem->why]; back: broker.feeds//feed-event[@kind = 'back']"
        )
        url = site.url("/f")
        poller = Poller(
            spool, fetcher, [url], observe=event_rows, now=lambda: clock[0], chance=lambda: 0.0
        )

        def matches() -> list[tuple[str, str | None]]:
            poller.fetch_wave()
            clock[0] += 30 * 86_400
            rows = list(spool.read(0, spool.last_seq()))
            found = broker.process(
                Document(
                    id=row.id,
                    source=row.source,
                    stream=row.streams,
                    timestamp=row.timestamp / 1e6,
                    xml=row.xml,
                )
                for row in rows
            )
            return [(match.query, match.values.get("why", [None])[0]) for match in found]

        assert matches() == []
        site.pages["/f"] = Page(b"", 410)
        assert matches() == [("died", "fetch: the feed is gone (410)")]
        assert matches() == []
        site.pages["/f"] = Page(rss("<title>t</title>", "<title>u</title>"))
        spool.set_status(url, "active")
        assert matches() == [("back", None)]

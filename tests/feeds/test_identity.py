"""The identification of items that were seen before, even if their guids change."""

from __future__ import annotations

from pathlib import Path

import pytest

from feeds.adapter import parse_feed
from feeds.archive import replay
from feeds.identity import ALL, duplicate_feeds, is_history, reuse_ids, trace
from feeds.item import Item
from feeds.rows import DocumentRow
from tests.feeds.data import DATA, atom, needs_data, rss

DATE = "<pubDate>Mon, 05 Oct 2026 08:00:01 GMT</pubDate>"
T = 1_791_187_201_000_000


def items(*bodies: str) -> tuple[Item, ...]:
    return parse_feed(rss(*bodies), "http://f.example/", arrival=5).items


def one(guid: str, link: str = "http://a.example/x", date: str = DATE, text: str = "t") -> str:
    title = f"<title>{text}</title>"
    return f"<guid isPermaLink='false'>{guid}</guid><link>{link}</link>{date}{title}"


def settled(before: tuple[Item, ...], now: tuple[Item, ...]) -> list[tuple[str, str]]:
    known = {item.id: trace(item) for item in before}
    return [(item.id, item.guid) for item in reuse_ids(now, known)]


@pytest.mark.parametrize(
    "drifted",
    [
        one("new"),
        one("g#1"),
        one("new", "https://a.example/x"),
        one("new", "https://cdn7.example/x"),
        one("new", text="edited"),
        "<link>http://a.example/x</link>" + DATE,
    ],
)
def test_a_drifting_guid_is_the_same_item_under_its_first_guid(drifted: str) -> None:
    assert settled(items(one("g")), items(drifted)) == [("g", "g")]


@pytest.mark.parametrize(
    "other",
    [
        one("new", "http://a.example/y"),
        one("new", "http://a.example/x?page=2"),
        one("new", date="<pubDate>Mon, 05 Oct 2026 08:00:02 GMT</pubDate>"),
        one("new", date=""),
        "<guid>new</guid>" + DATE,
    ],
)
def test_another_link_or_date_is_another_item(other: str) -> None:
    ((id, _),) = settled(items(one("g")), items(other))
    assert id == "new"


def test_a_date_without_a_time_of_day_says_little() -> None:
    day = "<dc:date>2026-10-05</dc:date>"
    there = one("new", "http://b.example/x", day)
    assert settled(items(one("g", date=day)), items(there)) == [("new", "new")]
    here = one("new", "https://a.example/x", day)
    assert settled(items(one("g", date=day)), items(here)) == [("g", "g")]


def test_an_undated_page_is_announced_anew_unless_its_text_is_the_same() -> None:
    before = items(one("g", date=""))
    assert settled(before, items(one("new", date=""))) == [("g", "g")]
    assert settled(before, items(one("new", date="", text="today"))) == [("new", "new")]


def test_an_item_that_is_still_there_keeps_its_id() -> None:
    assert settled(items(one("g")), items(one("new"), one("g"))) == [("new", "new"), ("g", "g")]


def test_nobody_guesses_between_two() -> None:
    assert settled(items(one("g"), one("h")), items(one("new"))) == [("new", "new")]
    assert settled(items(one("g")), items(one("new"), one("newer"))) == [
        ("new", "new"),
        ("newer", "newer"),
    ]


A, B = one("g", "http://a.example/a"), one("g", "http://a.example/b")


def test_a_guid_that_comes_to_be_shared_and_ceases_to_be() -> None:
    alone, both = items(A), items(A, B)
    assert [item.id for item in both] == ["g http://a.example/a", "g http://a.example/b"]
    # At first only A has it; then both; A is not new.
    assert settled(alone, both) == [("g", "g"), ("g http://a.example/b", "g")]
    # B alone has it in the end: it is neither new nor an edited A.
    known = {id: trace(item) for (id, _), item in zip(settled(alone, both), both, strict=True)}
    (last,) = reuse_ids(items(B), known)
    assert (last.id, last.guid) == ("g http://a.example/b", "g")


def test_an_edited_item_under_its_own_guid_stays_itself() -> None:
    assert settled(items(A), items(B)) == [("g", "g")]


def put(archive: Path, time: str, body: bytes) -> None:
    (archive / "f").mkdir(exist_ok=True)
    (archive / "f" / f"{time}_x.xml").write_bytes(body)


def test_an_archive_does_not_show_a_drifting_guid_twice(tmp_path: Path) -> None:
    put(tmp_path, "20261006T100000Z", rss(one("g")))
    put(tmp_path, "20261006T110000Z", rss(one("h")))
    put(tmp_path, "20261006T120000Z", rss(one("i", text="edited")))
    put(
        tmp_path,
        "20261006T130000Z",
        atom(
            "<title>edited</title><id>tag:a.example,2026:x</id><link href='https://a.example/x'/>"
            "<published>2026-10-05T08:00:01Z</published>"
        ),
    )
    rows: list[DocumentRow] = list(replay(tmp_path))
    assert [(row.id, row.revision) for row in rows] == [("g", False), ("g", True), ("g", True)]
    assert all(b"<guid>g</guid>" in row.xml for row in rows)


@needs_data
def test_mirrors_of_one_feed_are_one_feed() -> None:
    """Six feeds, each as two mirrors serve it, with hosts of their own in guids and links."""
    before = after = total = 0
    for path in sorted((DATA / "feeds_greatfire2015").glob("*.rss")):
        one, two = (
            parse_feed(path.with_suffix(suffix).read_bytes(), "f", arrival=1).items
            for suffix in (".rss", ".xml")
        )
        ids = {item.id for item in one}
        total += len(two)
        before += sum(item.id in ids for item in two)
        after += sum(item.id in ids for item in reuse_ids(two, {i.id: trace(i) for i in one}))
    assert (before, after, total) == (166, 223, 223)


@pytest.mark.parametrize(
    ("item", "since", "history"),
    [
        (one("g"), T - 1, False),
        (one("g"), T, True),
        (one("g"), ALL, False),
        (one("g", date=""), T - 1, True),
        (one("g", date=""), ALL, False),
        (one("g", date="<pubDate>Fri, 01 Jan 2100 00:00:00 GMT</pubDate>"), T, True),
    ],
)
def test_what_a_feed_shows_at_first_is_history_unless_it_was_published_since(
    item: str, since: int, history: bool
) -> None:
    (only,) = items(item)
    assert is_history(only, since, T + 10) is history


def test_two_formats_of_one_feed() -> None:
    def feed(*names: str, host: str = "https://a.example") -> tuple[Item, ...]:
        return items(*(f"<link>{host}/{name}</link>" for name in names))

    channels = {
        "rss": feed("1", "2", "3", "4", host="http://a.example"),
        "atom": feed("1/", "2/", "3/"),
        "short": feed("1", "2"),
        "other": feed("3", "4", "5", "6"),
    }
    assert duplicate_feeds(channels) == [("atom", "rss")]
    assert duplicate_feeds({str(number): channels["rss"] for number in range(30)}) == []

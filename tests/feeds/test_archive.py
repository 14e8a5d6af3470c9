from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest

import feeds.delta
from feeds.adapter import draft, parse_feed
from feeds.archive import replay, snapshots
from feeds.delta import DeltaReader
from tests.feeds.data import DATA, atom, needs_data, rss

BBC = DATA / "rss_bbc_sections"
T0 = 1_626_516_000_000_000  # 2021-07-17T10:00:00Z
MINUTE = 60_000_000


def entry(name: str, text: str = "", day: int | None = 16) -> str:
    date = f"<pubDate>{day} Jul 2021 00:00:00 GMT</pubDate>" if day else ""
    return f"<link>http://a.example/{name}</link><title>{name}</title>{date}<description>{text}</description>"


def put(archive: Path, feed: str, time: str, body: bytes) -> None:
    (archive / feed).mkdir(exist_ok=True)
    (archive / feed / f"{time}_x.xml").write_bytes(body)


def test_items_arrive_in_order_of_first_sight(tmp_path: Path) -> None:
    biz = "<title>Big News: Business</title>"
    put(tmp_path, "business", "20210717T100000Z", rss(entry("b", day=15), entry("a"), channel=biz))
    put(tmp_path, "top stories", "20210717T100500Z", rss(entry("a"), entry("c", day=None)))
    put(tmp_path, "business", "20210717T101000Z", rss(entry("d"), entry("b", "edited", 15)))
    rows = list(replay(tmp_path))
    assert [(row.source, row.id[-1], row.revision) for row in rows] == [
        ("business", "b", False),
        ("business", "a", False),
        ("top stories", "a", False),
        ("top stories", "c", False),
        ("business", "b", True),
        ("business", "d", False),
    ]
    assert rows[0].streams == ("business", "Big_News_Business", "S")
    assert rows[2].streams == ("top_stories", "News", "S")
    assert (rows[3].timestamp, rows[3].dated) == (T0 + 5 * MINUTE, False)
    assert rows[4].place == str(tmp_path / "business" / "20210717T101000Z_x.xml")
    assert {row.seq for row in rows} == {None}


def test_an_undated_revision_keeps_its_first_sight(tmp_path: Path) -> None:
    put(tmp_path, "f", "20210717T100000Z", rss(entry("a", day=None)))
    put(tmp_path, "f", "20210717T101000Z", rss(entry("a", "edited", None)))
    assert [(row.timestamp, row.revision) for row in replay(tmp_path)] == [(T0, False), (T0, True)]


def test_what_cannot_be_read_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    put(tmp_path, "f", "20210717T100000Z", rss(entry("a")))
    put(tmp_path, "f", "20210717T101000Z", b"<html>down</html>")
    put(tmp_path, "f", "20210717T102000Z", gzip.compress(rss(entry("b"))))
    put(tmp_path, "f", "20210717T103000Z", gzip.compress(rss(entry("c")))[:-9])
    put(tmp_path, "f", "notes", b"not a snapshot")
    put(tmp_path, "f", "20211317T100000Z", b"no such month")
    reports: list[tuple[str, str]] = []
    rows = list(
        replay(tmp_path, lambda place, problem: reports.append((Path(place).name, problem)))
    )
    assert [row.error or row.id for row in rows] == [
        "http://a.example/a",
        "an HTML page, not a feed",
        "http://a.example/b",
        "compressed data ends too early",
    ]
    assert (rows[1].xml, rows[1].timestamp) == (b"<html>down</html>", T0 + 10 * MINUTE)
    assert reports == [
        ("20211317T100000Z_x.xml", "archive: no UTC time at the start of the file's name"),
        ("notes_x.xml", "archive: no UTC time at the start of the file's name"),
        ("20210717T101000Z_x.xml", "parse: an HTML page, not a feed"),
        ("20210717T103000Z_x.xml", "parse: compressed data ends too early"),
    ]


def test_no_archive() -> None:
    with pytest.raises(NotADirectoryError, match="archive: no/such/place is not a directory"):
        list(replay("no/such/place"))


@needs_data
def test_a_day_of_nineteen_sections_in_seconds() -> None:
    began = time.process_time()
    reports: list[tuple[str, str]] = []
    rows = list(replay(BBC / "snapshots", lambda *report: reports.append(report)))
    assert time.process_time() - began < 10
    assert reports == []
    assert len(snapshots(BBC / "snapshots")) > 1000
    with gzip.open(BBC / "items.jsonl.gz", "rt") as file:
        known = [json.loads(line) for line in file]
    feeds_there = {row.source for row in rows}
    expected = {
        (item["feed"], item["guid"])
        for item in known
        if item["feed"] in feeds_there and item["guid"]
    }
    assert {(row.source, row.id) for row in rows} <= expected
    assert sum(not row.revision for row in rows) == len({(row.source, row.id) for row in rows})


# -- reading versions of one feed ------------------------------------------------------------


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The documents that were parsed as a whole, since they did not cut cleanly."""
    bodies: list[bytes] = []

    def counted(body: bytes, *args: object, **more: object) -> object:
        bodies.append(body)
        return parse_feed(body, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(feeds.delta, "parse_feed", counted)
    return bodies


def same(*versions: bytes) -> None:
    reader = DeltaReader("http://a.example/")
    for arrival, body in enumerate(versions):
        assert reader.parse(body, arrival) == parse_feed(body, "http://a.example/", arrival=arrival)


def test_versions_that_cut_cleanly(whole: list[bytes]) -> None:
    a, b, c = (
        entry("a"),
        entry("b", day=None),
        entry("c", "<![CDATA[<item>]]>".replace("item", "b")),
    )
    dated = "<title>News</title><lastBuildDate>{}</lastBuildDate>"
    same(
        rss(b, a, channel=dated.format("Mon")),
        rss(c, b, a, channel=dated.format("Tue")),
        rss(c, c, b, channel=dated.format("Wed")),
        rss(c, b, channel="<title>Renamed</title>"),
        rss(a, c, channel="<title>Renamed</title>"),
    )
    same(atom("<title>a</title>", "<title>b</title>"), atom("<title>b</title>"))
    latin = '<?xml version="1.0" encoding="iso-8859-1"?>' + rss(entry("a", "é")).decode()
    same(latin.encode("latin-1"), latin.encode("latin-1"))
    assert whole == []


@pytest.mark.parametrize(
    "body",
    [
        rss(entry("a"), "<title>b & c</title>"),
        rss(entry("a"), "<title><![CDATA[</item><item>]]></title>"),
        rss(entry("a"), "<!-- </item><item> --><title>b</title>"),
        rss(entry("a"), '<title>b</title><dc:creator xmlns:dc="urn:x">x</dc:creator>'),
        rss(),
        rss(entry("a")).replace(b"<item>", b"<item rdf='1'>"),
        rss(entry("a"), entry("b")).replace(b"</item><item>", b"</item><title>T</title><item>"),
        b"<!DOCTYPE rss [<!ENTITY a 'b'>]>" + rss("<title>&a;</title>"),
        atom('<title>a</title><content xml:base="/x/">t</content>', '<link href="1"/><id>i</id>'),
        b"<html/>",
        b"",
    ],
)
def test_versions_that_do_not(body: bytes, whole: list[bytes]) -> None:
    same(rss(entry("a")), body, body)
    assert whole == [body, body]


def test_what_is_not_well_formed_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drafted: list[bytes] = []

    def counted(body: bytes, *args: object, **more: object) -> object:
        drafted.append(body)
        return draft(body, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(feeds.delta, "draft", counted)
    reader = DeltaReader("http://a.example/")
    reader.parse(rss(entry("a")), 1)
    assert len(drafted) == 1
    assert reader.parse(rss(entry("a"), "<title>b & c</title>"), 2).malformed
    assert len(drafted) == 1


@needs_data
def test_versions_of_real_feeds(whole: list[bytes]) -> None:
    for feed in ("business", "world"):
        reader = DeltaReader(feed)
        for snapshot in snapshots(BBC / "snapshots"):
            if snapshot.feed == feed:
                body = snapshot.path.read_bytes()
                assert reader.parse(body, 1) == parse_feed(body, feed, arrival=1)
    assert whole == []

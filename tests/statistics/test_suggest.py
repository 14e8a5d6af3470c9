"""Joins that documents suggest: those that sample queries and real data have come first."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from datetime import datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from lxml import etree

import feeds
from broker import Broker, Document, Match
from broker.documents.witnessing import arrivals
from broker.statistics.joins import Place
from broker.suggest import Suggestion, suggest, suggest_for
from feeds.adapter import parse_feed
from feeds.rows import DocumentRow, item_row

DATA = Path(__file__).parents[3] / "shared" / "data"
SAMPLES = Path(feeds.__file__).parent / "samples"


def row(id: str, stream: str, source: str, time: float, xml: bytes) -> DocumentRow:
    return DocumentRow(source, id, (stream,), int(time * 1e6), True, None, False, xml)


def suggested(rows: Iterable[DocumentRow], *streams: str, most: int = 5) -> list[Suggestion]:
    with Broker(lateness=1e10) as broker:
        broker.engine.apply(arrivals(broker.engine.matcher, [*rows]))
        return suggest(broker.engine.streams, streams, most)


def paths(found: Iterable[Suggestion]) -> list[tuple[str, str]]:
    return [(each.left.path, each.right.path) for each in found]


def test_each_suggestion_is_a_query_that_finds_what_it_says() -> None:
    documents = [
        Document(f"{kind}{n}", kind, n * 60.0, f"<{kind} {key}='k{n}' n='1'/>")
        for n in range(30)
        for kind, key in (("order", "id"), ("payment", "order"))
    ]
    with Broker() as broker:
        broker.process(documents)
        found = suggest(broker.engine.streams, ["order", "payment"], 5)
    (best,) = found
    assert (best.left.path, best.right.path) == ("/order/@id", "/payment/@order")
    assert (best.values, best.matches, best.documents, best.sampled) == (30, 30, 60, 60)
    with Broker() as again:
        again.subscribe(best.query)
        assert len(again.process(documents)) == best.matches


def test_what_joins_with_a_document_is_told_with_the_documents() -> None:
    """An order with its payment and its parcel; the street is that of all, so it joins nothing."""
    documents = [
        Document(f"{kind}{n}", kind, n * 60.0, f"<{kind} {key}='k{n}'><s>High Street</s></{kind}>")
        for n in range(80)
        for kind, key in (("order", "id"), ("payment", "order"), ("parcel", "for"))
    ]
    with Broker() as broker:
        broker.process(documents)
        catalogue = broker.engine.streams
        (asked,) = catalogue.named("order7")
        found = suggest_for(catalogue, asked, ["order", "payment", "parcel"], 5)
        assert {(*each.partners,) for each in found} == {("payment7",), ("parcel7",)}
        only = suggest_for(catalogue, asked, ["parcel"], 5)
        assert [each.partners for each in only] == [("parcel7",)]
        assert only[0].right.path == "/parcel/@for"
        assert catalogue.named("order99") == []
    with Broker() as again:
        again.subscribe(";".join(each.query for each in found))
        matches = again.process(documents)
        with_it = {d.id for m in matches for d in m.documents if "order7" in {*_ids(m)}}
    assert with_it == {"order7", "payment7", "parcel7"}


def _ids(match: Match) -> list[str]:
    return [each.id for each in match.documents]


def test_a_partner_far_away_is_within_the_window_of_its_query() -> None:
    """All others meet within a minute, this one after ten days."""
    documents = [
        Document(f"{kind}{n}", kind, n * 60.0, f"<{kind}><key>k{n}</key></{kind}>")
        for n in range(40)
        for kind in ("order", "payment")
    ]
    documents += [
        Document("order", "order", 0.0, "<order><key>late</key></order>"),
        Document("payment", "payment", 864_000.0, "<payment><key>late</key></payment>"),
    ]
    with Broker() as broker:
        broker.process(documents)
        (asked,) = broker.engine.streams.named("payment")
        (best,) = suggest_for(broker.engine.streams, asked, ["order", "payment"], 5)
    assert best.partners == ("order",)
    assert best.window >= 864_000_000_000


def test_a_feed_item_joins_with_items_of_other_feeds_alone() -> None:
    def item(id: str, feed: str, link: str) -> Document:
        xml = f"<item><channel_title>{feed}</channel_title><item_url>{link}</item_url></item>"
        return Document(id, ("S", feed), 60.0, xml, feed)

    documents = [item(f"{feed}{n}", feed, f"l{n}") for feed in ("One", "Two") for n in range(40)]
    documents.append(item("again", "One", "l3"))
    with Broker() as broker:
        broker.process(documents)
        (asked,) = broker.engine.streams.named("One3")
        found = suggest_for(broker.engine.streams, asked, ["S", "One", "Two"], 5)
    assert [(each.left.stream, each.partners) for each in found] == [("S", ("Two3",))]


def test_a_document_of_the_dump_joins_with_its_post_and_its_user() -> None:
    tables = ("Posts", "Comments", "Users")
    rows = [each for table in tables for each in dump(table)]
    (comment,) = [each for each in rows if each.id == "Comments100"]
    root = etree.fromstring(comment.xml)
    with Broker(lateness=1e10) as broker:
        broker.engine.apply(arrivals(broker.engine.matcher, rows))
        (asked,) = broker.engine.streams.named(comment.id)
        found = suggest_for(broker.engine.streams, asked, tables, 10)
    assert [(each.left, each.right, each.partners) for each in found[:2]] == [
        (
            Place("Comments", f"/row/@{path}"),
            Place(table, "/row/@Id"),
            (f"{table}{root.get(path)}",),
        )
        for path, table in (("PostId", "Posts"), ("UserId", "Users"))
    ]


def test_nothing_is_suggested_where_nothing_meets() -> None:
    with Broker() as broker:
        broker.process(Document(str(n), "S", n, f"<a x='{n}'><b>{n}.5</b></a>") for n in range(20))
        assert suggest(broker.engine.streams, ["S"], 5) == []
        assert suggest(broker.engine.streams, ["T"], 5) == []


def test_the_joins_of_the_sample_queries_are_among_those_of_the_sample_feeds() -> None:
    rows = []
    for file in sorted(SAMPLES.iterdir()):
        if file.suffix not in (".rss", ".atom", ".rdf"):
            continue
        channel = parse_feed(file.read_bytes(), f"https://{file.name}", arrival=0)
        rows += [item_row(item, file.name, ("S",), "") for item in channel.items]
    assert len(rows) > 100
    found = paths(suggested(rows, "S", most=8))
    for name in ("title", "author", "item_url", "guid"):
        assert (f"/item/{name}", f"/item/{name}") in found[:5]


def test_the_links_of_section_feeds_come_first() -> None:
    archive = DATA / "rss_bbc_sections" / "items.jsonl.gz"
    if not archive.exists():
        pytest.skip("the archive of section feeds is not there")
    rows = []
    with gzip.open(archive, "rt") as lines:
        for number, line in enumerate(islice(lines, 900)):
            item = json.loads(line)
            names = {"channel_title": "feed", "item_url": "link", "guid": "guid", "title": "title"}
            inner = "".join(f"<{to}>{escape(item[of])}</{to}>" for to, of in names.items())
            time = parsedate_to_datetime(item["date"]).timestamp()
            rows.append(row(str(number), "S", item["feed"], time, f"<item>{inner}</item>".encode()))
    found = paths(suggested(rows, "S", most=3))
    assert found[0] == ("/item/item_url", "/item/item_url")
    assert ("/item/guid", "/item/guid") in found


def dump(table: str) -> list[DocumentRow]:
    folder = DATA / "se_dump_ssdug" / "data"
    if not folder.exists():
        pytest.skip("the dump of a site is not there")
    rows = []
    for each in etree.parse(folder / f"{table}.xml").getroot():
        when = each.get("CreationDate") or "2018-01-01T00:00:00"
        time = datetime.fromisoformat(f"{when}+00:00").timestamp()
        xml = etree.tostring(each, with_tail=False)
        rows.append(row(f"{table}{each.get('Id')}", table, table, time, xml))
    return rows


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (("Posts",), ("/row/@Id", "/row/@ParentId")),
        (("Posts", "Comments"), ("/row/@Id", "/row/@PostId")),
        (("Comments", "Users"), ("/row/@UserId", "/row/@Id")),
    ],
    ids=" ".join,
)
def test_the_ids_of_a_dump_come_first(tables: tuple[str, ...], expected: tuple[str, str]) -> None:
    rows = [each for table in tables for each in dump(table)]
    assert paths(suggested(rows, *tables))[0] == expected

"""The catalogue of streams compared with SQL, and with lxml, over the documents that are stored."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lxml import etree

from broker import Broker, Document
from broker.documents.arrow import arrivals_from_table
from broker.documents.witnessing import compile_spec, stage1
from broker.statistics.outline_table import OutlineTable
from feeds.rows import DocumentRow, to_batch
from tests.stage1.test_matcher import random_document
from tests.stage1.test_outlines import paths_of

PAIR = "pair: S//a[./b->b] FOLLOWED BY {b = c, 1 h} S//a[./c->c] PUBLISH pairs;again: pairs//result"


def documents(seed: int, count: int) -> list[Document]:
    rng = random.Random(seed)
    streams: list[str | tuple[str, ...]] = ["S", "T", ("S", "T"), ("S", "S")]
    return [
        Document(f"d{n}", rng.choice(streams), n * 60.0, random_document(rng)) for n in range(count)
    ]


def stored(broker: Broker) -> Mapping[str, Counter[str]]:
    """The label paths of the stored documents by stream, as lxml finds them."""
    counts: dict[str, Counter[str]] = {}
    rows = broker.engine.store.rows("SELECT streams, xml FROM documents WHERE xml IS NOT NULL")
    for streams, xml in rows:
        for stream in {*streams}:
            counts.setdefault(stream, Counter()).update(paths_of(etree.fromstring(xml)))
    return counts


def agree(broker: Broker) -> None:
    catalogue, expected = broker.engine.streams, stored(broker)
    assert {each.name for each in catalogue.streams()} == set(expected)
    for stream, counts in expected.items():
        assert catalogue.paths(stream) == counts
    assert catalogue.paths("nothing") == {}
    assert catalogue.stream("nothing") is None


def test_counts_equal_those_over_the_stored_documents_whatever_happens_to_them(
    tmp_path: Path,
) -> None:
    with Broker(tmp_path, lateness=0) as broker:
        broker.subscribe(PAIR)
        broker.process(documents(1, 300))
        assert broker.engine.streams.paths("pairs")["/result/a"] > 10
        agree(broker)
        broker.process(documents(1, 300))  # repeated: all are dropped
        agree(broker)
        revised = Document("d299", "S", 299 * 60.0, "<a><new/></a>", revision=True)
        broker.process([revised, Document("broken", "S", 1e6, "<a>")])
        assert broker.engine.streams.paths("S")["/a/new"] == 1
        agree(broker)
        before = sum(each.documents for each in broker.engine.streams.streams())
        broker.engine.retain(documents=3_600 * 1_000_000)
        assert 0 < sum(each.documents for each in broker.engine.streams.streams()) < before / 2
        agree(broker)
    with Broker(tmp_path, lateness=0) as broker:
        agree(broker)
        broker.process(documents(2, 900)[300:])
        agree(broker)


def test_counts_equal_sql() -> None:
    broker = Broker()
    broker.process(
        Document(str(n), "S", n, f"<item>{'<link/>' * (n % 3)}<title>{n % 7}</title></item>")
        for n in range(100)
    )
    counted = broker.engine.store.rows(
        "SELECT count(*), count(*) FILTER (contains(decode(xml), '<link')),"
        " count(DISTINCT regexp_extract(decode(xml), '<title>(.*)</title>', 1)),"
        ' min("end"), max("end") FROM documents WHERE list_contains(streams, \'S\')'
    )
    seen = broker.engine.streams.stream("S")
    assert seen is not None
    link, title = seen.find("/item/link"), seen.find("/item/title")
    assert link is not None
    assert title is not None
    assert [(seen.documents, link.documents, title.distinct, seen.first, seen.last)] == counted
    assert (link.exact, link.nodes, link.values) == (True, 1.5, ())
    assert {("0", 15), ("1", 15)} < {*title.values}
    assert len(title.values) == 3


def test_a_batch_that_fails_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    broker.process(documents(1, 20))

    def fail(*_: Any) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(broker.engine.outbox, "post", fail)
        with pytest.raises(OSError, match="no space"):
            broker.process([Document("new", "S", 1e5, "<only><here/></only>")])
    agree(broker)
    broker.process([Document("new", "S", 1e5, "<only><here/></only>")])
    assert broker.engine.streams.paths("S")["/only/here"] == 1
    agree(broker)


def test_executors_find_the_same_as_this_process() -> None:
    rows = [
        DocumentRow(d.streams[0], d.id, d.streams, n, True, None, False, bytes(d.xml))  # type: ignore[arg-type]
        for n, d in enumerate(documents(5, 60))
    ]
    rows.insert(30, DocumentRow("S", "broken", ("S",), 30, True, None, False, b"<a>"))
    broker = Broker()
    broker.subscribe(PAIR)
    spec = compile_spec(broker.engine.matcher)
    parts = [batch for at in (0, 20, 40) for batch in stage1(spec, [to_batch(rows[at : at + 20])])]
    parts += stage1(spec, [to_batch(rows[60:])])
    broker.engine.apply(arrivals_from_table(pa.Table.from_batches([*reversed(parts)])))
    assert broker.engine.streams.streams()
    agree(broker)


def test_a_source_that_invents_names_uses_up_its_own_share(tmp_path: Path) -> None:
    with Broker(tmp_path, lateness=0) as broker:
        broker.engine.outlines.of_source = 5
        broker.process(Document(str(n), "evil", n, f"<a><b{n}/></a>") for n in range(20))
        broker.process([Document("1", "S", 19, "<item><title/></item>")])
        seen = broker.engine.streams.stream("evil")
        assert seen is not None
        assert (seen.documents, seen.known) == (20, 5)
        assert broker.engine.streams.paths("S") == {"/item": 1, "/item/title": 1}
        # What expires makes room for others.
        broker.process([Document("late", "S", 10_000, "<item/>")])
        broker.engine.retain(documents=1_000)
        broker.process([Document("other", "evil", 10_001, "<a><other/></a>")])
        assert broker.engine.streams.paths("evil") == {"/a": 1, "/a/other": 1}
        agree(broker)
    with Broker(tmp_path, lateness=0) as broker:
        table = broker.engine.outlines
        assert isinstance(table, OutlineTable)
        agree(broker)


def test_a_document_with_very_many_paths_says_that_some_are_left_out() -> None:
    broker = Broker()
    invented = "".join(f"<n{i} a{i}='1'/>" for i in range(5_000))
    broker.process([Document("1", "S", 0, f"<a>{invented}</a>")])
    seen = broker.engine.streams.stream("S")
    assert seen is not None
    assert seen.cut == 1
    assert len(seen.paths) < 700


def test_attributes_are_estimated_from_a_sample_once_there_are_many_documents() -> None:
    broker = Broker()
    broker.process(
        Document(str(n), "S", n, f"<a x='{n}'>" + "<b y='1'/>" * (n % 2) + "</a>")
        for n in range(400)
    )
    whole = broker.engine.streams.stream("S")
    part = broker.engine.streams.stream("S", sample=100)
    assert whole is not None
    assert part is not None
    exact, about = whole.find("/a/b/@y"), part.find("/a/b/@y")
    assert exact is not None
    assert about is not None
    assert (exact.documents, exact.exact) == (200, True)
    assert not about.exact
    assert 120 < about.documents < 280
    found = part.find("/a/b")
    assert found is not None
    assert (found.documents, found.exact) == (200, True)

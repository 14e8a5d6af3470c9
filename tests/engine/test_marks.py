"""What event patterns have kept of their matches (NON OVERLAPPING, ONE PER START): in the tables, in
memory, and over restarts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from broker import Broker, Document
from broker.standing.marks import Marking
from broker.state.pattern_tables import Mark, PatternTables
from broker.state.store import Store

PATTERNS = 3
TEXTS = {
    "partition": "S/a[./k = '{0}'] FOLLOWED BY S/b[./k = '{0}'] PARTITION BY ./k"
    " USING NON OVERLAPPING WITHIN 10 s",
    "start": "S/a[./k = '{0}'] FOLLOWED BY S/b[./k = '{0}'] USING ONE PER START WITHIN 10 s",
    "windows": "S/a->x[./k = '{0}'] FOLLOWED BY S/b[./k = '{0}'] USING NON OVERLAPPING WITHIN 10 s"
    " GROUP BY x OVER 60 s HAVING count(x) < 4",
}


def pairs(count: int, every: float = 4.0) -> list[Document]:
    """Documents that overlap, of all patterns."""
    return [
        Document(
            f"{name}{n}",
            timestamp=every * n + (name == "b"),
            xml=f"<{name}><k>{n % PATTERNS}</k></{name}>",
        )
        for n in range(count)
        for name in "ab"
    ]


def queries(name: str) -> str:
    return ";".join(f"w{n}: {TEXTS[name].format(n)}" for n in range(PATTERNS))


def stored(broker: Broker) -> int:
    return broker.engine.standings.tables.count_marks()


@pytest.mark.parametrize("name", TEXTS)
def test_one_document_at_a_time_and_restarts_change_nothing(name: str, tmp_path: Path) -> None:
    documents = pairs(12)
    end = [Document("end", timestamp=1_000.0, xml="<end/>")]
    with Broker(lateness=5.0) as broker:
        broker.engine.standings.match_in_order(False)
        broker.subscribe(queries(name))
        wanted = sorted(m.id for m in broker.process(documents) + broker.process(end))
    found = []
    rest = [*documents, *end]
    while rest:
        with Broker(tmp_path / "state", lateness=5.0) as broker:
            if len(rest) > len(documents):
                broker.subscribe(queries(name))
            for document in rest[:5]:
                found += [match.id for match in broker.process([document])]
                assert broker.engine.standings.awake()
            rest = rest[5:]
    assert sorted(found) == wanted
    assert wanted


@pytest.mark.parametrize(("name", "left"), [("partition", PATTERNS), ("start", 0)])
def test_marks_that_tell_nothing_any_more_are_deleted(name: str, left: int) -> None:
    with Broker(lateness=0.0) as broker:
        broker.subscribe(queries(name))
        for document in pairs(12):
            broker.process([document])
        assert stored(broker) > PATTERNS
        broker.process([Document("end", timestamp=10_000.0, xml="<end/>")])
        broker.engine.expire()
        assert stored(broker) == left
        found = []
        for number, tag in enumerate("abbz"):
            xml = f"<{tag}><k>1</k></{tag}>"
            document = Document(f"later {number}", timestamp=20_000.0 + number, xml=xml)
            found += broker.process([document])
        assert len(found) == 1


def test_a_pattern_that_is_dropped_and_registered_again_has_kept_nothing() -> None:
    with Broker(lateness=0.0) as broker:
        for turn in range(3):
            broker.subscribe(f"w: {TEXTS['start'].format(1)}")
            at = 100.0 * turn
            for n, (name, time) in enumerate((("a", at + 1), ("b", at + 2), ("b", at + 3))):
                xml = f"<{name}><k>1</k></{name}>"
                broker.process([Document(f"{turn} {n}", timestamp=time, xml=xml)])
            assert stored(broker) == 1
            broker.unsubscribe("w")
            broker.process([])
            assert not stored(broker)


@pytest.mark.parametrize("most", [0, 2, 100])
def test_marks_are_read_once_or_when_they_are_asked_for(most: int) -> None:
    with closing(Store(None)) as store, store.transaction():
        tables = PatternTables(store)
        tables.mark([Mark(1, "last", 5), Mark(2, "last", 6), Mark(1, "last", 7)])
        marking = Marking(tables, most)
        assert dict(marking.of(1)) == {"last": 7}
        assert not dict(marking.of(3))
        marking.note(1, {"last": 9, "start 1": 8})
        marking.note(3, {"last": 2})
        assert marking.fresh == {1: {"last": 9, "start 1": 8}, 3: {"last": 2}}
        # As many patterns go to sleep as there are, and come back.
        marking.back(1, {"last": 9, "start 1": 8})
        assert dict(marking.of(1)) == {"last": 9, "start 1": 8}
        assert dict(marking.of(3)) == {"last": 2}
        marking.back(2, {"last": 6})
        marking.change([2])
        tables.remove([2])
        assert not dict(marking.of(2))
        marking.write()
        tables.expire_marks(9, "last")
        assert tables.every_mark() == {1: {"last": 9}, 3: {"last": 2}}
        assert tables.count_marks() == 2

"""Event patterns of one text share what matches them, and those that differ in constants of their
blocks share their plan; neither changes what anybody gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document, Limit, Match
from broker.explain_pattern import pattern_stage
from broker.standing.why import Why

TEXTS = {
    "absence": "S/a[./k = '{0}'][./k->x] FOLLOWED BY {{5 s}} NOT S/b[./k = '{0}']",
    "group": "SELECT x, count(y) AS n FROM S/a[./k = '{0}'][./k->x]"
    " FOLLOWED BY (S/b[./k = '{0}'][./k->y])+ FOLLOWED BY S/c WITHIN 9 s",
    "bounded": "S/a[./k = '{0}'][./k->x] FOLLOWED BY (S/b[./k = '{0}'][./k->y]){{1,2}}"
    " FOLLOWED BY S/c WITHIN 9 s",
    "next": "SELECT x, y FROM S/a[./k = '{0}'][./k->x] NEXT {{4 s}} S/b[./k = '{0}'][./k->y]",
    "chain": "SELECT x, y, z FROM S/a[./k = '{0}'][./k->x] NEXT {{4 s}} S/b[./k = '{0}'][./k->y]"
    " NEXT {{}} S/c[./k->z] WITHIN 9 s",
    "list": "SELECT x, y FROM S/a[./k = '{0}'][./k->x] FOLLOWED BY S/b[./k = '{0}'][./k->y]"
    " FOLLOWED BY {{7 s AFTER}} S/c[./k->z] WHERE x != z WITHIN 9 s",
    "fold": "SELECT x, count(y) AS n FROM S/a[./k = '{0}'][./k->x] FOLD {{,}} S/b[./k = '{0}'][./k->y]"
    " WHERE count(y) < 3 WITHIN 8 s",
    "runs": "S/a[./k = '{0}'] FOLLOWED BY S/b[./k = '{0}'] USING SKIP TILL NEXT MATCH WITHIN 6 s",
    "strict": "S/a[./k = '{0}'] FOLLOWED BY S/b USING STRICT CONTIGUITY",
    "contiguous": "SELECT x, count(y) AS n FROM S/a->x[./k = '{0}'] FOLLOWED BY (S/b->y)+"
    " PARTITION BY ./k USING PARTITION CONTIGUITY WITHIN 6 s",
    "next prefix": "SELECT x, y FROM S/a[./k->x] NEXT {{4 s}} S/b[./k = '{0}'][./k->y]",
    "chain prefix": "SELECT x, y, z FROM S/a[./k->x] NEXT {{x = y, 9 s}} S/b[./k->y]"
    " NEXT {{x = z}} S/c[./k = '{0}'][./k->z] WITHIN 30 s",
    "list prefix": "SELECT x, y FROM S/a[./k->x] FOLLOWED BY S/b[./k->y]"
    " FOLLOWED BY {{7 s AFTER}} S/c[./k = '{0}'][./k->z] WHERE x = y AND y = z WITHIN 9 s",
    "absence prefix": "SELECT x, z FROM S/a[./k->x] FOLLOWED BY NOT S/b[./k->y]"
    " FOLLOWED BY {{9 s}} S/c[./k = '{0}'][./k->z] WHERE x = y",
    "group prefix": "SELECT x, count(y) AS n FROM S/a[./k->x] FOLLOWED BY (S/b[./k->y])+"
    " FOLLOWED BY S/c[./k = '{0}'][./k->z] PARTITION BY ./k WITHIN 9 s",
    "first": "SELECT x, z FROM S/a[./k = '{0}'][./k->x] FOLLOWED BY (S/b)+ FOLLOWED BY S/c[./k->z]"
    " USING ONE PER START WITHIN 9 s",
    "smooth": "SELECT x, count(y) AS n FROM S/a[./k = '{0}'][./k->x] NEXT S/b[./k->y]"
    " WITHIN 9 s GROUP BY y OVER 5 s HAVING count(y) < 3",
    "either": "(S/a[./k = '{0}'] OR S/c[./k = '{0}']) FOLLOWED BY S/b WITHIN 6 s",
    "apart": "S/a[./k = '{0}'] FOLLOWED BY S/b USING NON OVERLAPPING WITHIN 6 s",
}


def stream(seed: int, count: int = 60) -> list[Document]:
    random = Random(seed)
    found = []
    for n in range(count):
        at = float(n // 2) - random.choice((0, 0, 0, 2))
        name, key = random.choice("aabbc"), random.choice("pqr%")
        found.append(Document(f"{name}{n}", timestamp=at, xml=f"<{name}><k>{key}</k></{name}>"))
    return found


def partitioned(seed: int, count: int = 80) -> list[Document]:
    """Documents with no, one or two values of what PARTITION BY asks for."""
    random = Random(seed)
    found = []
    for n in range(count):
        name, key = random.choice("ab"), random.choice("pq")
        own = "".join(
            f"<v><w>{random.randrange(3)}</w></v>" for _ in range(random.choice((0, 1, 2)))
        )
        xml = f"<{name} u='{random.randrange(2)}'><k>{key}</k>{own}</{name}>"
        found.append(Document(f"{name}{n}", timestamp=float(n // 2), xml=xml))
    return found


def told(matches: Sequence[Match]) -> list[tuple[object, ...]]:
    return sorted((m.query, m.id, m.start_us, m.end_us, m.result, str(m.values)) for m in matches)


def asked(texts: dict[str, str], documents: list[Document], lateness: float = 3.0) -> list[Match]:
    """What each query of these finds by itself."""
    found: list[Match] = []
    for label, text in texts.items():
        with Broker(lateness=lateness) as broker:
            broker.subscribe(f"{label}: {text}")
            found += broker.process(documents)
            found += broker.process([Document("z", timestamp=1_000.0, xml="<z/>")])
    return found


@pytest.mark.parametrize(
    "text",
    [
        "S/a[./k = '{0}'] NEXT {{9 s}} S/b[./k = '{0}'] PARTITION BY ./v/w, ./@u",
        "S/a[./k = '{0}'][./k->x] NEXT {{y = x, 9 s}} S/b[./k = '{0}'][./k->y] PARTITION BY ./v/w",
        "S/a[./k = '{0}'] FOLLOWED BY NOT S/a[./k = '{0}'] FOLLOWED BY S/b[./k = '{0}']"
        " PARTITION BY ./v/w WITHIN 9 s",
    ],
)
def test_partitions_are_read_of_documents_of_a_layout_as_of_any(text: str) -> None:
    texts = {key: text.format(key) for key in "pq"}
    documents = partitioned(len(text))
    found = []
    with Broker(lateness=3.0) as broker:
        broker.subscribe(";\n".join(f"{label}: {own}" for label, own in texts.items()))
        for first in range(0, len(documents), 9):
            found += broker.process(documents[first : first + 9])
        found += broker.process([Document("z", timestamp=1_000.0, xml="<z/>")])
    expected = []
    for label, own in texts.items():
        with Broker(lateness=3.0) as broker:
            broker.engine.standings.match_in_order(wanted=False)
            broker.subscribe(f"{label}: {own}")
            expected += broker.process(documents)
            expected += broker.process([Document("z", timestamp=1_000.0, xml="<z/>")])
    assert len(expected) > 5
    assert told(found) == told(expected)


@pytest.mark.parametrize(
    ("name", "in_order"),
    [
        *((name, True) for name in TEXTS),
        *((name, False) for name in ("absence", "next", "chain", "list", "fold")),
        *((name, False) for name in ("runs", "contiguous", "apart", "first")),
    ],
)
def test_many_of_one_shape_find_what_each_finds_alone(
    name: str, in_order: bool, tmp_path: Path
) -> None:
    texts = {
        f"{key}{copy}": TEXTS[name].format({"e": "%"}.get(key, key))
        for key in "pqre"
        for copy in range(2)
    }
    texts["p2"] = texts["p0"] + " PUBLISH p2"
    documents = stream(len(name))
    expected = told(asked(texts, documents))
    assert expected
    found: list[Match] = []
    with Broker(tmp_path / "state", lateness=3.0) as broker:
        broker.engine.standings.match_in_order(in_order)
        broker.subscribe(";\n".join(f"{label}: {text}" for label, text in texts.items()))
        catalog = broker.engine.catalog
        shapes = {id(catalog.subscriptions[label].shape) for label in texts}
        assert len(shapes) == 1
        for first in range(0, 30, 7):
            found += broker.process(documents[first : min(30, first + 7)])
    with Broker(tmp_path / "state", lateness=3.0) as broker:
        broker.engine.standings.match_in_order(in_order)
        found += broker.process(documents[30:])
        found += broker.process([Document("z", timestamp=1_000.0, xml="<z/>")])
    assert told(found) == expected


def test_who_comes_later_knows_only_later_documents_and_who_goes_takes_nothing_along() -> None:
    text = "S/a->x FOLLOWED BY {5 s} NOT S/b"
    with Broker(lateness=0.0) as broker:
        broker.subscribe(f"one: {text}; two: {text}")
        broker.process([Document("a1", timestamp=1.0, xml="<a/>")])
        broker.subscribe(f"three: {text}")
        broker.process([Document("a2", timestamp=2.0, xml="<a/>")])
        broker.unsubscribe("one")
        found = broker.process([Document("z", timestamp=20.0, xml="<z/>")])
        assert sorted((m.query, m.documents[0].id) for m in found) == [
            ("three", "a2"),
            ("two", "a1"),
            ("two", "a2"),
        ]
        broker.unsubscribe("two")
        broker.unsubscribe("three")
        broker.process([Document("z2", timestamp=21.0, xml="<z/>")])
        assert not broker.engine.store.rows("SELECT * FROM pattern_rows")
        assert not broker.engine.store.rows("SELECT * FROM patterns")


def test_who_comes_when_something_was_noted_for_others_has_what_comes_then() -> None:
    """Patterns that have their first block in common, which differ in the second one."""
    text = "S/a->x NEXT {{}} S/b[./k = '{0}'] WITHIN 100 s"
    with Broker(lateness=0.0) as broker:
        broker.subscribe(f"p: {text.format('p')}; q: {text.format('q')}")
        broker.process([Document("a1", timestamp=1.0, xml="<a/>")])
        broker.subscribe(f"r: {text.format('r')}")
        broker.unsubscribe("q")
        broker.process([Document("a2", timestamp=2.0, xml="<a/>")])
        broker.subscribe(f"s: {text.format('s')}")
        broker.process([Document("a3", timestamp=3.0, xml="<a/>")])
        found = broker.process(
            [
                Document(f"b{n}", timestamp=4.0 + n, xml=f"<b><k>{key}</k></b>")
                for n, key in enumerate("pqrs")
            ]
        )
    assert sorted((m.query, m.documents[0].id) for m in found) == [
        *[("p", "a1"), ("p", "a2"), ("p", "a3")],
        *[("r", "a2"), ("r", "a3"), ("s", "a3")],
    ]


def test_a_limit_suspends_its_own_subscriber_only() -> None:
    text = "S/a->x FOLLOWED BY {5 s} NOT S/b"
    with Broker(lateness=0.0) as broker:
        broker.subscribe(f"free: {text}; low: {text}")
        broker.engine.set_limit("low", Limit.of(1, 3_600))
        found = broker.process(
            [Document(f"a{n}", timestamp=float(n), xml="<a/>") for n in range(3)]
            + [Document("z", timestamp=20.0, xml="<z/>")]
        )
        assert [m.query for m in found] == ["free"] * 3
        assert [each.id for each in broker.engine.take_suspensions()] == ["low"]


def test_why_and_explain_name_the_constants_of_the_query_itself() -> None:
    with Broker(lateness=0.0) as broker:
        broker.subscribe(";".join(f"{key}: {TEXTS['absence'].format(key)}" for key in "pq"))
        broker.process([Document("a1", timestamp=1.0, xml="<a><k>q</k></a>")])
        for key, taken in (("p", 0), ("q", 1)):
            (why,) = broker.why(key)
            assert isinstance(why, Why)
            first, second = why.blocks
            assert f"'{key}'" in first.block
            assert f"'{key}'" in second.block
            assert first.documents == taken


def test_patterns_that_nothing_comes_to_keep_no_state() -> None:
    with Broker(lateness=0.0) as broker:
        broker.subscribe(";".join(f"k{n}: {TEXTS['next'].format(n)}" for n in range(50)))
        broker.process([Document("a1", timestamp=1.0, xml="<a><k>7</k></a>")])
        standings = broker.engine.standings
        assert [each.subscription.id for each in standings.awake()] == ["k7"]
        broker.process([Document("z", timestamp=10_000.0, xml="<z/>")])
        broker.engine.expire()
        assert not [*standings.awake()]


def test_explain_says_how_a_pattern_is_matched_and_how_many_share_its_shape() -> None:
    with Broker(lateness=0.0) as broker:
        broker.subscribe(";".join(f"k{n}: {TEXTS['next'].format(n)}" for n in range(3)))
        for name in ("apart", "either"):
            broker.subscribe(f"{name}: {TEXTS[name].format(1)}")
        for kind, name in {"c": "chain prefix", "n": "absence prefix"}.items():
            broker.subscribe(";".join(f"{kind}{n}: {TEXTS[name].format(n)}" for n in range(3)))
        catalog = broker.engine.catalog
        told = {
            id: pattern_stage(catalog.subscriptions[id].compiled, catalog)
            for id in ("k0", "apart", "c0", "n0", "either")
        }
    wanted = "matched in the order of time, as NEXT; 2 other queries have its shape"
    assert f"{wanted}, which are matched together with it" in told["k0"]
    noted = "together with it; documents of 2 blocks are noted once, until one comes for the last"
    assert noted in told["c0"]
    assert "noted once" not in told["k0"]
    prefix = "together with it; 2 of them have the same first blocks, and what waits there is made"
    assert prefix in told["n0"]
    later = "as a list of 2 blocks, and compared with its other matches once time is beyond its end"
    assert f"matched when its last document comes, {later}" in told["apart"]
    assert "matched by choosing documents; no other query has its shape" in told["either"]


def test_blocks_that_differ_in_the_names_of_their_variables_are_found_and_stored_once() -> None:
    one = "S/q[./s='x'][./p->p] NEXT {r > p, 5 min} S/q[./s='x'][./p->r]"
    other = "S/q[./s='x'][./p->u] NEXT {u < v, 1 min} S/q[./s='x'][./p->v]"
    with Broker(lateness=0.0) as broker:
        broker.subscribe(f"one: {one}; other: {other}")
        catalog = broker.engine.catalog
        told = pattern_stage(catalog.subscriptions["one"].compiled, catalog)
        found = broker.process(
            [
                Document(f"d{n}", timestamp=float(n), xml=f"<q><s>x</s><p>{n}</p></q>")
                for n in range(1, 4)
            ]
        )
        rows = broker.engine.store.rows("SELECT doc FROM pattern_rows ORDER BY doc")
    _, blocks = told.split("blocks are found by\n")
    assert "once for 2 blocks and 2 of other queries" in blocks.splitlines()[0]
    assert [doc for (doc,) in rows] == [1, 2, 3]
    pairs = [("d1", "d2"), ("d2", "d3")]
    assert sorted((each.query, tuple(d.id for d in each.documents)) for each in found) == [
        *(("one", pair) for pair in pairs),
        *(("other", pair) for pair in pairs),
    ]


def test_a_late_document_for_a_first_block_completes_a_list_after_a_restart(tmp_path: Path) -> None:
    texts = ";".join(f"{key}: {TEXTS['list prefix'].format(key)}" for key in "pq")
    early = [("b", 2.0), ("c", 3.0)]
    with Broker(tmp_path / "state", lateness=3.0) as broker:
        broker.subscribe(texts)
        for name, at in early:
            xml = f"<{name}><k>p</k></{name}>"
            assert not broker.process([Document(name, timestamp=at, xml=xml)])
    with Broker(tmp_path / "state", lateness=3.0) as broker:
        late = Document("a", timestamp=1.0, xml="<a><k>p</k></a>")
        found = broker.process([late])
    assert [(m.query, [d.id for d in m.documents]) for m in found] == [("p", ["a", "b", "c"])]


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_who_goes_before_it_is_decided_leaves_the_others_what_they_have(name: str) -> None:
    documents = stream(12, 90)
    parts = [documents[first : first + 9] for first in range(0, len(documents), 9)]
    found = []
    for goes in (True, False):
        with Broker(lateness=20.0) as broker:
            broker.subscribe(";\n".join(f"{key}: {TEXTS[name].format(key)}" for key in "pqr"))
            before = [match for part in parts[:6] for match in broker.process(part)]
            if goes:
                broker.unsubscribe("q")
            after = [match for part in parts[6:] for match in broker.process(part)]
            after += broker.process([Document("z", timestamp=900.0, xml="<z/>")])
        assert any(match.query == "q" for match in after) is not goes
        found.append([match.id for match in before + after if match.query != "q"])
    assert found[0] == found[1] != []

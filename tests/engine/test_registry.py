"""Queries of a broker that are registered: restarts, windows, streams, stage 1, memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document, Match, XsclError
from broker.documents.witnessing import matcher_for
from broker.query import prepared
from broker.query.canonical import Canonical
from xscl.errors import Source
from xscl.normal.treepattern import Definition
from xscl.stage1.document import parse_document
from xscl.stage1.matcher import Matcher


@pytest.fixture(autouse=True)
def no_shapes() -> Iterator[None]:
    """Each test starts as a process does."""
    prepared.forget()
    yield
    prepared.forget()


QUERIES = """
S//item[./author = 'X'][contains(./title, 'y')][./price < -5][contains(./title, 'z')];
S//item->a[./author = 'X'][contains(./title, 'Y')][./link->l]
    FOLLOWED BY {l = m, 1 day} S//item->b[./link->m];
S//item->a[contains(./t, 'b')][contains(./t, 'a')][./l->l] JOIN {l = m, 5 s} S//item[./l->m];
S//item->a[./t = 5][./t = '5'][./t->l] JOIN {l = m AND l/x != 4, INFINITY} S//item[./t->m] WITHIN 2 h;
SELECT concat(x, ' 7 '), y AS n, 5 FROM S//i[./a->x][./b->y] WHERE x > 3 OR y = 'k' OR x - 2 < 1;
SELECT <out a="1 {x}">{concat('p', x)} text</out> FROM S//i[./a->x[. = 'q']] WITHIN 3 days;
SELECT <out>at 5 it's {concat('p', x)}</out> FROM S//i[./a->x[. = 'q']];
S//book->x1[./author->x2'] FOLLOWED BY {x2' = x5' AND x2' != 'X', 4 s} S//blog[./author->x5'];
(SELECT * FROM S//i[. = 'a'])//i->x[./t->t] FOLLOWED BY {t = u, 1 h} S//i[./t->u] PUBLISH made;
S//a[./b[. = 'x'][. = 'w']][./c[contains(., 'x') and contains(., 'w')]/d->d] JOIN {d = e, 1 s} S//a->e;
S//i->x[./t->t] JOIN {NOT (x/a[. = 'k'] = y/b) AND x/a[. = 'l'] = y/b, 9 s} S//i->y[./t->u];
S//a-1[./b-2 = 3]->v FOLLOWED BY {number(v) = 4 AND v = w} S//c.5->w[./d5 >= 6.25]
"""


def author(number: int, days: int = 1) -> str:
    return (
        f"s{number}: SELECT x, concat('for {number}: ', t) AS n FROM"
        f" S//i->x[./a = 'A{number}'][contains(./t, 'w{number}')][./t->t][./l->l]"
        f" FOLLOWED BY {{l = m, {days} days}} S//i->y[./l->m];"
    )


def documents(number: int, at: float = 0.0) -> list[Document]:
    made = f"<i><a>A{number}</a><t>of w{number}</t><l>{number}</l></i>"
    return [
        Document(f"{number}.{k}", "S", at + k, made if k == 0 else f"<i><l>{number}</l></i>")
        for k in range(2)
    ]


def told(matches: list[Match]) -> list[tuple[str, str]]:
    return [(match.id, match.result) for match in matches]


def test_matches_do_not_depend_on_sharing_nor_on_a_restart(tmp_path: Path) -> None:
    """The same ids and results from a query compiled by itself, by a shape, and restored."""
    expected = []
    for number in range(5):
        prepared.forget()
        broker = Broker()
        broker.subscribe(author(number))
        (match,) = broker.process(documents(number))
        assert f"<n>for {number}: of w{number}</n>" in match.result
        expected.append((match.id, match.result))
    prepared.forget()
    with Broker(tmp_path) as broker:
        broker.subscribe("\n".join(map(author, range(5))))
        texts = broker.subscriptions
    prepared.forget()
    with Broker(tmp_path) as broker:
        assert broker.subscriptions == texts
        found = [match for n in range(5) for match in broker.process(documents(n, 10.0 * n))]
        assert [match.id for match in found] == [id for id, _ in expected]
        assert all(f"for {n}: of w{n}" in match.result for n, match in enumerate(found))


def test_a_restored_subscription_continues(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(author(1) + author(2) + author(3))
        broker.process(documents(2)[:1])
    with Broker(tmp_path) as broker:
        broker.subscribe(author(2) + author(3, days=2))
        assert [m.query for m in broker.process(documents(2)[1:])] == ["s2"]
        broker.process(documents(3, 5.0)[:1])
        broker.unsubscribe("s1")
    with Broker(tmp_path) as broker:
        assert sorted(broker.subscriptions) == ["s2", "s3"]
        assert [m.query for m in broker.process(documents(3, 5.0)[1:])] == ["s3"]


def test_a_nested_query_is_restored(tmp_path: Path) -> None:
    text = (
        "LET NAMESPACE p = 'urn:p'; out: (SELECT t FROM S//p:i[./p:t->t][. != 'none'])//p:t->x"
        " FOLLOWED BY {x = y, 1 h} T//p:t->y;"
    )
    made = "<p:i xmlns:p='urn:p'><p:t>v</p:t></p:i>"
    with Broker(tmp_path) as broker:
        broker.subscribe(text)
        broker.process([Document("1", "S", 0.0, made)])
    with Broker(tmp_path) as broker:
        found = broker.process([Document("2", "T", 1.0, "<t xmlns='urn:p'>v</t>")])
        assert [match.query for match in found] == ["out"]


def canonical(broker: Broker) -> Canonical:
    (found,) = broker.engine.catalog.canonical.values()
    return found


def test_windows_of_a_canonical_query_are_the_widest_of_those_who_are_there() -> None:
    broker = Broker()
    r = Random(7)
    standing: dict[str, tuple[int, int]] = {}
    for number in range(300):
        if standing and r.random() < 0.45:
            gone = r.choice(sorted(standing))
            del standing[gone]
            broker.unsubscribe(gone)
        else:
            inner, whole = r.randint(1, 4), r.randint(1, 4)
            standing[f"q{number}"] = (inner, whole)
            broker.subscribe(
                f"q{number}: S//a->x FOLLOWED BY {{x = y, {inner} s}} S//b->y WITHIN {whole} s"
            )
        catalog = broker.engine.catalog
        spans = [min(pair) for pair in standing.values()]
        assert catalog.widest_window() == 1_000_000 * max(spans, default=0)
        if standing:
            widest = max(inner for inner, _ in standing.values()), max(spans)
            assert tuple(canonical(broker).windows()) == tuple(1_000_000 * w for w in widest)
        else:
            assert not catalog.canonical
            assert not catalog.edges


def test_a_cycle_is_found_whichever_query_closes_it() -> None:
    reads = {"a": "b", "b": "c", "c": "d", "d": "S"}
    for last in reads:
        broker = Broker()
        for stream, read in reads.items():
            if stream != last:
                broker.subscribe(f"{stream}: {'a' if read == 'S' else read}//x PUBLISH {stream}")
        read = "a" if reads[last] == "S" else reads[last]
        with pytest.raises(XsclError, match="streams derived from themselves: ") as caught:
            broker.subscribe(f"{last}: {read}//x PUBLISH {last}")
        assert [d.code for d in caught.value.diagnostics] == ["publish-cycle"]
        broker.subscribe(f"{last}: S//x PUBLISH {last}")
        assert set(broker.subscriptions) == set(reads)


def test_renewed_queries_may_exchange_their_streams() -> None:
    broker = Broker()
    broker.subscribe("a: S//x PUBLISH p; b: p//x PUBLISH q;")
    broker.subscribe("a: q//x PUBLISH p; b: S//x PUBLISH q;")
    assert broker.engine.catalog.published == {"p": "a", "q": "b"}
    broker.subscribe("a: S//x PUBLISH q; b: S//x PUBLISH p;")
    assert broker.engine.catalog.published == {"q": "a", "p": "b"}


@pytest.mark.parametrize("many", [3, 1_000])
def test_a_spec_with_changes_behind_it_is_that_of_the_queries_of_now(many: int) -> None:
    """What executors make of it witnesses as the driver does, whichever specs they know."""
    broker = Broker()
    registry = broker.engine.registry
    registry.stage1.appended = many
    made = "<i k='1'><a>A3</a><a>A8</a><t>of w3 and w8</t><l>5</l><m><l>6</l></m></i>"
    queries = [*map(author, range(12)), "v: S//i->x[./@k->k] WHERE k > 0", "v: S//i/m//l->x"]
    r = Random(3)
    specs, before, begun = [], b"", 0
    for _ in range(120):
        text = r.choice(queries)
        name = text.split(":")[0]
        if name in broker.subscriptions and r.random() < 0.7:
            broker.unsubscribe(name)
        else:
            broker.subscribe(text)
        if r.random() < 0.5:
            continue  # several changes at once
        spec = registry.stage1.spec()
        assert spec is registry.stage1.spec()
        specs.append((spec, witnessed(registry.stage1.matcher, made)))
        begun += not spec.startswith(before)
        before = spec
        for known, expected in [specs[-1], r.choice(specs), specs[-1]]:
            assert witnessed(matcher_for(known), made) == expected
    assert len({repr(expected) for _, expected in specs}) > 5
    assert (begun > 3) == (many < 1_000)  # forms made anew


def test_a_spec_may_hold_a_path_of_very_many_steps() -> None:
    """The automaton is as deep as the path is long, and deep structures do not pickle."""
    broker = Broker()
    steps = 64
    below = f"[.{'//b' * steps}->y]" * 2
    broker.subscribe(f"deep: S{'//a' * steps}->x{below.replace('y', 'z', 1)}")
    registry = broker.engine.registry
    document = "<a>" * steps + "<b>" * steps + "</b>" * steps + "</a>" * steps
    expected = witnessed(registry.stage1.matcher, document)
    assert expected
    assert witnessed(matcher_for(registry.stage1.spec()), document) == expected


def witnessed(matcher: Matcher, text: str) -> list[str]:
    found = matcher.match(parse_document(text.encode()), ("S",))
    rows = enumerate(found)
    return sorted(map(repr, ((row, found.text.get(i), found.num.get(i)) for i, row in rows)))


def test_an_edge_is_made_again_as_it_was() -> None:
    """Edges that one query uses are not kept; those that two use carry what both ask for."""
    broker = Broker()
    catalog, matcher = broker.engine.catalog, broker.engine.registry.stage1.matcher
    r = Random(5)
    fitting = QUERIES.replace("[./b-2 = 3]->v", "->v[./b-2 = 3]")
    texts = [*map(author, range(4)), *(t.strip() for t in fitting.split(";"))]
    texts = [t if ":" in t.split("//")[0] else f"q{n}: {t}" for n, t in enumerate(texts)]
    for _ in range(150):
        text = r.choice(texts)
        name = text.split(":")[0]
        if name in broker.subscriptions:
            broker.unsubscribe(name)
        else:
            broker.subscribe(text)
        text_of = {number: text for text, number in catalog.variables.items()}
        assert matcher.edges.keys() == catalog.edges.keys()
        for edge_id, edge in catalog.edges.items():
            definition, held = edge.definition, matcher.edges[edge_id]
            assert definition.text() == text_of[edge.var2]
            above = Definition(definition.stream, definition.steps[: edge.depth])
            assert (above.text() if edge.depth else None) == text_of.get(edge.var1)
            assert (held.var1, held.var2) == (edge.var1, edge.var2)
            assert (held.group.valued, held.group.read) == (edge.valued, edge.read)
            assert held.group.depth == edge.depth
        asked = [
            pair for c in catalog.canonical.values() for pair in zip(c.edges, c.ties, strict=True)
        ]
        assert catalog.edges.keys() == {edge_id for edge_id, _ in asked}
        for edge_id, (_, _, valued, read) in asked:
            edge = catalog.edges[edge_id]
            assert edge.valued >= valued
            assert edge.read >= read


def test_no_place_of_a_text_stays_in_memory() -> None:
    """What is registered must not keep the text of the file that it came in."""
    broker = Broker()
    mark = "-- " + "only a comment " * 3
    broker.subscribe(f"{mark}\n" + author(1) + author(2) + author(3) + QUERIES.splitlines()[1])
    gc.collect()
    held = [each.text for each in gc.get_objects() if isinstance(each, Source)]
    assert len(broker.subscriptions) == 4
    assert not any("only a comment" in text for text in held)


def test_no_query_publishes_a_stream_of_the_broker_s_own() -> None:
    """Who reads `broker.feeds` may rely on what it says."""
    broker = Broker()
    with pytest.raises(XsclError, match="reserved-stream"):
        broker.subscribe("forged: S//a PUBLISH broker.feeds")
    assert broker.subscriptions == {}

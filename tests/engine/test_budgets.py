"""Work that is bounded: a query that is too much at a document is set aside there, and named; all
others find what they find."""

from __future__ import annotations

from collections import Counter
from math import comb
from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document, Match
from broker.engine import Engine
from broker.model import Budgets
from tests.calls import calls
from tests.oracle.generate import Batch, Subscribe, steady
from tests.properties.harness import _document
from tests.seeds import seeds

HONEST = "honest: SELECT k FROM S//r[./k->k] FOLLOWED BY {k = l, 1 h} S//r[./k->l];"


def document(number: int, inside: str = "", k: str | None = None) -> Document:
    key = f"<k>{number // 2 if k is None else k}</k>"
    return Document(str(number), "S", 60.0 * number, f"<r>{key}{inside}</r>")


class Bounded(Broker):
    """A broker with budgets of its own, in memory."""

    def __init__(self, **budgets: int) -> None:
        super().__init__()
        store = self._engine.store
        self._engine = Engine(store, budgets=Budgets(**budgets))


def found_by(matches: list[Match]) -> Counter[str]:
    return Counter(match.query for match in matches)


def reasons(broker: Broker) -> list[tuple[str, str]]:
    return [(letter.id, letter.reason) for letter in broker.dead_letters()]


# -- bombs, with the budgets there are by default ----------------------------------------------


def test_a_result_that_is_too_long_is_never_made() -> None:
    broker = Broker()
    many = ", ".join(["x"] * 2_000)
    copies = "".join(["{x}"] * 2_000)
    broker.subscribe(
        f"{HONEST} long: SELECT concat({many}) FROM S//r->x; "
        f"copies: SELECT <all>{copies}</all> FROM S//r->x; "
        f"fine: SELECT concat('a', string-length(x)) AS x FROM S//r->x;"
    )
    matches = broker.process([document(n, "x" * 2_000_000) for n in (2, 3)])
    assert found_by(matches) == {"honest": 1, "fine": 2}
    told = [(id, why.partition(":")[0]) for id, why in sorted(reasons(broker))]
    names = ("the query copies had no match here", "the query long had no match here")
    assert told == [(id, name) for id in ("2", "3") for name in names]


def test_nodes_that_are_combined_in_one_document_are_counted_first() -> None:
    broker = Broker()
    broker.subscribe(f"{HONEST} cube: SELECT x, y, z FROM S//r[.//a->x][.//a->y][.//a->z];")
    few, many = "<a/>" * 10, "<a/>" * 300
    matches = broker.process([document(2, few), document(3, many), document(4, few)])
    assert found_by(matches) == {"honest": 1, "cube": 2_000}
    assert reasons(broker) == [
        ("3", "the query cube had no match here: more than 10,000 combinations")
    ]


@pytest.mark.parametrize("size", [1, 22])
def test_a_long_chain_over_equal_documents(size: int) -> None:
    broker = Bounded(combinations=1_000)
    blocks = " FOLLOWED BY {k0 = k%d, 1 day} ".join(["S//r[./k->k%d]"] * 8)
    numbers = [0, *(n for block in range(1, 8) for n in (block, block))]
    broker.subscribe(f"{HONEST} chain: SELECT k0 FROM {blocks % tuple(numbers)};")
    documents = [document(n, k="same") for n in range(22)]
    matches = [m for i in range(0, 22, size) for m in broker.process(documents[i : i + size])]
    found = found_by(matches)
    assert found["honest"] == 22 * 21 // 2
    # Of eight documents that the nth completes, seven are chosen of those before it.
    assert found["chain"] == sum(comb(n, 7) for n in range(22) if comb(n, 7) <= 1_000)
    suspended = broker.engine.registered_one("chain")
    assert suspended.status == "suspended"
    assert [letter.id for letter in broker.dead_letters()] == ["13", "14", "15"]
    assert suspended.reason == (
        "set aside at 3 documents, the last time for more than 1,000 combinations"
    )


def test_blocks_that_nothing_joins() -> None:
    broker = Bounded(combinations=500)
    broker.subscribe(
        f"{HONEST} cross: SELECT k FROM S//r[./k->k] JOIN {{1 day}} S//r->b JOIN {{1 day}} S//r->c;"
    )
    found = found_by(broker.process([document(n) for n in range(100)]))
    assert found["honest"] == 50
    # A document is in one of three blocks, and two of those before it are in the others.
    assert found["cross"] == sum(3 * n * (n - 1) for n in range(14))
    assert broker.engine.registered_one("cross").status == "suspended"
    assert len(broker.dead_letters()) == 3


@pytest.mark.parametrize("size", [1, 8])
def test_queries_that_publish_into_each_other(size: int) -> None:
    broker = Broker()
    levels = "".join(
        f"q{n}: SELECT k FROM p{n - 1}//result[./k->k] JOIN {{k = l, 1 day}}"
        f" p{n - 1}//result[./k->l] PUBLISH p{n};\n"
        for n in range(1, 20)
    )
    broker.subscribe(f"{HONEST} q0: SELECT k FROM S//r[./k->k] PUBLISH p0;\n{levels}")
    documents = [document(n, k="same") for n in range(8)]
    matches = [m for i in range(0, 8, size) for m in broker.process(documents[i : i + size])]
    found = found_by(matches)
    assert found["honest"] == 8 * 7 // 2
    assert (found["q0"], found["q1"]) == (8, 8 * 7)
    assert reasons(broker) == [
        (f"{doc}", f"the query {id} had no match here: more than 10,000 combinations")
        for doc, id in ((2, "q4"), (3, "q3"), (4, "q3"), (5, "q3"))
    ]
    assert found["q3"] == 868 + 2
    assert {each.id for each in broker.engine.take_suspensions()} == {"q3"}


@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize(
    ("query", "inside", "first"),
    [
        # Of eleven documents there are 55 pairs, and 50 may wait.
        ("S//r->a FOLLOWED BY S//r->b FOLLOWED BY NOT S//never WITHIN 1 day", "", 11),
        (
            "SELECT x, y FROM S//r[.//n->x][.//n->y] FOLLOWED BY NOT S//never WITHIN 1 day",
            "<n/><n/><n/>",
            1,
        ),
    ],
    ids=["waiting", "nodes"],
)
def test_an_event_pattern_is_suspended_as_a_whole_at_an_exact_document(
    size: int, query: str, inside: str, first: int
) -> None:
    broker = Bounded(combinations=5)
    broker.subscribe(f"{HONEST} many: {query};")
    documents = [document(n, inside) for n in range(20)]
    matches = [m for i in range(0, 20, size) for m in broker.process(documents[i : i + size])]
    assert found_by(matches) == {"honest": 10}
    registered = broker.engine.registered_one("many")
    assert registered.status == "suspended"
    assert registered.gaps[0].first_doc == first


_MANY = "".join([f"<n>{n}</n>" for n in range(300)])


@pytest.mark.parametrize(
    "query",
    [
        "S//r->x FOLLOWED BY {x//n + y//n + x//n = 0.5} (S//r->y)+ WITHIN 2 min WAIT 0 s",
        "S//r->x NEXT {x//n + y//n + x//n = 0.5} S//r->y WITHIN 1 day WAIT 0 s",
        "S//r->x FOLLOWED BY NOT S//r->y WHERE x//n + y//n + x//n = 0.5 WITHIN 2 min WAIT 0 s",
        "S//r->x FOLLOWED BY S//r->y PARTITION BY .//n, .//n, ./* WITHIN 1 day",
        "S//r[.//n->x] PARTITION BY .//n, .//n WITHIN 1 day",
    ],
    ids=["group", "next", "not", "partition", "nodes-and-partition"],
)
def test_an_event_pattern_with_too_many_choices_among_nodes(query: str) -> None:
    """What one condition tries, or one document may be in partitions of, is bounded as well."""
    broker = Broker()
    broker.subscribe(f"{HONEST} many: {query};")
    matches = broker.process([document(n, _MANY) for n in range(8)])
    assert found_by(matches) == {"honest": 4}
    registered = broker.engine.registered_one("many")
    assert registered.status == "suspended"
    assert "choices" in (registered.reason or "")


def test_nodes_of_two_documents_are_compared_without_trying_every_pair() -> None:
    many = ("".join([f"<n>{n}</n>" for n in range(part, 2_000, 2)]) for part in range(2))
    broker = Broker()
    broker.subscribe(
        "equal: S//r->x NEXT {x//n = y//n} S//r->y WITHIN 1 day;"
        "less: S//r->x NEXT {x//n < y//n} S//r->y WITHIN 1 day;"
        "unequal: S//r->x NEXT {x//n != y//n} S//r->y WITHIN 1 day;"
    )
    broker.process([document(n, inside) for n, inside in enumerate(many)])
    assert found_by(broker.decide()) == {"less": 1, "unequal": 1}
    assert not broker.engine.registered(status="suspended", limit=1)


# -- and with small ones -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(3, 12))
def test_how_documents_are_cut_changes_nothing(seed: int) -> None:
    """Also which pairs are set aside, and where a query is suspended. All that is found is what is
    found without budgets, but for the queries that are named."""
    r = Random(seed)
    case = steady(r, "core" if seed % 2 else "full")
    (subscribe, *events) = case.events
    assert isinstance(subscribe, Subscribe)
    documents = [
        _document(a) for batch in events if isinstance(batch, Batch) for a in batch.documents
    ]
    free = Broker()
    free.subscribe(subscribe.text)
    every = {m.id: m for m in free.process(documents)}
    outcomes = []
    for _ in range(3):
        bounded = Bounded(combinations=r.choice([2]))
        bounded.subscribe(subscribe.text)
        found: dict[str, str] = {}
        left = list(documents)
        while left:
            size = r.randint(1, len(left))
            found.update({m.id: m.query for m in bounded.process(left[:size])})
            left = left[size:]
        suspended = {
            id: [gap.first_doc for gap in bounded.engine.registered_one(id).gaps]
            for id in bounded.subscriptions
        }
        outcomes.append((found, sorted(reasons(bounded)), suspended))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    found, told, suspended = outcomes[0]
    assert found.keys() <= every.keys()
    named = " ".join(why for _, why in told)
    reading = {m.query for id, m in every.items() if id not in found}
    published = {s.publish for s in free.engine.catalog.subscriptions.values() if s.publish}
    if not published:
        assert all(id in named or "more" in named for id in reading)


def test_pairs_that_are_set_aside_count_across_a_restart(tmp_path: Path) -> None:
    query = "cube: SELECT x, y FROM S//r[.//a->x][.//a->y];"
    many = "<a/>" * 101
    for n in (1, 2):
        with Broker(tmp_path) as broker:
            broker.subscribe(query)
            assert broker.process([document(n, many)]) == []
            assert broker.engine.registered_one("cube").status == "active"
    with Broker(tmp_path) as broker:
        assert found_by(broker.process([document(3, "<a/>")])) == {"cube": 1}
        broker.process([document(4, many), document(5, "<a/>")])
        (suspension,) = broker.engine.take_suspensions()
        assert suspension.id == "cube"
        assert broker.engine.registered_one("cube").gaps[0].first_doc == 4
        broker.engine.resume("cube")
        broker.process([document(6, many)])
        assert broker.engine.registered_one("cube").status == "active", "it is counted anew"
        broker.unsubscribe("cube")
        assert broker.engine.store.rows("SELECT key FROM meta WHERE key LIKE 'strikes%'") == []


def test_a_batch_that_fails_counts_nothing(tmp_path: Path) -> None:
    many = "<a/>" * 101
    with Broker(tmp_path) as broker:
        broker.subscribe("cube: SELECT x, y FROM S//r[.//a->x][.//a->y];")
        broker.process([document(1, many)])
        broker.engine.store.run("ALTER TABLE outbox RENAME COLUMN match TO other")
        for _ in range(3):
            with pytest.raises(Exception, match="match"):
                broker.process([document(2, many), document(3, "<a/>")])
        broker.engine.store.run("ALTER TABLE outbox RENAME COLUMN other TO match")
        broker.process([document(2, many), document(3, "<a/>")])
        assert broker.engine.registered_one("cube").status == "active"
        assert [letter.id for letter in broker.dead_letters()] == ["1", "2"]


def test_a_query_around_the_one_that_is_set_aside_is_named() -> None:
    broker = Bounded(combinations=5)
    broker.subscribe(
        "out: SELECT t FROM (SELECT x AS t, y AS u FROM S//r[.//a->x][.//a->y])//t->t;"
    )
    broker.process([document(1, "<a/>" * 3)])
    assert reasons(broker) == [("1", "the query out had no match here: more than 5 combinations")]


def test_a_budget_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Budgets(combinations=0)


@pytest.mark.parametrize(
    "filter", ["concat({x}) = 'a'", "string-length(concat({x})) > 5", "concat({x}) = ../b"]
)
def test_a_text_that_is_too_long_fails_no_document(filter: str) -> None:
    broker = Broker()
    many = ", ".join(["."] * 40)
    broker.subscribe(f"{HONEST} long: SELECT k FROM S//r[./k->k][./t[{filter.format(x=many)}]];")
    big = f"<t>{'x' * 1_000_000}</t>"
    assert found_by(broker.process([document(2, big), document(3, big)])) == {"honest": 1}
    assert broker.dead_letters() == []


def test_history_keeps_to_the_budgets(tmp_path: Path) -> None:
    query = "cube: SELECT x, y FROM S//r[.//a->x][.//a->y];"
    with Broker(tmp_path, budgets=Budgets(combinations=5)) as broker:
        broker.process([document(n, "<a/>" * (3 if n % 2 else 1)) for n in range(8)])
        found = broker.backfill(HONEST + query, 0.0)
        assert found_by(found.matches) == {"honest": 4, "cube": 3}
        assert found.suspended == ("cube",)
        assert [letter.id for letter in broker.dead_letters()] == ["1", "3", "5"]
        assert broker.engine.registered_one("cube").gaps[0].first_doc == 6
    with Broker(tmp_path) as broker:
        assert found_by(broker.dry_run("again" + query[4:], 0.0).matches) == {"again": 4 + 4 * 9}


def test_to_ask_what_waits_tries_no_more_than_it_may() -> None:
    """However many candidates wait whose absences compare very many nodes."""
    broker = Broker()
    broker.subscribe(
        "q: S//r->x FOLLOWED BY NOT S//r->y WHERE x//n + y//n = 0.5 WITHIN 1 day WAIT 0 s;"
    )
    inside = "".join([f"<n>{n}</n>" for n in range(200)])
    broker.process([document(n, inside) for n in range(30)])
    with calls() as made:
        (waits,) = broker.waiting()
    assert waits.query == "q"
    assert waits.decides is not None
    assert made[0] < 3_000_000  # 435 pairs of 40,000 choices each

"""One match of a query with many subscribers is found and stored once, and each has its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import broker.results.publisher as publisher
from broker import Broker, Document, Match
from broker.model import Limit
from broker.results.match_ids import MatchIds, id_suffix, match_ids
from broker.shared_match import MOST, SharedMatch, each_match, portions

_PAIR = "S//a[./k->k] FOLLOWED BY {k = l, 1 h} S//b[./k->l]"


def texts(queries: dict[str, str]) -> str:
    return "; ".join(f"{name}: {query}" for name, query in queries.items())


def a(id: str, at: float = 0.0) -> Document:
    return Document(id, timestamp=at, xml="<a><title>one</title><k>1</k></a>")


def b(id: str, at: float = 1.0) -> Document:
    return Document(id, timestamp=at, xml="<b><title>two</title><k>1</k></b>")


def found_by(broker: Broker, *documents: Document) -> list[SharedMatch]:
    return broker.engine.apply(broker.arrivals(documents))


def alone(query: str, *documents: Document) -> list[Match]:
    """The matches if one subscriber has them only."""
    broker = Broker()
    broker.subscribe(query)
    return broker.process(documents)


@dataclass
class Query:
    id: str
    text: str


def test_the_ids_of_many_are_those_of_each() -> None:
    known = MatchIds()
    suffix = id_suffix(['["S","1"]', '["S","2"]'], "[1]")
    for texts_of in (["a", "a"], ["a", "b"], ["b", "b", 'c"'], ["a"], ["a", "a"]):
        some = [Query(f"q{n}", text) for n, text in enumerate(texts_of)]
        each = [json.dumps([q.id, q.text, [["S", "1"], ["S", "2"]], [1]]) for q in some]
        plainly = [each_one.replace(", ", ",").encode() for each_one in each]
        wanted = b"".join([blake2b(text, digest_size=16).digest() for text in plainly])
        assert known.of(some, suffix) == known.of([*some], suffix) == wanted
        assert match_ids(some, suffix) == wanted


def test_a_match_is_one_piece_for_all_and_each_has_its_own(tmp_path: Path) -> None:
    queries = {f"q{n}": _PAIR for n in range(20)}
    with Broker(tmp_path) as broker:
        broker.subscribe(texts(queries))
        (shared,) = found_by(broker, a("1"), b("2"))
        assert len(shared) == 20
        assert broker.engine.store.count("SELECT count(*) FROM outbox") == 1
        matches = each_match([shared])
        assert len({match.id for match in matches}) == 20
        for name, match in zip(queries, matches, strict=True):
            assert [match] == alone(f"{name}: {_PAIR}", a("1"), b("2"))
        assert broker.undelivered() == matches
        assert broker.undelivered(7) == matches[:7]
        broker.acknowledge([matches[3], matches[19], "unknown"])
    with Broker(tmp_path) as broker:
        left = [match for match in matches if match.query not in ("q3", "q19")]
        assert broker.undelivered() == left
        assert broker.engine.outbox.count() == 18
        broker.acknowledge(left[1:])
        assert broker.undelivered() == left[:1]
        broker.engine.acknowledge(broker.engine.undelivered())
        assert broker.undelivered() == []


def test_it_renders_as_it_was_found_after_its_queries_are_replaced_and_gone(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(texts({"x": _PAIR, "y": _PAIR, "z": _PAIR}))
        matches = broker.process([a("1"), b("2")])
        before = [match.to_json() for match in matches]
        broker.unsubscribe("x")
        broker.subscribe("y: SELECT t FROM S//a[./title->t]")
        revised = Document("2", timestamp=1.0, xml="<b><k>7</k></b>", revision=True)
        broker.process([revised])
    with Broker(tmp_path) as broker:
        assert [match.to_json() for match in broker.undelivered()] == before


def test_those_share_it_whose_windows_and_streams_are_the_same() -> None:
    broker = Broker()
    wide = _PAIR.replace("1 h", "2 h")
    queries = {
        "near": _PAIR,
        "far": wide,
        "near2": _PAIR,
        "told": f"{_PAIR} PUBLISH p",
        "far2": wide,
    }
    broker.subscribe(texts(queries))
    found = found_by(broker, a("1"), b("2"))
    assert sorted(sorted(each.queries) for each in found) == [
        ["far", "far2"],
        ["near", "near2"],
        ["told"],
    ]
    found = found_by(broker, a("3", 10_000.0), b("4", 10_000.0 + 5_400))
    assert [sorted(each.queries) for each in found] == [["far", "far2"]]


def test_who_comes_later_has_later_documents_only() -> None:
    broker = Broker()
    broker.subscribe(texts({"x": _PAIR, "y": _PAIR}))
    broker.process([a("1")])
    broker.subscribe(f"late: {_PAIR}")
    assert [m.query for m in broker.process([b("2")])] == ["x", "y"]
    assert [m.query for m in broker.process([a("3", 2.0), b("4", 3.0)])].count("late") == 1
    broker.unsubscribe("x")
    broker.engine.pause("y")
    assert {m.query for m in broker.process([b("5", 4.0)])} == {"late"}


def test_very_many_come_in_pieces() -> None:
    broker = Broker()
    broker.subscribe(texts({f"q{n}": _PAIR for n in range(2 * MOST)}))
    found = found_by(broker, a("1"), b("2"))
    assert max(map(len, found)) <= MOST
    assert len({match.query for match in each_match(found)}) == 2 * MOST


def test_very_many_are_handed_over_in_portions() -> None:
    broker = Broker()
    broker.subscribe(texts({f"q{n}": _PAIR for n in range(3)}) + "; one: S//b[./k->k]")
    found = found_by(broker, *[a(str(n)) for n in range(4)], b("b"))
    sizes = sorted(map(len, found))
    assert sizes == [1, 3, 3, 3, 3]
    for most in range(1, 15):
        parts = [*portions(found, most)]
        assert [match for part in parts for match in part] == found
        assert all(sum(map(len, part)) <= most or len(part) == 1 for part in parts)
        pairs = pairwise(parts)
        assert all(sum(map(len, part)) + len(then[0]) > most for part, then in pairs)
    assert [*portions([], 1)] == []


def test_what_a_query_constructs_is_made_once_for_all(tmp_path: Path) -> None:
    made = (
        f"SELECT <pair k='{{k}}'>{{t}}</pair> FROM {_PAIR.replace('./k->k', './k->k][./title->t')}"
    )
    named = f"SELECT t AS title FROM {_PAIR.replace('./k->k', './k->k][./title->t')}"
    for query, results in ((made, 1), (named, 3)):
        with Broker(tmp_path / str(results)) as broker:
            broker.subscribe(texts({"x": query, "y": query, "z": query}))
            with patch.object(publisher, "_made", side_effect=publisher._made) as makes:
                found = broker.process([a("1"), b("2")])
            assert makes.call_count == 1
            assert [[match] for match in found] == [
                alone(f"{name}: {query}", a("1"), b("2")) for name in "xyz"
            ]
            assert len({match.result for match in found}) == results
            assert broker.undelivered() == found


def test_a_limit_is_that_of_one() -> None:
    broker = Broker()
    broker.subscribe(texts({"x": _PAIR, "y": _PAIR, "z": _PAIR}))
    broker.engine.set_limit("y", Limit(1, timedelta(hours=1)))
    found = broker.process([a("1"), b("2"), b("3"), b("4")], 10.0)
    assert sorted(m.query for m in found) == ["x"] * 3 + ["y"] + ["z"] * 3


def test_each_result_of_a_stream_is_a_document() -> None:
    broker = Broker()
    broker.subscribe(f"{texts({'x': f'{_PAIR} PUBLISH p', 'y': f'{_PAIR} PUBLISH q'})}")
    broker.subscribe("up: SELECT k FROM p//result[.//k->k]; up2: SELECT k FROM p//result[.//k->k]")
    found = broker.process([a("1"), b("2")])
    assert sorted(m.query for m in found if m.query.startswith("up")) == ["up", "up", "up2", "up2"]

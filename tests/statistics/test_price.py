"""The estimated price of queries compared with the pairs that the broker really finds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import xscl
from broker import Broker, Document
from broker.price import Price, dear, price
from broker.query.prepared import compile_query
from broker.statistics.model import StreamSeen
from tests.service.api_harness import serving
from tests.waiting import until

HOUR = 3_600.0


def stream(seed: int, values: int, skew: bool) -> list[Document]:
    """Ten days of a document each quarter of an hour."""
    rng = random.Random(seed)

    def value() -> int:
        return 0 if skew and rng.random() < 0.3 else rng.randrange(values)

    return [
        Document(str(n), "S", n * HOUR / 4, f"<a><k>v{value()}</k></a>") for n in range(10 * 24 * 4)
    ]


def priced(broker: Broker, text: str) -> Price | None:
    (query,) = xscl.check([xscl.parse(text)]).queries
    find = broker.engine.streams
    return price(compile_query(query), lambda name: find.stream(name, values=20))


@pytest.mark.parametrize("skew", [False, True], ids=["even", "skewed"])
@pytest.mark.parametrize("operator", ["FOLLOWED BY", "JOIN"])
def test_the_candidates_of_a_join_are_about_the_pairs_that_are_found(
    operator: str, skew: bool
) -> None:
    text = f"q: S//a[./k->x] {operator} {{x = y, 6 h}} S//a[.//k->y]"
    with Broker() as broker:
        broker.subscribe(text)
        pairs = len(broker.process(stream(1, 50, skew))) / 10
        found = priced(broker, text)
    assert found is not None
    assert pairs / 1.5 < found.candidates < pairs * 1.5
    assert found.documents == pytest.approx((96, 96), rel=0.01)
    assert not found.grows
    assert not found.unjoined


def test_a_service_warns_of_what_makes_very_many_candidates(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        documents = [
            {"id": str(n), "xml": "<a><k>v</k></a>", "timestamp": n * 5.0} for n in range(1_000)
        ]
        running.publish(*documents)

        def counted() -> bool:
            found = running.http.get("/v1/streams").json()
            return bool(found) and found[0]["documents"] == len(documents)

        until(counted)
        text = "dear: S//a[./k->x] FOLLOWED BY {x = y, 30 days} S//a[./k->y]"
        (reply,) = running.http.post("/v1/subscriptions", json={"text": text}).json()
    assert [each["code"] for each in reply["warnings"]] == ["dear-query"]
    assert "candidates a day" in reply["warnings"][0]["message"]


def test_what_nothing_joins_is_quadratic_and_what_has_no_window_grows() -> None:
    with Broker() as broker:
        broker.process(stream(2, 50, False))
        joined = priced(broker, "S//a[./k->x] JOIN {x = y, 1 day} S//a[./k->y]")
        crossed = priced(broker, "S//a JOIN {1 day} S//a")
        endless = priced(broker, "S//a[./k->x] FOLLOWED BY {x = y} S//a[./k->y]")
        nothing = priced(broker, "S//a[./k->x] FOLLOWED BY {x = y, 1 day} S//b[./k->y]")
        unknown = priced(broker, "S//a[./k->x] FOLLOWED BY {x = y, 1 day} T//a[./k->y]")
    assert joined is not None
    assert crossed is not None
    assert endless is not None
    assert nothing is not None
    assert crossed.unjoined
    assert crossed.candidates > 20 * joined.candidates
    assert endless.grows
    assert nothing.candidates == 0
    assert unknown is None


def test_three_blocks_are_estimated_by_each_of_their_joins() -> None:
    """Every quarter of an hour one of fifty values: within six hours 24 documents, each with the
    value of the first one with a probability of 1/50."""
    text = "S//a[./k->x] FOLLOWED BY {x = y, 6 h} S//a[./k->y] FOLLOWED BY {y = z} S//a[./k->z] WITHIN 6 h"
    with Broker() as broker:
        broker.process(stream(3, 50, False))
        found = priced(broker, text)
    assert found is not None
    assert found.candidates == pytest.approx(96 * (24 / 50) ** 2, rel=0.2)


def test_bytes_are_those_of_the_documents_of_all_blocks_once() -> None:
    with Broker() as broker:
        broker.process(stream(4, 50, False))
        one = priced(broker, "S//a[./k->x]")
        both = priced(broker, "S//a[./k->x] JOIN {x = y, 1 day} S//a[./k->y]")
        none = priced(broker, "S//b[./k->x]")
    size = len("<a><k>v12</k></a>")
    assert one is not None
    assert one.bytes == pytest.approx(96 * size, rel=0.05)
    assert both is not None
    assert both.bytes == pytest.approx(one.bytes)
    assert none is not None
    assert none.bytes == 0


def test_very_many_queries_of_one_form_are_estimated_once_and_told_of_in_few_words() -> None:
    text = ";".join(
        f"q{n}: S//a[./k->x][./k = 'v{n}'] FOLLOWED BY {{{n % 9 + 1} days}} S//a[./k->y]"
        for n in range(300)
    )
    asked = []
    with Broker() as broker:
        broker.process(stream(5, 50, False))

        def find(name: str) -> StreamSeen | None:
            asked.append(name)
            return broker.engine.streams.stream(name, values=20)

        compiled = [compile_query(each) for each in xscl.check([xscl.parse(text)]).queries]
        warnings, count = dear(compiled, find, candidates=10)
        none, _ = dear(compiled, find, candidates=10**9)
    assert asked == ["S", "S"]
    assert (count, len(warnings), none) == (300, 20, [])
    assert {each.code for each in warnings} == {"dear-query"}
    assert "q0 is expected to make" in warnings[0].message


JOINED = "S//a[./k->x] FOLLOWED BY {x = y, 1 day} S//a[./k->y]"


def test_a_service_refuses_dear_queries_if_it_is_set_so(tmp_path: Path) -> None:
    """By what they are expected to cost, what nothing joins, and all combinations of a group; what
    was there before stays, and the error says which, why, and the cure."""
    crossed = "S//a[./k->x] FOLLOWED BY {1 day} S//a[./k->y]"
    with serving(tmp_path) as running:
        running.publish(
            *[{"id": str(n), "xml": "<a><k>v</k></a>", "timestamp": n * 5.0} for n in range(300)]
        )
        (reply,) = running.http.post("/v1/subscriptions", json={"text": f"old: {crossed}"}).json()
        assert reply["outcome"] == "new"

        def counted() -> bool:
            found = running.http.get("/v1/streams").json()
            return bool(found) and found[0]["documents"] == 300

        until(counted)
    with serving(tmp_path, limits__dear_queries="refuse", limits__candidates=5_000) as running:

        def told(text: str) -> tuple[int, list[str], str]:
            answer = running.http.post("/v1/subscriptions", json={"text": text})
            found = answer.json()
            diagnostics = [] if answer.is_success else found["errors"]
            return (
                answer.status_code,
                [each["code"] for each in diagnostics],
                " ".join(f"{each['message']} {each['hint']}" for each in diagnostics),
            )

        code, codes, said = told(f"q: {JOINED}")
        assert (code, codes) == (422, ["dear-query"])
        assert "q is expected to make" in said
        assert "refused here" in said
        assert "narrow its window" in said
        code, codes, said = told(f"q: {crossed}")
        assert (code, sorted(codes)) == (422, ["dear-query", "no-value-join"])
        assert "a value join is an equality" in said
        group = "S/c FOLLOWED BY (S/d)+ USING SKIP TILL ANY MATCH WITHIN 1 h"
        assert told(f"q: {group}")[:2] == (422, ["exponential"])
        assert [each["id"] for each in running.http.get("/v1/subscriptions").json()] == ["old"]
        # What is registered is not asked again, and what is cheap is taken.
        assert told(f"old: {crossed}; new: S//c[./k->x]")[0] in (200, 201)

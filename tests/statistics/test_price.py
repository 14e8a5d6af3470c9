"""The estimated price of queries compared with the pairs that the broker really finds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import xscl
from broker import Broker, Document
from broker.price import Price, price
from broker.query.prepared import compile_query
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

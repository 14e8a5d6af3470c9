"""Every system of the join benchmarks finds as many matches as a double loop over the documents."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest

from bench.baselines import BASELINES, Sequential
from bench.exact import exact
from bench.generate import (
    constant_queries,
    join_queries,
    rss,
    technical,
    wide,
    wide_queries,
    window_queries,
)
from bench.measure import BROKER, Disagreement, Factory, Verifier, run
from bench.ours import Ours
from bench.workload import Batch, Constant, Documents, Query, Workload, flat, nested
from broker import Broker, Document


@cache
def items() -> Documents:
    return rss(90, channels=4)


@cache
def records() -> Documents:
    return wide(60, leaves=4)


SYSTEMS: dict[str, Factory] = (
    {BROKER: Ours} | BASELINES | {"Sequential": partial(Sequential, sample=10)}
)


def edges() -> list[Query]:
    """Windows that pairs of records with an equal leaf just fill, with and without a filter."""
    documents = records()
    ids, times = documents.ids.tolist(), documents.timestamps.tolist()
    found: dict[Query, None] = {}
    for late in range(len(ids)):
        for early in range(late):
            for leaf in range(4):
                if ids[early][leaf] == ids[late][leaf]:
                    window = times[late] - times[early]
                    chosen = (Constant(leaf, "=", documents.strings[ids[late][leaf]]),)
                    other = (Constant(3 - leaf, "=", documents.strings[ids[late][3 - leaf]]),)
                    joins = ((leaf, leaf),)
                    found[Query(joins, window)] = None
                    found[Query(joins, window, chosen)] = None
                    found[Query(joins, window, (), other)] = None
    return list(found)[:150]


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "edges of windows": lambda: Workload(records(), edges()),
    "feed items": lambda: Workload(items(), join_queries(60)),
    "constants": lambda: Workload(items(), constant_queries(40, items())),
    "windows": lambda: Workload(items(), window_queries(60)),
    "twelve leaves": lambda: Workload(wide(80), wide_queries(60)),
    "two levels": lambda: Workload(
        technical(flat("root", [f"l{n}" for n in range(6)]), 8), join_queries(50, 6, 4)
    ),
    "three levels": lambda: Workload(technical(nested("root", 3, 8), 8), join_queries(50, 8, 4)),
    "one value": lambda: Workload(
        technical(nested("root", 2, 5), 6, domain=1), join_queries(30, 5, 3)
    ),
}


def brute(documents: Documents, query: Query) -> int:
    left, right = (set(documents.satisfying(query.constants(s)).tolist()) for s in (0, 1))
    rows, times = documents.ids.tolist(), documents.timestamps.tolist()
    return sum(
        times[i] < times[j] <= times[i] + query.window
        and all(rows[i][a] == rows[j][b] for a, b in query.joins)
        for i in left
        for j in right
    )


@pytest.fixture(scope="module", params=WORKLOADS)
def workload(request: pytest.FixtureRequest) -> Workload:
    found: Workload = WORKLOADS[request.param]()
    return found


def test_exact_counts_are_those_of_a_double_loop(workload: Workload) -> None:
    counts = exact(workload.documents, list(workload.distinct))
    assert counts == {query: brute(workload.documents, query) for query in workload.distinct}
    assert any(counts.values())


@pytest.mark.parametrize("size", [20, 1_000])
@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_count_exactly(name: str, size: int, workload: Workload) -> None:
    result = run(name, SYSTEMS[name], workload, size, budget=1e9)
    assert result.documents == len(workload.documents)
    Verifier(workload.documents).verify(result, workload)
    if result.sample is None:
        expected = exact(workload.documents, list(workload.distinct))
        assert {q: n for q, n in result.counts.items() if n} == {
            q: n for q, n in expected.items() if n
        }


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_count_exactly_one_document_at_a_time(name: str) -> None:
    workload = Workload(items().head(40), join_queries(12))
    result = run(name, SYSTEMS[name], workload, 1, budget=1e9)
    assert Verifier(workload.documents).verify(result, workload) > 0


def test_the_broker_publishes_as_many_matches_from_xml() -> None:
    """The whole library, from XSCL and XML to matches, against the count."""
    queries = list(dict.fromkeys([*join_queries(25), *constant_queries(8, items())]))
    queries += window_queries(12)
    text = ";\n".join(f"q{i}: {q.text(items().schema)}" for i, q in enumerate(queries))
    broker = Broker()
    broker.subscribe(text)
    found = dict.fromkeys(queries, 0)
    documents = [
        Document(str(n), "S", float(items().timestamps[n] // 1_000_000), items().xml(n))
        for n in range(len(items()))
    ]
    for start in range(0, len(documents), 20):
        for match in broker.process(documents[start : start + 20]):
            found[queries[int(match.query[1:])]] += 1
    assert found == exact(items(), queries)
    assert sum(found.values()) > 100


class Forgetful:
    """Loses the matches of one batch."""

    def __init__(self, workload: Workload) -> None:
        self._inner = BASELINES["hash joins by hand"](workload)
        self._lost = 2

    def add(self, batch: Batch) -> None:
        self._lost -= 1
        if self._lost:
            self._inner.add(batch)

    def counts(self) -> dict[Query, int]:
        return self._inner.counts()


def test_a_wrong_count_is_reported_with_its_query() -> None:
    workload = WORKLOADS["feed items"]()
    result = run("forgetful", Forgetful, workload, 30, budget=1e9)
    with pytest.raises(
        Disagreement, match=r"forgetful: [\d,]+ matches, not [\d,]+, .* FOLLOWED BY"
    ):
        Verifier(workload.documents).verify(result, workload)


def test_a_stopped_run_is_held_against_what_it_was_given() -> None:
    workload = WORKLOADS["feed items"]()
    result = run("stopped", BASELINES["hash joins by hand"], workload, 20, budget=-1.0)
    assert result.documents == 20
    assert not result.complete(workload)
    found = Verifier(workload.documents).verify(result, workload)
    expected = exact(workload.documents.head(20), list(workload.distinct))
    assert found == sum(n * workload.distinct[q] for q, n in expected.items())

"""The generators of the benchmarks have the promised properties, and their witness columns equal
those of stage 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import xscl
from bench.generate import (
    AUTHOR,
    CHANNEL,
    CHANNELS,
    ITEM,
    LINK,
    TITLE,
    constant_queries,
    join_queries,
    rss,
    technical,
    wide,
    wide_queries,
    window_queries,
)
from bench.shapes import fit
from bench.workload import Documents, Workload, flat, nested
from broker.query.catalog import Catalog
from broker.query.prepared import compile_query
from xscl.stage1.document import parse_document
from xscl.stage1.matcher import Matcher


def test_five_leaves_give_1545_canonical_queries() -> None:
    """The sum over k of (5 choose k) squared, times k factorial; all of them get drawn."""
    assert len(set(join_queries(100_000))) == 1_545


def test_queries_join_distinct_leaves_and_are_skewed_to_few_joins() -> None:
    queries = join_queries(2_000, leaves=6, most=4, skew=1.0)
    for query in queries:
        assert len(set(query.leaves(0))) == len(set(query.leaves(1))) == len(query.joins) <= 4
    sizes = [sum(len(q.joins) == k for q in queries) for k in (1, 2, 3, 4)]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) > 0


def test_generators_are_deterministic() -> None:
    makers: list[Callable[[], Documents]] = [
        lambda: rss(300),
        lambda: wide(300),
        lambda: technical(ITEM, 20),
    ]
    for make in makers:
        one, other = make(), make()
        assert one.strings == other.strings
        assert (one.ids == other.ids).all()
        assert (one.timestamps == other.timestamps).all()
    assert join_queries(200) == join_queries(200)
    assert constant_queries(50, rss(300)) == constant_queries(50, rss(300))


def test_feed_items_have_the_skew_they_promise() -> None:
    items = rss(20_000)
    used = [np.unique(column, return_counts=True)[1] for column in items.ids.T]
    assert len(used[CHANNEL]) == CHANNELS
    assert used[CHANNEL].max() > 0.08 * len(items)
    assert (used[TITLE] == 1).sum() > 0.8 * len(items)
    assert (used[LINK] == 1).sum() > 0.9 * len(items)
    assert used[TITLE].max() > 1 < used[LINK].max()
    assert 25 < len(used[AUTHOR]) < 0.2 * len(items)
    steps = np.diff(items.timestamps)
    assert (steps >= 0).all()
    assert (steps == 0).any()


def test_distinct_queries_are_distinct() -> None:
    items = rss(500)
    for queries in (constant_queries(400, items), window_queries(2_000), wide_queries(2_000)):
        assert len(set(queries)) == len(queries)
    assert all(items.satisfying(q.left).size for q in constant_queries(50, items))


def test_a_pair_joins_within_itself_only() -> None:
    pairs = technical(flat("root", ["a", "b"]), 10)
    owners = pairs.ids // 2
    assert (owners == np.repeat(np.arange(10), 2)[:, None]).all()


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "feed items": lambda: Workload(rss(60, channels=5), join_queries(100)),
    "constants": lambda: Workload(rss(60, channels=5), constant_queries(60, rss(60, channels=5))),
    "twelve leaves": lambda: Workload(wide(40), wide_queries(60)),
    "three levels": lambda: Workload(technical(nested("root", 3, 8), 10), join_queries(80, 8, 4)),
}


@pytest.mark.parametrize("size", [0, 2_000])
@pytest.mark.parametrize("name", WORKLOADS)
def test_witness_columns_are_those_of_stage_1(name: str, size: int) -> None:
    """The same documents as XML through the matcher, under the same queries as XSCL."""
    workload = WORKLOADS[name]()
    documents, catalog, mine = workload.documents, Catalog(), {}
    for number, query in enumerate(workload.distinct):
        (resolved,) = xscl.check([xscl.parse(query.text(documents.schema))]).queries
        ready = compile_query(resolved)
        catalog.add(ready, number, 0)
        definitions = ready.shape.definitions(ready.literals)
        for (block, _), definition in zip(ready.shape.template.nodes, definitions, strict=True):
            tag = documents.schema.names.index(definition.steps[-1].test.name)
            mine[catalog.variables[definition.text()]] = workload.variable(query, block, tag)
    matcher = Matcher(catalog.edges.values())
    expected = []
    for number in range(len(documents)):
        xml = documents.xml(number, size)
        assert len(xml) >= size
        witness = matcher.match(parse_document(xml.encode()), ("S",))
        for var1, var2, node1, node2, value in witness:
            expected.append((number, mine[var1], mine[var2], node1, node2, value))
    found = []
    for batch in workload.batches(7):
        edges = (batch.var1, batch.var2, batch.node1, batch.node2)
        rows = [c.tolist() for c in (batch.doc, *edges, batch.value)]
        found += list(zip(*rows, strict=True))
        assert set(batch.doc.tolist()) <= set(
            range(batch.first, batch.first + len(batch.timestamps))
        )
    assert sorted(found) == sorted(expected)
    assert expected


@pytest.mark.parametrize("name", WORKLOADS)
def test_shapes_are_as_many_as_templates(name: str) -> None:
    """Two queries share a shape exactly if they share one of xscl's templates."""
    workload = WORKLOADS[name]()
    pairs = set()
    for query in workload.distinct:
        (resolved,) = xscl.check([xscl.parse(query.text(workload.documents.schema))]).queries
        pairs.add((fit(workload, query).shape, compile_query(resolved).shape.template))
    assert len(pairs) == len({shape for shape, _ in pairs}) == len({t for _, t in pairs})


def test_batches_hold_each_document_once() -> None:
    workload = WORKLOADS["feed items"]()
    for size in (1, 7, 60, 1_000):
        batches = list(workload.batches(size))
        assert [b.first for b in batches] == list(range(0, 60, size))
        times = np.concatenate([b.timestamps for b in batches])
        assert (times == workload.documents.timestamps).all()

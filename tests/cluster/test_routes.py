"""Where documents are sent, and who owns a match, beside the same said plainly."""

from __future__ import annotations

from itertools import product
from math import isqrt
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from broker.cluster.router import Router
from broker.cluster.routes import (
    Grid,
    Part,
    Route,
    shard_of_document,
    shard_of_hot,
    shard_of_value,
    side_of,
)

A, B, C = 1, 2, 3
"""Variables, and the edges to them."""
GRID = Route((Part(0, "row", A, (A,)), Part(1, "cell", B, (B, C), C), Part(2, "column", C, (C,))))
HOT = Route((Part(0, "value", A, (A,), hot="row"), Part(1, "value", B, (B,), hot="column")))
THREE = Route((*HOT.parts, Part(2, "value", C, (C,))))
PLAIN = Route((Part(0, "document", A, (A,)), Part(1, "every", B, (B,))))


def table(documents: list[dict[int, set[int]]]) -> pa.Table:
    """Witness rows of documents, given by the values of each variable."""
    rows = [
        (doc, variable, value)
        for doc, own in enumerate(documents)
        for variable in sorted(own)
        for value in sorted(own[variable])
    ]
    doc, var2, value = zip(*rows, strict=True)
    columns = (np.array(doc), np.zeros(len(doc), np.int32), np.array(var2, np.int32))
    names = ("doc", "var1", "var2", "value")
    return pa.table([*columns, np.array(value, np.uint64)], names)


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 7, 9, 30])
@pytest.mark.parametrize("route", [GRID, HOT, THREE, PLAIN], ids=["grid", "hot", "three", "plain"])
def test_the_documents_of_a_match_meet_where_it_is_owned(route: Route, shards: int) -> None:
    r = Random(shards)
    values = [r.getrandbits(64) for _ in range(6)]
    hot = dict(zip(values, (2, 3)[: isqrt(shards) - 1], strict=False))
    documents = [
        {variable: set(r.sample(values, r.randint(1, 2))) for variable in (A, B, C)}
        for _ in range(12)
    ]
    rows = table(documents)
    sent: list[set[tuple[int, int]]] = []
    for places in Router([route], shards, hot).places(rows):
        taken = rows.take(pa.array(places))
        edges = (taken.column(name).to_pylist() for name in ("doc", "var2"))
        sent.append(set(zip(*edges, strict=True)))
    for docs in product(range(len(documents)), repeat=len(route.parts)):
        for owner in owners(route, [documents[doc] for doc in docs], docs, shards, hot):
            for part, doc in zip(route.parts, docs, strict=True):
                assert {(doc, edge) for edge in part.edges} <= sent[owner]


def owners(
    route: Route,
    own: list[dict[int, set[int]]],
    docs: tuple[int, ...],
    shards: int,
    hot: dict[int, int],
) -> set[int]:
    """The shards in which a match of documents may have to be made, one for each value, or pair of
    values, that they have in common."""
    if route == PLAIN:
        return {shard_of_document(docs[0], shards)}
    if route == GRID:
        rows, columns = own[0][A] & own[1][B], own[1][C] & own[2][C]
        return {Grid.of(shards).cell(a, b) for a in rows for b in columns}
    common = set.intersection(*(own[n][v] for n, v in enumerate((A, B, C)[: len(own)])))
    return {
        shard_of_hot(value, hot[value], docs[0], docs[1], shards)
        if value in hot
        else shard_of_value(value, shards)
        for value in common
    }


def test_a_hot_value_is_stored_in_rows_and_columns_only() -> None:
    value = 1 << 63
    rows = table([{A: {value}, B: {value}} for _ in range(1_000)])
    sizes = [len(places) for places in Router([HOT], 100, {value: 8}).places(rows)]
    # Of 8 rows and 8 columns a document is in one each.
    assert sum(sizes) == 16 * 1_000
    assert max(sizes) < 400
    assert sum(size > 0 for size in sizes) == 64
    assert max(map(len, Router([HOT], 100, {}).places(rows))) == 2_000


def test_the_square_of_a_value_grows_with_its_documents() -> None:
    share = 1_000
    sides = [side_of(documents, share, 100) for documents in (500, 501, 1_001, 2_001, 10_000)]
    assert sides == [1, 2, 4, 8, 8]
    assert side_of(10_000, share, 3) == 1

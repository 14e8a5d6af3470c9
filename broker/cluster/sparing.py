"""The matches of shards without those that are beyond a limit or of a pair that is set aside."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from broker.cluster.shard import MATCHES
from broker.join.budget import Budget
from broker.query.catalog import Catalog
from broker.shared_match import ID
from broker.subscriptions.limits import Limits


def left(found: pa.Table, catalog: Catalog, limits: Limits, budget: Budget) -> pa.Table:
    """The rest of a table of schema MATCHES."""
    cuts = {
        id: limits.cuts[each.number]
        for id, each in catalog.subscriptions.items()
        if each.number in limits.cuts
    }
    kept = [
        row
        for each in found.to_pylist()
        if (catalog.subscriptions[each["queries"][0]].canonical.number, each["doc"])
        not in budget.exceeded
        and (row := _for_others(each, cuts)) is not None
    ]
    return pa.Table.from_pylist(kept, schema=MATCHES)


def _for_others(row: dict[str, Any], cuts: dict[str, int]) -> dict[str, Any] | None:
    """A match for those of its subscribers who still see its last document."""
    queries: list[str] = row["queries"]
    places = [i for i, q in enumerate(queries) if q not in cuts or row["doc"] < cuts[q]]
    if len(places) == len(queries):
        return row
    if not places:
        return None
    return {
        **row,
        "queries": [queries[i] for i in places],
        "ids": b"".join([row["ids"][i * ID : (i + 1) * ID] for i in places]),
        "lines": [row["lines"][i] for i in places] if row["lines"] else [],
    }

"""The matches of shards without those that are beyond a limit or of a pair that is set aside."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from broker.cluster.answers import MATCHES
from broker.join.budget import Budget
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.shared_match import ID
from broker.subscriptions.limits import Limits


def left(
    found: pa.Table, catalog: Catalog, limits: Limits, budget: Budget, now: int | None
) -> pa.Table:
    """The rest of a table of schema MATCHES. Subscriptions that exceed their limit with it are
    stopped, and the matches of the others are counted."""
    if budget.exceeded or budget.too_long_for:
        pairs = zip(found.column("queries"), found.column("doc").to_pylist(), strict=True)
        kept = [
            _is_within(budget, catalog.subscriptions[queries[0].as_py()], doc)
            for queries, doc in pairs
        ]
        found = found.filter(pa.array(kept, pa.bool_()))
    if limits:
        for id, count in _counts(found):
            subscription = catalog.subscriptions[id]
            if count > limits.left(subscription.number, now):
                limits.take(subscription, _documents(found, id), now)
    if limits.cuts:
        cuts = {
            id: limits.cuts[each.number]
            for id, each in catalog.subscriptions.items()
            if each.number in limits.cuts
        }
        rows = [
            row
            for each in found.to_pylist()
            if (row := _for_others(each, limits.completing((each["doc"],)), cuts)) is not None
        ]
        found = pa.Table.from_pylist(rows, schema=MATCHES)
    if limits:
        for id, count in _counts(found):
            limits.count_matches(catalog.subscriptions[id].number, count)
    return found


def _is_within(budget: Budget, first: Subscription, doc: int) -> bool:
    """Whether a match is not set aside that is completed by a document, given the first of its
    subscriptions."""
    pair = (first.canonical.number, budget.completing((doc,)))
    return pair not in budget.exceeded and first.number not in budget.too_long_for.get(pair, ())


def _counts(found: pa.Table) -> list[tuple[str, int]]:
    """How many of the matches each subscription has."""
    counts = pc.value_counts(pc.list_flatten(found.column("queries").combine_chunks()))
    return [(each["values"], each["counts"]) for each in counts.to_pylist()]


def _documents(found: pa.Table, id: str) -> list[int]:
    """The documents that complete the matches of a subscription, in order."""
    queries = found.column("queries").combine_chunks()
    of = pc.list_parent_indices(queries).filter(pc.equal(pc.list_flatten(queries), id))
    return sorted(found.column("doc").take(of).to_pylist())


def _for_others(row: dict[str, Any], doc: int, cuts: dict[str, int]) -> dict[str, Any] | None:
    """A match for those of its subscribers who still see the document that completes it."""
    queries: list[str] = row["queries"]
    places = [i for i, q in enumerate(queries) if q not in cuts or doc < cuts[q]]
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

"""History for a new subscription: what it would have matched among the documents that are stored.

The stored documents pass once more through stage 1, for the new queries' patterns only, and through
an engine of their own that holds nothing but these queries. So history is matched by the code that
matches everything, and other subscriptions never notice. The witnesses are also put into the match
relations, so that what arrives later finds its partners in history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from broker.documents.admitted import Admitted, witness_rows
from broker.documents.witnessing import witness
from broker.engine import Engine
from broker.model import UNBOUNDED, Limit, Match
from broker.query.prepared import Compiled
from broker.state.relations import MatchRelations, StoredDocument
from broker.state.store import Store
from xscl.errors import Diagnostic, XsclError
from xscl.stage1.matcher import Matcher

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Backfilled:
    """`documents` of history were looked at; `matches` are in the outbox, if there is one, unless
    this was a dry run. `suspended` are the queries that went over their limit."""

    documents: int
    matches: list[Match]
    suspended: tuple[str, ...] = ()


def backfill(
    engine: Engine,
    compiled: Sequence[Compiled],
    since: int,
    now: int | None = None,
    limit: Limit | None = None,
) -> Backfilled:
    """Register queries over history as well: documents that ended at `since` (microseconds) or
    later, and all that arrived after the first of them. `limit` is for each of them in history, and
    by default that for all.

    Queries that are registered already go on as they are. What a query with PUBLISH matches in
    history is told, but is no document for those who read its stream. One that matches more than
    its limit is suspended, from the document of history on at which that happens. Raises
    `XsclError`, registering none, also for a query in whose FROM another query stands.
    """
    fresh = engine.registry.fresh(compiled)
    _refuse_nested(fresh)
    first = engine.relations.first_since(since)
    if not fresh or first is None:
        engine.subscribe(compiled, now)
        return Backfilled(0, [])
    past = _Past(fresh, limit or engine.limits.default, first)
    try:
        with engine.store.transaction():
            engine.registry.subscribe(compiled, first, now)
            own = [engine.catalog.subscriptions[query.id].canonical for query in fresh]
            edges = {e: engine.catalog.edges[e] for canonical in own for e in canonical.edges}
            matcher = Matcher(edges.values())
            pairs = [(edge.var1, edge.var2) for edge in edges.values()]
            engine.relations.delete_edges(pairs, first)
            for documents in engine.relations.history(first, _BATCH):
                engine.relations.insert_rows(_rows(matcher, documents))
                past.see(documents)
            engine.post(past.in_order())
            for gone in past.suspended:
                engine.registry.halt([gone.id], "suspended", gone.reason, gone.first_doc, now)
    finally:
        # Also where all went well: its posting lists do not know of the new witnesses.
        engine.joiner.reset()
    return past.result()


def dry_run(
    engine: Engine, compiled: Sequence[Compiled], since: int, most: int | None = None
) -> Backfilled:
    """What queries would match in history from `since` (microseconds) on. Registers nothing.

    A query that matches more than `most` times is left out from the document on at which it does,
    and told as suspended. The documents are read through a connection of their own, as they are
    now; so this may run while the engine is used in another thread. Raises `XsclError` as
    `backfill` does.
    """
    _refuse_nested(compiled)
    with engine.store.snapshot() as statements:
        relations = MatchRelations(statements)
        first = relations.first_since(since)
        if first is None:
            return Backfilled(0, [])
        limit = engine.limits.default if most is None else Limit.of(most, UNBOUNDED)
        past = _Past(compiled, limit, first)
        for documents in relations.history(first, _BATCH):
            past.see(documents)
    return past.result()


@dataclass(frozen=True, slots=True)
class _Stopped:
    id: str
    reason: str
    first_doc: int


class _Past:
    """An engine of its own that holds nothing but some queries, and what they match in history,
    from document number `first` on, as what arrives later will match with it."""

    def __init__(self, queries: Sequence[Compiled], limit: Limit | None, first: int) -> None:
        self.engine = Engine(Store(None), UNBOUNDED, limit=limit)
        self.engine.registry.subscribe(queries, first)
        self.documents = 0
        self.matches: list[Match] = []

    def see(self, documents: Sequence[StoredDocument]) -> None:
        """Documents of history, in the order of their arrival."""
        self.documents += len(documents)
        rows = _rows(self.engine.matcher, documents)
        self.matches += self.engine.history(documents, rows)

    def in_order(self) -> list[Match]:
        self.matches.sort(key=lambda match: (match.end_us, match.start_us))
        return self.matches

    @property
    def suspended(self) -> list[_Stopped]:
        """Those that went over the limit."""
        return [
            _Stopped(each.id, each.reason or "", each.gaps[-1].first_doc)
            for each in self.engine.registered()
            if each.status == "suspended"
        ]

    def result(self) -> Backfilled:
        stopped = tuple([each.id for each in self.suspended])
        return Backfilled(self.documents, self.in_order(), stopped)


def _refuse_nested(queries: Sequence[Compiled]) -> None:
    problems = [
        Diagnostic(
            "no-history",
            f"{query.id} has a query in its FROM, for which there is no history",
            query.resolved.query.span,
            "publish the inner query as one of its own, and read its stream",
        )
        for query in queries
        if query.nested
    ]
    if problems:
        raise XsclError(problems)


def _rows(matcher: Matcher, documents: Sequence[StoredDocument]) -> pa.Table:
    """The witness rows of stored documents, as a matcher witnesses them."""
    found = witness(matcher, [(d.xml, d.streams, None) for d in documents])
    return witness_rows([*map(Admitted, range(len(documents)), documents)], found.table())

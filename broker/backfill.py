"""History for a new subscription: what it would have matched among the documents that are stored.

The stored documents pass once more through stage 1, for the new queries' patterns only, and through
an engine of their own that holds nothing but these queries. So history is matched by the code that
matches everything, and other subscriptions never notice. The witnesses are also put into the match
relations, so that what arrives later finds its partners in history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from broker.engine import Engine
from broker.model import Match
from broker.rows import Admitted, witness_rows
from broker.shapes import Compiled
from broker.sql import UNBOUNDED
from broker.store import Store
from broker.wire import Arrival, rows_from_witnesses, witness_document
from xscl.errors import Diagnostic, XsclError
from xscl.stage1 import Matcher

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Backfilled:
    """`documents` of history were looked at; `matches` are in the outbox, if there is one."""

    documents: int
    matches: list[Match]


def backfill(engine: Engine, compiled: Sequence[Compiled], since: int) -> Backfilled:
    """Register queries over history as well: documents that ended at `since` (microseconds) or
    later, and all that arrived after the first of them.

    Queries that are registered already go on as they are. What a query with PUBLISH matches in
    history is told, but is no document for those who read its stream. Raises `XsclError`,
    registering none, also for a query in whose FROM another query stands.
    """
    known = engine.catalog.subscriptions
    fresh = [q for q in compiled if q.id not in known or known[q.id].text != q.text]
    _refuse_nested(fresh)
    first = _first(engine, since)
    if not fresh or first is None:
        engine.subscribe(compiled)
        return Backfilled(0, [])
    matches: list[Match] = []
    documents = 0
    try:
        with engine.store.transaction():
            engine.registry.subscribe(compiled, first)
            own = [known[query.id].canonical for query in fresh]
            edges = {e: engine.catalog.edges[e] for canonical in own for e in canonical.edges}
            matcher = Matcher(edges.values())
            apart = Engine(Store(None), UNBOUNDED)
            apart.subscribe(fresh)
            pairs = [(edge.var1, edge.var2) for edge in edges.values()]
            engine.store.run(
                "DELETE FROM rl USING (SELECT unnest(?::INTEGER[]) AS a, unnest(?::INTEGER[]) AS b)"
                " WHERE rl.doc >= ? AND var1 = a AND var2 = b",
                [[a for a, _ in pairs], [b for _, b in pairs], first],
            )
            for run in _stored(engine, first):
                documents += len(run)
                engine.store.insert("rl", witness_rows(run, _witnessed(matcher, run)))
                matches += apart.history(run, _witnessed(apart.matcher, run))
            matches.sort(key=lambda match: (match.end, match.start))
            engine.post(matches)
    finally:
        # Also where all went well: its posting lists do not know of the new witnesses.
        engine.joiner.reset()
    return Backfilled(documents, matches)


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


def _first(engine: Engine, since: int) -> int | None:
    rows: list[tuple[int | None]] = engine.store.rows(
        'SELECT min(doc) FROM documents WHERE "end" >= ? AND xml IS NOT NULL', [since]
    )
    return rows[0][0]


def _stored(engine: Engine, first: int) -> Iterator[list[Admitted]]:
    """The stored documents in the order of their arrival, some at a time."""
    while True:
        rows = engine.store.rows(
            'SELECT doc, base, source, id, streams, "start", "end", dated, xml FROM documents'
            " WHERE doc >= ? AND xml IS NOT NULL ORDER BY doc LIMIT ?",
            [first, _BATCH],
        )
        if not rows:
            return
        first = rows[-1][0] + 1
        yield [
            Admitted(
                position,
                doc,
                base,
                start,
                end,
                Arrival(source, id, tuple(streams), end, dated, None, False, xml, None, ""),
                False,
            )
            for position, (doc, base, source, id, streams, start, end, dated, xml) in enumerate(
                rows
            )
        ]


def _witnessed(matcher: Matcher, run: Sequence[Admitted]) -> pa.Table:
    return rows_from_witnesses(
        [witness_document(matcher, a.arrival.xml, a.arrival.streams)[0] for a in run]
    )

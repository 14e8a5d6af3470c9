"""History for a new subscription: what it would have matched among the documents that are stored.

The stored documents pass once more through stage 1, for the new queries' patterns only, and through
an engine of their own that holds nothing but these queries. So history is matched by the code that
matches everything, and other subscriptions never notice. The witnesses are also put into the match
relations, so that what arrives later finds its partners in history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from broker.documents.admitted import Admitted, witness_rows
from broker.documents.arrow import Arrival, rows_from_witnesses, witness_document
from broker.engine import Engine
from broker.model import UNBOUNDED, Limit, Match
from broker.query.prepared import Compiled
from broker.state.store import Store
from xscl.errors import Diagnostic, XsclError
from xscl.stage1.matcher import Matcher

_BATCH = 500

if TYPE_CHECKING:
    from broker.state.store import Connection


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
    first = _first(engine.store.connection, since)
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
            engine.store.run(
                "DELETE FROM rl USING (SELECT unnest(?::INTEGER[]) AS a, unnest(?::INTEGER[]) AS b)"
                " WHERE rl.doc >= ? AND var1 = a AND var2 = b",
                [[a for a, _ in pairs], [b for _, b in pairs], first],
            )
            for run in _stored(engine.store.connection, first):
                engine.store.insert("rl", witness_rows(run, _witnessed(matcher, run)))
                past.see(run)
            engine.post(past.in_order())
            for gone in past.suspended:
                engine.registry.halt(gone.id, "suspended", gone.reason, gone.first_doc, now)
    finally:
        # Also where all went well: its posting lists do not know of the new witnesses.
        engine.joiner.reset()
    return past.told()


def dry_run(
    engine: Engine, compiled: Sequence[Compiled], since: int, most: int | None = None
) -> Backfilled:
    """What queries would match in history from `since` (microseconds) on. Registers nothing.

    A query that matches more than `most` times is left out from the document on at which it does,
    and told as suspended. The documents are read through a connection of their own, as they are now;
    so this may run while the engine is used in another thread. Raises `XsclError` as `backfill` does.
    """
    _refuse_nested(compiled)
    with engine.store.snapshot() as connection:
        first = _first(connection, since)
        if first is None:
            return Backfilled(0, [])
        limit = engine.limits.default if most is None else Limit.of(most, UNBOUNDED)
        past = _Past(compiled, limit, first)
        for run in _stored(connection, first):
            past.see(run)
    return past.told()


@dataclass(frozen=True, slots=True)
class _Stopped:
    id: str
    reason: str
    first_doc: int


class _Past:
    """An engine of its own that holds nothing but some queries, and what they match in history, from
    document number `first` on, as what arrives later will match with it."""

    def __init__(self, queries: Sequence[Compiled], limit: Limit | None, first: int) -> None:
        self.engine = Engine(Store(None), UNBOUNDED, limit=limit)
        self.engine.registry.subscribe(queries, first)
        self.documents = 0
        self.matches: list[Match] = []

    def see(self, run: list[Admitted]) -> None:
        """Documents of history, in the order of their arrival."""
        self.documents += len(run)
        self.matches += self.engine.history(run, _witnessed(self.engine.matcher, run))

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

    def told(self) -> Backfilled:
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


def _first(connection: Connection, since: int) -> int | None:
    (found,) = connection.execute(
        'SELECT min(doc) FROM documents WHERE "end" >= ? AND xml IS NOT NULL', [since]
    ).fetchall()
    return None if found[0] is None else int(found[0])


def _stored(connection: Connection, first: int) -> Iterator[list[Admitted]]:
    """The stored documents in the order of their arrival, some at a time."""
    while True:
        rows = connection.execute(
            'SELECT doc, base, source, id, streams, "start", "end", dated, xml, coalesce(version, 0)'
            " FROM documents LEFT JOIN versions USING (doc) WHERE doc >= ? AND xml IS NOT NULL ORDER BY doc LIMIT ?",
            [first, _BATCH],
        ).fetchall()
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
                version,
            )
            for position, (doc, base, source, id, streams, start, end, dated, xml, version) in (
                enumerate(rows)
            )
        ]


def _witnessed(matcher: Matcher, run: Sequence[Admitted]) -> pa.Table:
    return rows_from_witnesses(
        [witness_document(matcher, a.arrival.xml, a.arrival.streams)[0] for a in run]
    )

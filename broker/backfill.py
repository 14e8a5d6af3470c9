"""Backfill: the matches of a new subscription among the documents that are stored already.

The stored documents pass once more through stage 1, for the new queries' patterns only, and through
a temporary engine that holds these queries alone. So history is matched by the same code as all
else, and other subscriptions are not affected. The witnesses are also added to the match relations,
so that documents that arrive later join with history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from broker.documents.admitted import Admitted, witness_rows
from broker.documents.dead_letters import as_row
from broker.documents.witnessing import witness
from broker.engine import Engine
from broker.join.work import Work
from broker.model import UNBOUNDED, Limit, Match
from broker.query.patterns import TAP
from broker.query.prepared import Compiled
from broker.shared_match import SharedMatch, each_match
from broker.standing.why import Question
from broker.state.relations import MatchRelations
from broker.state.store import Store
from broker.state.stored_documents import StoredDocument
from feeds.rows import DocumentRow
from xscl.errors import Diagnostic, XsclError
from xscl.stage1.matcher import Matcher

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Backfilled:
    """`documents` is how many stored documents were searched; `matches` are in the outbox, if there
    is one, unless this was a dry run. `suspended` are the queries that exceeded their limit."""

    documents: int
    matches: list[Match]
    suspended: tuple[str, ...] = ()


def backfill(
    engine: Engine,
    compiled: Sequence[Compiled],
    since: int,
    now: int | None = None,
    limit: Limit | None = None,
    on_documents: Callable[[int, int], object] = lambda count, total: None,
) -> Backfilled:
    """Register queries over history as well: documents that ended at `since` (microseconds) or
    later, and all that arrived after the first of them. `limit` is the limit of each query within
    history, by default the common one. `on_documents` is called with how many more documents were
    looked at, and of how many.

    Queries that are registered already go on as they are. Matches in history of a query with
    PUBLISH are returned, but do not become documents of its stream. A query that exceeds its
    limit, or is set aside too often, is suspended from that document of history on. Raises
    `XsclError`, registering none, also for a query with another query in its FROM; and Stopped if
    another thread stops the search.
    """
    fresh = engine.registry.fresh(compiled)
    _refuse_nested(fresh)
    first = engine.relations.first_since(since)
    if not fresh or first is None:
        engine.subscribe(compiled, now)
        return Backfilled(0, [])
    limit = limit or engine.limits.default
    past = _Past(engine, fresh, limit, first, engine.relations, engine.work)
    try:
        with engine.store.transaction():
            late = engine.standings.tables.late(first)
            past.known_late = {doc: seen for doc, (_, seen) in late.items()}
            engine.registry.subscribe(compiled, first, now)
            own = [engine.catalog.subscriptions[query.id].canonical for query in fresh]
            edges = {e: engine.catalog.edges[e] for canonical in own for e in canonical.edges}
            matcher = Matcher(edges.values())
            pairs = [(edge.var1, edge.var2) for edge in edges.values()]
            engine.relations.delete_edges(pairs, first)
            total = engine.relations.stored_since(first)
            for documents in engine.relations.history(first, _BATCH):
                engine.relations.insert_rows(_rows(matcher, documents))
                past.see(documents)
                on_documents(len(documents), total)
            past.end()
            if past.engine.standings:
                engine.standings.adopt(past.engine.standings, first, past.settled)
            engine.post(past.in_order())
            engine.letter_table.add_set_aside(past.letters(), now)
            for gone in past.suspended:
                engine.registry.halt([gone.id], "suspended", gone.reason, gone.first_doc, now)
    finally:
        # After a success too: the posting lists lack the new witnesses.
        engine.joiner.reset()
    return past.result()


def dry_run(
    engine: Engine,
    compiled: Sequence[Compiled],
    since: int,
    most: int | None = None,
    work: Work | None = None,
) -> Backfilled:
    """The matches that queries would have in history from `since` (microseconds) on. Registers
    nothing.

    A query with more than `most` matches is stopped at the document that exceeds this, and returned
    in `suspended`. The documents are read from a snapshot, so this may run while another thread
    uses the engine; a third one may stop it by `work`. Raises `XsclError` and Stopped as `backfill`
    does.
    """
    _refuse_nested(compiled)
    with engine.store.snapshot() as statements:
        relations = MatchRelations(statements)
        first = relations.first_since(since)
        if first is None:
            return Backfilled(0, [])
        limit = engine.limits.default if most is None else Limit.of(most, UNBOUNDED)
        past = _Past(engine, compiled, limit, first, relations, work or Work())
        try:
            for documents in relations.history(first, _BATCH):
                past.see(documents)
            past.end()
            return past.result()
        finally:
            past.close()


@contextmanager
def rehearsed(
    engine: Engine, query: Compiled, rest: Callable[[], object], work: Work, first: int = 0
) -> Iterator[list[Question]]:
    """The question what would become of the stored documents, from number `first` on, of an event
    pattern that need not be registered, from a snapshot; `rest` is called now and then. Raises
    `XsclError` and Stopped as `backfill` does, and ValueError if the pattern would be suspended."""
    _refuse_nested([query])
    with engine.store.snapshot() as statements:
        relations = MatchRelations(statements)
        first = max(first, relations.first_since(-UNBOUNDED) or 0)
        past = _Past(engine, [query], None, first, relations, work)
        for documents in relations.history(first, _BATCH):
            past.see(documents)
            rest()
        past.end()
    for each in past.suspended:
        raise ValueError(f"{each.id} would be suspended: {each.reason}")
    with past.engine.why(query.id) as asked:
        yield asked


@dataclass(frozen=True, slots=True)
class _Stopped:
    id: str
    reason: str
    first_doc: int


class _Past:
    """A temporary engine that holds only the new queries, and their matches in history, from
    document number `first` on. The documents keep their numbers.

    `known_late` are documents that were older than others when they came, with the highest time
    then; of others it follows from the documents before. `settled` is the highest time up to which
    event patterns decide.
    """

    def __init__(
        self,
        engine: Engine,
        queries: Sequence[Compiled],
        limit: Limit | None,
        first: int,
        relations: MatchRelations,
        work: Work,
    ) -> None:
        self.engine = Engine(
            Store(None),
            UNBOUNDED,
            limit=limit,
            budgets=engine.budget.budgets,
            pattern_lateness=engine.standings.lateness,
            work=work,
        )
        self.engine.registry.subscribe(queries, first)
        self.documents = 0
        self.known_late: Mapping[int, int] = {}
        self.settled = engine.decides_by()
        before = relations.highest_before(first)
        self._highest = -UNBOUNDED if before is None else min(before, self.settled)
        self.engine.watermark.highest = self._highest
        self._last = first
        self._found: list[SharedMatch] = []

    def see(self, documents: Sequence[StoredDocument]) -> None:
        """Search documents of history, given in the order of their arrival."""
        self.documents += len(documents)
        self._last = documents[-1].doc
        with self.engine.searching():
            rows = _rows(self.engine.matcher, documents)
        self._found += self.engine.history(documents, rows, self._seen(documents))

    def _seen(self, documents: Sequence[StoredDocument]) -> dict[int, int]:
        """The highest time when each document came that is not made of results."""
        seen: dict[int, int] = {}
        for document in documents:
            if document.base == document.doc:
                self._highest = max(self._highest, min(document.end, self.settled))
                seen[document.doc] = self.known_late.get(document.doc, self._highest)
        return seen

    def end(self) -> None:
        """Decide what event patterns have decided by now."""
        if self.engine.standings:
            self._found += self.engine.history_ends(self._last, self.settled)

    def in_order(self) -> list[SharedMatch]:
        self._found.sort(key=lambda match: (match.end_us, match.start_us))
        return self._found

    def letters(self) -> list[tuple[DocumentRow, str]]:
        """The documents at which a query was set aside, with the reasons."""
        return [(as_row(letter), letter.reason) for letter in self.engine.letters()]

    @property
    def suspended(self) -> list[_Stopped]:
        """The queries that exceeded their limit."""
        return [
            _Stopped(each.id, each.reason or "", each.gaps[-1].first_doc)
            for each in self.engine.registered()
            if each.status == "suspended"
        ]

    def close(self) -> None:
        """Let go of all that is held of history: an engine is full of cycles, so the collector
        would find that only when it looks at all objects."""
        self.engine.joiner.reset()
        self.engine.contents.clear()
        self.engine.store.close()

    def result(self) -> Backfilled:
        stopped = tuple([each.id for each in self.suspended])
        return Backfilled(self.documents, each_match(self.in_order()), stopped)


def _refuse_nested(queries: Sequence[Compiled]) -> None:
    problems = [
        Diagnostic(
            "no-history",
            f"{query.id} has a query in its FROM, for which there is no history",
            query.resolved.query.span,
            "publish the inner query as one of its own, and read its stream",
        )
        for query in queries
        if any(not inner.id.startswith(TAP) for inner in query.nested)
    ]
    if problems:
        raise XsclError(problems)


def _rows(matcher: Matcher, documents: Sequence[StoredDocument]) -> pa.Table:
    """The witness rows of stored documents, as a matcher witnesses them."""
    found = witness(matcher, [(d.xml, d.streams, None) for d in documents])
    return witness_rows([*map(Admitted, range(len(documents)), documents)], found.table())

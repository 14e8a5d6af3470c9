"""Asks why queries have matched or not, of an engine and what it has stored.

In: the id of a subscription, or checked queries that need not be registered. Out: for each query of
Part 1 an `Explanation`, for each event pattern a `Why`; behind a query those in its FROM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace

from broker.backfill import rehearsed
from broker.engine import Engine
from broker.errors import NotStored
from broker.join.work import Work
from broker.query.prepared import compile_query, compile_text
from broker.registered import Registered
from broker.standing.why import Question, Why
from broker.state.stored_documents import StoredDocument
from broker.why.asked import Asked
from broker.why.explaining import explain
from broker.why.given import Given, given
from broker.why.given_pattern import given_pattern
from broker.why.history import History, history
from broker.why.model import Budget, Explanation
from broker.why.patterns import tell
from broker.why.telling import plural
from xscl import ast
from xscl.check.patterns import holds_pattern
from xscl.check.program import ResolvedQuery
from xscl.normal.normalize import nested_query

Told = Why | Explanation


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks an engine. What needs the engine itself is done under `lock`; documents are read from a
    snapshot, and `rest` is called after each few hundred. A document is only there if `may_read`
    returns True for one of its streams. A pattern that is not registered is tried as `work`, by
    which another thread may stop it."""

    engine: Engine
    lock: AbstractContextManager[object] = field(default_factory=nullcontext)
    rest: Callable[[], object] = lambda: None
    may_read: Callable[[str], bool] = lambda _: True
    work: Work = field(default_factory=Work)

    def of_subscription(self, id: str, budget: Budget | None = None) -> list[Told]:
        """What became of the stored documents of a subscription. KeyError if there is none of this
        id, ValueError if it is an event pattern that is not active."""
        with ExitStack() as stack:
            with self.lock:
                registered = self.engine.registered_one(id)
                resolved = compile_text(id, registered.text).resolved
                asked = None
                if holds_pattern(resolved.query):
                    asked = stack.enter_context(self.engine.why(id))
            if asked is not None:
                return [*self._told(asked)]
        return [*self._explained(resolved, budget, registered)]

    def of_queries(
        self, queries: Sequence[ResolvedQuery], budget: Budget | None = None
    ) -> list[Told]:
        """What would become of the stored documents of these queries. ValueError if one would be
        suspended among them, and Stopped."""
        found: list[Told] = []
        most = (budget or Budget()).documents
        for query in queries:
            if holds_pattern(query.query):
                with history(self.engine.store) as past:
                    first = past.relations.first_of_newest(most)
                note = f" (only the newest {plural(most, 'document')} were asked)" if first else ""
                compiled = compile_query(query)
                with rehearsed(self.engine, compiled, self.rest, self.work, first) as asked:
                    found += [
                        replace(each, sentence=f"{each.sentence}{note}")
                        for each in self._told(asked)
                    ]
            else:
                found += self._explained(query, budget, None)
        return found

    def between(
        self, query: ResolvedQuery | str, ids: Sequence[str], budget: Budget | None = None
    ) -> Given:
        """What holds between stored documents of these ids for a query, given checked or by its id.
        Raises KeyError, NotStored, and ValueError for an event pattern that is not active."""
        with ExitStack() as stack:
            pattern: Sequence[Question] = ()
            if isinstance(query, str):
                id = query
                with self.lock:
                    query = compile_text(id, self.engine.registered_one(id).text).resolved
                    if holds_pattern(query.query):
                        pattern = stack.enter_context(self.engine.why(id))
            elif holds_pattern(query.query):
                pattern = stack.enter_context(
                    rehearsed(self.engine, compile_query(query), self.rest, self.work)
                )
            past = stack.enter_context(history(self.engine.store, self.rest, self.may_read))
            if pattern:
                streams = {tap.block.stream for tap in pattern[0].plan.taps}
                return given_pattern(
                    pattern[0], [self._named(past, streams, id) for id in ids], past
                )
            asked = Asked(query)
            documents = [self._named(past, asked.streams, id) for id in ids]
            return given(asked, documents, (budget or Budget()).pairs)

    def _named(self, past: History, streams: Set[str], id: str) -> StoredDocument:
        found = [each for each in past.named(id) if any(map(self.may_read, each.streams))]
        if not found:
            raise NotStored(f"no stored document is called {id}")
        # Of several sources, the one whose streams the query reads.
        return next((each for each in found if not streams.isdisjoint(each.streams)), found[0])

    def _told(self, asked: Sequence[Question]) -> Iterator[Why]:
        with history(self.engine.store, self.rest, self.may_read) as past:
            for each in asked:
                yield tell(each, past)

    def _explained(
        self, resolved: ResolvedQuery, budget: Budget | None, registered: Registered | None
    ) -> Iterator[Told]:
        with history(self.engine.store, self.rest, self.may_read) as past:
            yield explain(resolved, past, budget, registered)
            for inner in _nested(resolved):
                yield explain(inner, past, budget)


def _nested(resolved: ResolvedQuery) -> Iterator[ResolvedQuery]:
    """The queries in FROM, at any depth."""
    stack = [resolved.query.pattern]
    while stack:
        pattern = stack.pop()
        match pattern:
            case ast.Join():
                stack += [pattern.right, pattern.left]
            case ast.Nested():
                inner = nested_query(pattern, resolved.namespaces)
                yield inner
                yield from _nested(inner)

"""The subscriptions of a broker: in the store as text, in the catalog compiled, in stage 1 as edges."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

import xscl
from broker.catalog import Catalog, Compiled, Subscription, compile_query
from broker.store import Store
from broker.wire import compile_spec
from xscl.cycles import find_cycles
from xscl.errors import Diagnostic, XsclError
from xscl.stage1 import Matcher


class Registry:
    """Registers and removes queries; what counts from which document on is written down."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.catalog = Catalog()
        self.matcher = Matcher()
        self._spec: bytes | None = None
        self._next_subscription = store.number("next_subscription", 1)
        self._restore()

    def _restore(self) -> None:
        self.catalog.variables = {
            definition: number
            for number, definition in self.store.rows("SELECT id, definition FROM variables")
        }
        for number, id, text, first_doc in self.store.rows(
            "SELECT number, id, text, first_doc FROM subscriptions ORDER BY number"
        ):
            (resolved,) = [q for q in xscl.check([xscl.parse(text, id)]).queries if q.id == id]
            self._register(compile_query(resolved), number, first_doc)

    def subscribe(self, compiled: Sequence[Compiled], first_doc: int) -> list[Subscription]:
        """Register queries from document number `first_doc` on, all or none.

        One that is registered with the same canonical text goes on as it is; a changed text under
        a known id is a new subscription in its place.
        """
        fresh: list[Compiled] = []
        for query in compiled:
            known = self.catalog.subscriptions.get(query.resolved.id)
            if known is not None and known.resolved.text == query.resolved.text:
                continue
            fresh.append(query)
        self._check_streams(fresh)
        with self.store.transaction():
            for query in fresh:
                if query.resolved.id in self.catalog.subscriptions:
                    self._unregister(query.resolved.id)
                number = self._next_subscription
                self._next_subscription += 1
                self._register(query, number, first_doc)
            rows = [self.catalog.subscriptions[q.resolved.id] for q in fresh]
            self.store.insert(
                "subscriptions",
                pa.table(
                    {
                        "number": pa.array([s.number for s in rows], pa.int64()),
                        "id": pa.array([s.id for s in rows], pa.string()),
                        "text": pa.array([s.resolved.text for s in rows], pa.string()),
                        "first_doc": pa.array([s.first_doc for s in rows], pa.int64()),
                    }
                ),
            )
            self._store_variables()
            self.store.set_numbers(next_subscription=self._next_subscription)
        return [self.catalog.subscriptions[q.resolved.id] for q in compiled]

    def _check_streams(self, fresh: Sequence[Compiled]) -> None:
        """One query per stream, and no stream derived from itself, with those there already."""
        problems = []
        renewed = {query.resolved.id for query in fresh}
        for query in fresh:
            stream = query.resolved.query.publish
            owner = self.catalog.published.get(stream or "", query.resolved.id)
            if owner not in renewed:
                span = query.resolved.query.publish_span or query.resolved.query.span
                problems.append(
                    Diagnostic(
                        "duplicate-publish",
                        f"the stream {stream} is published by the subscription {owner} already",
                        span,
                        "choose another name, or unsubscribe that one first",
                    )
                )
        if any(query.resolved.query.publish for query in fresh):
            reads = {
                subscription.resolved.query.publish: subscription.reads
                for subscription in self.catalog.subscriptions.values()
                if subscription.resolved.query.publish and subscription.id not in renewed
            }
            reads |= {q.resolved.query.publish: q.reads for q in fresh if q.resolved.query.publish}
            for cycle in find_cycles({str(stream): read for stream, read in reads.items()}):
                path = " -> ".join([*cycle, cycle[0]])
                span = next(q for q in fresh if q.resolved.query.publish).resolved.query.span
                problems.append(
                    Diagnostic("publish-cycle", f"streams derived from themselves: {path}", span)
                )
        if problems:
            raise XsclError(problems)

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription. KeyError if there is none of that id."""
        if id not in self.catalog.subscriptions:
            raise KeyError(id)
        with self.store.transaction():
            self._unregister(id)

    def _register(self, query: Compiled, number: int, first_doc: int) -> None:
        self.catalog.add(query, number, first_doc)
        self._synchronize()

    def _unregister(self, id: str) -> None:
        subscription = self.catalog.remove(id)
        self._synchronize()
        self.store.run("DELETE FROM subscriptions WHERE number = ?", [subscription.number])

    def spec(self) -> bytes:
        """Stage 1's compiled form for the queries of now; the same object while they stay so."""
        if self._spec is None:
            self._spec = compile_spec(self.catalog.edges.values())
        return self._spec

    def _synchronize(self) -> None:
        """Let stage 1 hold the edges as the catalog has them."""
        changed, self.catalog.changed = self.catalog.changed, set()
        if changed:
            self._spec = None
        for edge_id in changed:
            if edge_id in self.matcher.edges:
                self.matcher.remove(edge_id)
            if edge_id in self.catalog.edges:
                self.matcher.add(self.catalog.edges[edge_id])

    def _store_variables(self) -> None:
        new, self.catalog.new_variables = self.catalog.new_variables, []
        self.store.insert(
            "variables",
            pa.table(
                {
                    "id": pa.array([n for n, _ in new], pa.int32()),
                    "definition": pa.array([d for _, d in new], pa.string()),
                }
            ),
        )

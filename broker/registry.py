"""The subscriptions of a broker: in the store as text, in the catalog compiled, in stage 1 as edges."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from broker.catalog import Catalog, Subscription
from broker.shapes import Compiled, compile_text
from broker.store import Store
from broker.wire import compile_spec
from xscl.cycles import find_cycles
from xscl.errors import Diagnostic, XsclError
from xscl.growth import growing
from xscl.stage1 import Edge, Matcher

_CHUNK = 10_000
"""Rows taken from the store at once, and the number of queries that are many."""
_FEW = 12
"""Rows that are written one by one."""
_MANY = 1_000
"""Changes of edges that may always be put behind a spec."""


class Registry:
    """Registers and removes queries; what counts from which document on is written down."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.catalog = Catalog()
        self.matcher = Matcher()
        self._spec: bytes | None = None
        self._unsent: dict[int, Edge | None] = {}
        """Edges that have changed since the spec was made."""
        self._added = 0
        """How many changes came after the spec's first form."""
        self._last = 0
        """The number of the latest subscription; numbers only say in which order they came."""
        self._restore()

    def _restore(self) -> None:
        (count,) = self.store.rows("SELECT count(*) FROM subscriptions")[0]
        with _staying(count):
            variables = self._chunks("SELECT definition, id FROM variables")
            for chunk in variables:
                self.catalog.variables.update(chunk)
            for chunk in self._chunks(
                "SELECT number, id, text, first_doc FROM subscriptions ORDER BY number"
            ):
                for number, id, text, first_doc in chunk:
                    self.catalog.add(compile_text(id, text), number, first_doc)
                    self._last = number
                self._synchronize()

    def _chunks(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query, some at a time; nothing else may be asked meanwhile."""
        found = self.store.connection.execute(sql)
        while rows := found.fetchmany(_CHUNK):
            yield rows

    def subscribe(self, compiled: Sequence[Compiled], first_doc: int) -> list[Subscription]:
        """Register queries from document number `first_doc` on, all or none.

        One that is registered with the same canonical text goes on as it is; a changed text under
        a known id is a new subscription in its place.
        """
        subscriptions = self.catalog.subscriptions
        fresh: list[Compiled] = []
        for query in compiled:
            known = subscriptions.get(query.id)
            if known is None or known.text != query.text:
                fresh.append(query)
        self._check_streams(fresh)
        with _staying(len(fresh)), self.store.transaction():
            self._withdraw([query.id for query in fresh if query.id in subscriptions])
            for query in fresh:
                self._last += 1
                self.catalog.add(query, self._last, first_doc)
            self._synchronize()
            self._write([subscriptions[query.id] for query in fresh])
        return [subscriptions[query.id] for query in compiled]

    def _write(self, rows: Sequence[Subscription]) -> None:
        self._insert(
            "subscriptions",
            {
                "number": (pa.int64(), [s.number for s in rows]),
                "id": (pa.string(), [s.id for s in rows]),
                "text": (pa.string(), [s.text for s in rows]),
                "first_doc": (pa.int64(), [s.first_doc for s in rows]),
            },
        )
        new, self.catalog.new_variables = self.catalog.new_variables, []
        self._insert(
            "variables",
            {
                "id": (pa.int32(), [number for number, _ in new]),
                "definition": (pa.string(), [definition for _, definition in new]),
            },
        )

    def _insert(self, table: str, columns: dict[str, tuple[pa.DataType, list[Any]]]) -> None:
        """Append rows. Planning a scan of Arrow data costs as much as a dozen rows of values."""
        rows = list(zip(*(values for _, values in columns.values()), strict=True))
        if len(rows) > _FEW:
            arrays = {name: pa.array(values, kind) for name, (kind, values) in columns.items()}
            self.store.insert(table, pa.table(arrays))
        elif rows:
            row = f"({', '.join('?' * len(columns))})"
            self.store.run(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * len(rows))}",
                [value for each in rows for value in each],
            )

    def _check_streams(self, fresh: Sequence[Compiled]) -> None:
        """One query per stream, and no stream derived from itself, with those there already."""
        problems = []
        renewed = {query.id for query in fresh}
        publishing = [query for query in fresh if query.publish is not None]
        for query in publishing:
            owner = self.catalog.published.get(query.publish or "", query.id)
            if owner not in renewed:
                parsed = query.resolved.query
                problems.append(
                    Diagnostic(
                        "duplicate-publish",
                        f"the stream {query.publish} is published by the subscription {owner}"
                        " already",
                        parsed.publish_span or parsed.span,
                        "choose another name, or unsubscribe that one first",
                    )
                )
        # The search over all streams only says how a cycle is told of; one that is new passes
        # through a query that is.
        if find_cycles(self._reachable(publishing, renewed)):
            reads = self._reads(self.catalog.published, renewed)
            reads |= {str(query.publish): query.reads for query in publishing}
            for cycle in find_cycles(reads):
                path = " -> ".join([*cycle, cycle[0]])
                span = publishing[0].resolved.query.span
                problems.append(
                    Diagnostic("publish-cycle", f"streams derived from themselves: {path}", span)
                )
        if problems:
            raise XsclError(problems)

    def _reads(self, streams: Iterable[str], renewed: set[str]) -> dict[str, set[str]]:
        """What the queries that publish these streams, and stay as they are, read."""
        published, subscriptions = self.catalog.published, self.catalog.subscriptions
        return {
            stream: subscriptions[published[stream]].reads
            for stream in streams
            if stream in published and published[stream] not in renewed
        }

    def _reachable(self, publishing: Sequence[Compiled], renewed: set[str]) -> dict[str, set[str]]:
        """The streams that these queries are derived from, with what each reads."""
        reads = {str(query.publish): query.reads for query in publishing}
        waiting = set().union(*reads.values()) - reads.keys()
        while waiting:
            found = self._reads(waiting, renewed)
            reads |= found
            waiting = set().union(*found.values()) - reads.keys()
        return reads

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription. KeyError if there is none of that id."""
        if id not in self.catalog.subscriptions:
            raise KeyError(id)
        with self.store.transaction():
            self._withdraw([id])
            self._synchronize()

    def _withdraw(self, ids: Sequence[str]) -> None:
        numbers = [self.catalog.remove(id).number for id in ids]
        if len(numbers) > _FEW:
            self.store.run(
                "DELETE FROM subscriptions WHERE number IN (SELECT unnest(?::BIGINT[]))", [numbers]
            )
        else:
            for number in numbers:
                self.store.run("DELETE FROM subscriptions WHERE number = ?", [number])

    def spec(self) -> bytes:
        """Stage 1's compiled form for the queries of now; the same object while they stay so.

        Changes are put behind what was compiled before, until there are as many of them as edges.
        """
        if self._spec is None:
            self._spec = compile_spec(self.catalog.edges.items())
        elif self._unsent:
            self._spec += compile_spec(self._unsent.items())
        self._unsent.clear()
        return self._spec

    def _synchronize(self) -> None:
        """Let stage 1 hold the edges as the catalog has them."""
        changed = self.catalog.edges.changes()
        self.matcher.change(changed.items())
        if self._spec is not None:
            self._unsent |= changed
            self._added += len(changed)
            if self._added > max(_MANY, len(self.catalog.edges)):
                self._spec, self._added = None, 0
                self._unsent.clear()


@contextmanager
def _staying(count: int) -> Iterator[None]:
    """Around the registration of `count` queries. Very many are taken out of the collector's sight
    afterwards, or each of its long runs would go through them all for nothing."""
    with growing(count):
        yield
        if count >= _CHUNK:
            gc.freeze()
            # At the end nothing may be frozen: extension modules look for what was left over.
            atexit.unregister(gc.unfreeze)
            atexit.register(gc.unfreeze)

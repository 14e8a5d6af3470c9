"""The same search over documents that another engine has stored, for queries that are new there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from broker.engine.parts import Parts
from broker.engine.search import Search
from broker.engine.suspending import halt_stopped
from broker.engine.transactions import begin, searching
from broker.join.budget import Again
from broker.model import UNBOUNDED
from broker.results.matches import Result, in_order
from broker.shared_match import SharedMatch
from broker.state.stored_documents import StoredDocument


class History:
    """History for the queries of an engine; for the public methods see `Engine`."""

    def __init__(self, parts: Parts, search: Search) -> None:
        self._parts = parts
        self._search = search

    def of(
        self, documents: Sequence[StoredDocument], rows: pa.Table, seen: Mapping[int, int]
    ) -> list[SharedMatch]:
        try:
            return self._of(documents, rows, seen)
        except Again:
            return self._of(documents, rows, seen, again=True)

    def _of(
        self,
        documents: Sequence[StoredDocument],
        rows: pa.Table,
        seen: Mapping[int, int],
        *,
        again: bool = False,
    ) -> list[SharedMatch]:
        parts = self._parts
        parts.joiner.refresh()
        with parts.store.transaction(), searching(parts):
            begin(parts, again)
            found: list[Result] = []
            for piece, own in self._pieces(documents, rows, again):
                parts.relations.insert(piece, own)
                if parts.standings:
                    parts.standings.note(
                        (d.doc, d.end, seen[d.doc]) for d in piece if d.doc in seen
                    )
                found += self._search.evaluate(piece, own, None, seen)
                highest = max([seen[d.doc] for d in piece if d.doc in seen], default=-UNBOUNDED)
                found += chain.from_iterable(parts.deciding.results(piece[-1].doc, highest, None))
                halt_stopped(parts, None)
            parts.standings.end()
        parts.limits.commit(None)
        return in_order(found)

    def _pieces(
        self, documents: Sequence[StoredDocument], rows: pa.Table, again: bool
    ) -> Iterable[tuple[Sequence[StoredDocument], pa.Table]]:
        """Documents in pieces that are searched at once, with their witness rows."""
        if not (again or (self._parts.standings and self._parts.limits)):
            return [(documents, rows)]
        docs = rows["doc"]
        return (([d], rows.filter(pc.equal(docs, d.doc))) for d in documents)

    def end(self, doc: int, highest: int) -> list[SharedMatch]:
        parts = self._parts
        with parts.store.transaction(), searching(parts):
            begin(parts, one_by_one=True)
            found = [*chain.from_iterable(parts.deciding.results(doc, highest, None))]
            halt_stopped(parts, None)
            parts.standings.end()
        parts.limits.commit(None)
        return in_order(found)

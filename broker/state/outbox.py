"""The outbox: matches in the store that have not been acknowledged yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from broker.model import Match
from broker.state.relations import MatchRelations
from broker.state.store import Store


class Posted(NamedTuple):
    """A match as the outbox holds it: whole, in two parts (`Match.dumps`), or without a result,
    derived from the bytes of its documents (`Rendering.dumps`), which have these numbers."""

    id: str
    match: str
    result: bytes | None
    docs: tuple[int, ...] = ()
    xml: tuple[bytes, ...] = ()


class Outbox:
    """Matches are added in the transaction of the batch that found them, and deleted when they are
    acknowledged.

    `next` is the number of the next match, above all that are stored and all for which the bytes of
    documents are kept. Without a state directory nothing is stored.
    """

    def __init__(self, store: Store, relations: MatchRelations) -> None:
        self.store = store
        self._relations = relations
        # What is kept for earlier matches must not be taken for what a new one refers to.
        ((self.next,),) = store.rows(
            "SELECT greatest(coalesce(max(n), 0) + 1, (SELECT coalesce(max(before), 1) FROM kept))"
            " FROM outbox"
        )

    def post(self, matches: Sequence[Match], changed: AbstractSet[int] = frozenset()) -> None:
        """Add matches. Those of documents that have `changed` since they were found are stored
        whole, the others refer to their documents if they are derived from them."""
        if not matches or not self.store.durable:
            return
        first = self.next
        self.store.on_rollback(partial(setattr, self, "next", first))
        self.next += len(matches)
        heads: list[str] = []
        results: list[bytes | None] = []
        docs: list[tuple[int, ...] | None] = []
        for match in matches:
            rendering = match.rendering
            if rendering is None or not changed.isdisjoint(rendering.docs):
                head, result = match.dumps()
                heads.append(head)
                results.append(result)
                docs.append(None)
            else:
                heads.append(rendering.dumps(match))
                results.append(None)
                docs.append(rendering.docs)
        self.store.insert(
            "outbox",
            pa.table(
                {
                    "n": pa.array(range(first, self.next), pa.int64()),
                    "id": pa.array([m.id for m in matches], pa.string()),
                    "match": pa.array(heads, pa.string()),
                    "result": pa.array(results, pa.binary()),
                    "docs": pa.array(docs, pa.list_(pa.int64())),
                }
            ),
        )

    def count(self) -> int:
        """How many matches are not acknowledged."""
        return self.store.count("SELECT count(*) FROM outbox")

    def undelivered(self, limit: int) -> list[Posted]:
        """At most `limit` matches that are not acknowledged, oldest first."""
        rows = self.store.rows(
            "SELECT n, id, match, result, docs FROM outbox ORDER BY n LIMIT ?", [limit]
        )
        wanted = {doc for *_, docs in rows for doc in docs or ()}
        xml = self._relations.contents(wanted) if wanted else None
        found: list[Posted] = []
        for n, id, match, result, docs in rows:
            if xml is None or result is not None:
                found.append(Posted(id, match, result))
            else:
                bytes_of = tuple([xml(doc, n) for doc in docs])
                found.append(Posted(id, match, None, tuple(docs), bytes_of))
        return found

    def acknowledge(self, ids: Iterable[str]) -> None:
        with self.store.transaction():
            self.store.run(
                "DELETE FROM outbox WHERE id IN (SELECT unnest(?::VARCHAR[]))", [list(ids)]
            )
            self._relations.release_kept()

"""Documents that were dated beyond the clock when they came.

Only when they came says how old they are: under a retention a document dated 2999 goes like those
that came with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from broker.state.relations import MatchRelations
from broker.state.store import Store


class Postdated:
    """Their numbers and when they came, by the believed time in microseconds."""

    def __init__(self, store: Store, relations: MatchRelations) -> None:
        self._store = store
        self._relations = relations
        self._any = bool(store.stored("SELECT 1 FROM postdated LIMIT 1"))

    def add(self, docs: Sequence[int], seen: int) -> None:
        """Record documents, in the transaction that stores them."""
        if not docs:
            return
        self._any = True
        columns = {
            "doc": pa.array(docs, pa.int64()),
            "seen": pa.array([seen] * len(docs), pa.int64()),
        }
        self._store.insert("postdated", pa.table(columns))

    def remove(self, docs: Sequence[int]) -> None:
        """Forget documents that are revised, in the transaction that stores their revisions."""
        if self._any and docs:
            self._store.delete("postdated", "doc", docs)

    def older(self, horizon: int) -> dict[int, int]:
        """The documents that came before a time and are dated after it, with when they end."""
        docs = self._came_before(horizon)
        stored = self._relations.intervals(docs)
        ends = {doc: stored[doc].end for doc in docs if doc in stored}
        return {doc: end for doc, end in ends.items() if end >= horizon}

    def forget_gone(self, horizon: int) -> None:
        """Forget those that came before a time and of which not even the identity is left."""
        docs = self._came_before(horizon)
        gone = docs.keys() - self._relations.intervals(docs).keys()
        if gone:
            self._store.delete("postdated", "doc", gone)

    def _came_before(self, horizon: int) -> dict[int, None]:
        if not self._any:
            return {}
        rows = self._store.rows("SELECT doc FROM postdated WHERE seen < ? ORDER BY doc", [horizon])
        return dict.fromkeys(doc for (doc,) in rows)

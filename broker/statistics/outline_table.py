"""The table `outlines`: which label paths the stored documents have, by the outline of each.

A stored document has the number of its outline in `documents`, so that the counts of a stream's
label paths are those of its documents at any time: a document that expires, or is replaced, is
counted no longer. The table is bounded, and each source may add so many outlines alone: a source
that invents names uses up its own share. Documents beyond it have the outline 0 and are counted as
documents without known paths.

In: outlines as stage 1 finds them, in the transaction of their batch. Out: their numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from broker.state.store import Store
from broker.state.stream_counts import StreamCounts
from xscl.stage1.outlines import Outline

UNKNOWN = 0
"""The outline of documents whose label paths are not known."""

_MOST = 10_000
"""Outlines in the table."""
OF_SOURCE = 1_000
"""Outlines that one source may add, by default."""
_PATHS = 300_000
"""Label paths of all outlines in the table."""


class OutlineTable:
    """The outlines of the stored documents, in memory their numbers only. One source may add
    `of_source` of them."""

    def __init__(self, store: Store, of_source: int = OF_SOURCE) -> None:
        self._store = store
        self.of_source = of_source
        self._load()

    def _load(self) -> None:
        rows = self._store.stored("SELECT id, source, len(paths) FROM outlines")
        self._known = {id for id, _, _ in rows}
        self._of_source = Counter(source for _, source, _ in rows)
        self._held = sum(paths for _, _, paths in rows)
        self._full = False

    def keep(self, found: Sequence[tuple[Outline | None, str]]) -> list[int]:
        """The outline of each document as it is stored, given with the document's source; new ones
        are added. Within the transaction of the batch."""
        ids = [UNKNOWN if outline is None else outline.id for outline, _ in found]
        if self._known.issuperset(ids):
            return ids
        new = {o.id: (o, source) for o, source in found if o and o.id not in self._known}
        added = [each for each in new.values() if self._add(*each)]
        if added:
            self._store.on_rollback(self._load)
            columns = {
                "id": pa.array([outline.id for outline, _ in added], pa.uint64()),
                "source": pa.array([source for _, source in added], pa.string()),
                "paths": pa.array([[*o.paths] for o, _ in added], pa.list_(pa.string())),
            }
            self._store.insert("outlines", pa.table(columns))
        return [id if id in self._known else UNKNOWN for id in ids]

    def _add(self, outline: Outline, source: str) -> bool:
        """Count an outline that is added; False if there is no room for it."""
        size = len(outline.paths)
        if (
            len(self._known) >= _MOST
            or self._of_source[source] >= self.of_source
            or self._held + size > _PATHS
        ):
            self._full = True
            return False
        self._known.add(outline.id)
        self._of_source[source] += 1
        self._held += size
        return True

    def release(self) -> None:
        """Delete the outlines that no stored document has, if there was no room for others."""
        if self._full:
            self._store.on_rollback(self._load)
            used = StreamCounts(self._store).outlines()
            self._store.run(
                "DELETE FROM outlines WHERE id NOT IN (SELECT unnest(?::UBIGINT[]))", [used]
            )
            self._load()

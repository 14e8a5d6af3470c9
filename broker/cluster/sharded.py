"""The engine whose search is divided among shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from broker.cluster.coordinator import Coordinator
from broker.cluster.shards import Shards
from broker.documents.arrow import Arrivals
from broker.engine import Engine
from broker.results.undelivered import restored
from broker.shared_match import SharedMatch
from broker.state.outbox import Posted
from broker.state.store import Store


class ShardedEngine(Engine):
    """An engine over a state, and shards over a shared directory.

    Subscriptions, time, delivery and the state are those of `Engine`, whose arguments it takes. If
    the matches are wanted as text in a `form`, `apply` returns only those that the coordinator has
    found itself, and `take_text` those of the shards. Raises ClusterError.
    """

    def __init__(
        self,
        store: Store,
        *settings: Any,
        shared: Path,
        shards: Shards,
        count: int,
        form: str | None = None,
        **more: Any,
    ) -> None:
        self.cluster = Coordinator(shared, shards, count, form)
        super().__init__(store, *settings, elsewhere=self.cluster, **more)
        self.cluster.begin(self)

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        matches = super().apply(arrivals, now, position)
        self.cluster.committed()
        return matches if self.cluster.form is not None else matches + self._from_shards()

    def _from_shards(self) -> list[SharedMatch]:
        """What the shards found in the last batch."""
        cluster = self.cluster
        rows = cluster.matches.select(["ids", "queries", "match", "result", "docs"]).to_pylist()
        contents = self.contents.of({doc for row in rows for doc in row["docs"] or ()}, ())
        posted = [
            Posted(
                n,
                row["ids"],
                row["queries"],
                row["match"],
                row["result"],
                tuple(row["docs"] or ()),
                tuple([contents[doc].stored.xml for doc in row["docs"] or ()]),
            )
            for n, row in enumerate(rows, cluster.first_posted)
        ]
        return restored(posted)

    def take_text(self) -> tuple[list[bytes], int, int]:
        """The text of the matches that the shards found in the last batch, one for each subscriber,
        and the numbers of the first and behind the last of them in the outbox."""
        cluster = self.cluster
        lines = pc.list_flatten(cluster.matches.column("lines")).to_pylist()
        first = cluster.first_posted
        return lines, first, first + cluster.matches.num_rows

    def acknowledge_text(self, first: int, behind: int) -> None:
        """Delete from the outbox what `take_text` has given."""
        self.ready()
        self.outbox.acknowledge_between(first, behind)

    def close(self) -> None:
        """End the shards, and close the store."""
        try:
            self.cluster.close()
        finally:
            super().close()

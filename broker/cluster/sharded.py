"""The engine whose search is divided among shards."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from broker.cluster.answers import MATCHES
from broker.cluster.coordinator import Coordinator
from broker.cluster.shards import Shards
from broker.documents.arrow import Arrivals
from broker.engine import Engine
from broker.shared_match import SharedMatch
from broker.state.store import Store


class ShardedEngine(Engine):
    """An engine over a state, and shards over shared files (`broker.cluster.files`).

    Subscriptions, time, delivery and the state are those of `Engine`, whose arguments it takes. If
    the matches are wanted as text in a `form`, `apply` returns only those that the coordinator has
    found itself, and `hand_over` gives those of the shards to `on_text`. Raises ClusterError.
    """

    def __init__(
        self,
        store: Store,
        *settings: Any,
        shared: str,
        shards: Shards,
        count: int,
        form: str | None = None,
        hot_from: int = 1_000,
        **more: Any,
    ) -> None:
        self.cluster = Coordinator(shared, shards, count, form, hot_from)
        super().__init__(store, *settings, elsewhere=self.cluster, **more)
        self.cluster.take_over(self)

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        matches = super().apply(arrivals, now, position)
        self.cluster.committed()
        return matches if self.cluster.form is not None else matches + self.cluster.found()

    def hand_over(self) -> int:
        cluster = self.cluster
        found, cluster.matches = cluster.matches, MATCHES.empty_table()
        if self.on_text is None or cluster.form is None or not found.num_rows:
            return 0
        lines: list[bytes] = pc.list_flatten(found.column("lines")).to_pylist()
        self.on_text(lines)
        first = cluster.first_posted
        self.outbox.acknowledge_between(first, first + found.num_rows)
        return len(lines)

    def close(self) -> None:
        """End the shards, and close the store."""
        try:
            self.cluster.close()
        finally:
            super().close()

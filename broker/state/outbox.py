"""The outbox: matches in the store that have not been acknowledged yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa

from broker.model import Match
from broker.state.store import Store


class Outbox:
    """Matches are added in the transaction of the batch that found them, and deleted when they are
    acknowledged.

    `next` is the number of the next match, above all that are stored. Without a state directory
    nothing is stored.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        ((self.next,),) = store.rows("SELECT coalesce(max(n), 0) + 1 FROM outbox")

    def post(self, matches: Sequence[Match]) -> None:
        if not matches or not self.store.durable:
            return
        first = self.next
        self.store.on_rollback(partial(setattr, self, "next", first))
        self.next += len(matches)
        dumped = [m.dumps() for m in matches]
        self.store.insert(
            "outbox",
            pa.table(
                {
                    "n": pa.array(range(first, self.next), pa.int64()),
                    "id": pa.array([m.id for m in matches], pa.string()),
                    "match": pa.array([head for head, _ in dumped], pa.string()),
                    "result": pa.array([result for _, result in dumped], pa.binary()),
                }
            ),
        )

    def count(self) -> int:
        """How many matches are not acknowledged."""
        return self.store.count("SELECT count(*) FROM outbox")

    def undelivered(self, limit: int) -> list[Match]:
        """At most `limit` matches that are not acknowledged, oldest first."""
        rows = self.store.rows("SELECT match, result FROM outbox ORDER BY n LIMIT ?", [limit])
        return [Match.loads(text, result) for text, result in rows]

    def acknowledge(self, ids: Iterable[str]) -> None:
        with self.store.transaction():
            self.store.run(
                "DELETE FROM outbox WHERE id IN (SELECT unnest(?::VARCHAR[]))", [list(ids)]
            )

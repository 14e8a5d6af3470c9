"""The gaps of subscriptions, documents they have not seen: one with an open gap is not active."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from broker.registered import Gap, Status, Suspension
from broker.state.statements import Statements
from broker.state.store import Store

_COLUMNS = "number, status, reason, first_doc, from_time, to_doc, to_time"


class Gaps:
    """The table of gaps, by the subscription's number. An active subscription matches from the end
    of its last gap on."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._having = {number for (number,) in store.stored("SELECT DISTINCT number FROM gaps")}
        """A superset of the numbers of subscriptions that have gaps."""

    def open(
        self,
        numbers: Sequence[int],
        status: Status,
        reason: str,
        first_doc: int,
        now: int | None,
    ) -> None:
        self._having.update(numbers)
        self.store.run(
            "INSERT INTO gaps SELECT unnest(?::BIGINT[]), ?, ?, ?, ?, NULL, NULL, ?",
            [[*numbers], status, reason, first_doc, now, status != "suspended"],
        )

    def close(self, numbers: Sequence[int], to_doc: int, now: int | None) -> None:
        self.store.run(
            "UPDATE gaps SET to_doc = ?, to_time = ?"
            " WHERE to_doc IS NULL AND number IN (SELECT unnest(?::BIGINT[]))",
            [to_doc, now, [*numbers]],
        )

    def forget(self, numbers: Sequence[int]) -> None:
        having = self._having.intersection(numbers)
        if having:
            self._having -= having
            self.store.on_rollback(partial(self._having.update, having))
            self.store.delete("gaps", "number", having)

    def suspended(self) -> int:
        """How many subscriptions are suspended now."""
        return self.store.count(
            "SELECT count(*) FROM gaps WHERE to_doc IS NULL AND status = 'suspended'"
        )

    def unreported(self) -> list[tuple[int, Suspension]]:
        """Suspensions that may not have been reported, with the subscriptions' numbers."""
        rows = self.store.rows(
            "SELECT g.number, s.id, reason, from_time FROM gaps g JOIN subscriptions s"
            " ON g.number = s.number WHERE NOT told ORDER BY g.rowid"
        )
        return [(number, Suspension(id, reason, at)) for number, id, reason, at in rows]

    def mark_reported(self, numbers: Sequence[int]) -> None:
        """Mark the oldest unreported suspensions of these subscriptions as reported, one for each
        time that a number occurs."""
        times = Counter(numbers)
        self.store.run(
            "UPDATE gaps SET told = true WHERE rowid IN (SELECT gap FROM (SELECT rowid AS gap, "
            "number, row_number() OVER (PARTITION BY number ORDER BY rowid) AS nth FROM gaps "
            "WHERE NOT told) JOIN (SELECT unnest(?::BIGINT[]) AS number, unnest(?::BIGINT[]) AS "
            "times) USING (number) WHERE nth <= times)",
            [[*times], [*times.values()]],
        )


def read_gaps(
    statements: Statements, condition: str = "true", parameters: Sequence[Any] = ()
) -> dict[int, tuple[Gap, ...]]:
    """The gaps of the subscriptions for which a condition in SQL holds, the oldest first."""
    found: defaultdict[int, list[Gap]] = defaultdict(list)
    for number, *gap in statements.rows(
        f"SELECT {_COLUMNS} FROM gaps WHERE {condition} ORDER BY number, first_doc, rowid",
        parameters,
    ):
        found[number].append(Gap(*gap))
    return {number: tuple(gaps) for number, gaps in found.items()}

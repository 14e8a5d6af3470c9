"""Reads the state of subscriptions from the store, with their gaps and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.model import Limit
from broker.registered import Gap, Registered, Status
from broker.state.statements import Statements
from broker.subscriptions.gaps import read_gaps

_HALTED = "SELECT number FROM gaps WHERE to_doc IS NULL"
_WHICH: dict[Status | None, str] = {
    None: "true",
    "active": f"number NOT IN ({_HALTED})",
    "paused": f"number IN ({_HALTED} AND status = 'paused')",
    "suspended": f"number IN ({_HALTED} AND status = 'suspended')",
}


class Listing:
    """Reads from a store, or from a snapshot of it."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def page(self, status: Status | None, prefix: str, after: str, limit: int) -> list[Registered]:
        """Those of a status, or of any, whose ids begin with `prefix` and come behind `after`, in
        order of their ids, at most `limit`."""
        condition = f"{_WHICH[status]} AND starts_with(id, ?) AND id > ? ORDER BY id LIMIT ?"
        return self._where(condition, [prefix, after, limit])

    def ids(self, prefix: str, after: str, limit: int) -> tuple[list[str], int]:
        """The ids that begin with `prefix` and come behind `after`, in their order, at most
        `limit`; and how many more there are."""
        those = "FROM subscriptions WHERE starts_with(id, ?) AND id > ?"
        rows = self._statements.rows(
            f"SELECT id {those} ORDER BY id LIMIT ?", [prefix, after, limit]
        )
        count = self._statements.count(f"SELECT count(*) {those}", [prefix, after])
        return [id for (id,) in rows], count - len(rows)

    def of(self, ids: Sequence[str]) -> list[Registered]:
        """The subscriptions of these ids."""
        return self._where("id IN (SELECT unnest(?::VARCHAR[]))", [list(ids)])

    def one(self, id: str) -> Registered:
        """The subscription of an id that exists."""
        (found,) = self._where("id = ?", [id])
        return found

    def _where(self, condition: str, parameters: Sequence[Any]) -> list[Registered]:
        rows = self._statements.rows(
            "SELECT number, id, text, first_doc, since, matches, period FROM subscriptions"
            f" LEFT JOIN limits USING (number) WHERE {condition}",
            parameters,
        )
        those = f"number IN (SELECT number FROM subscriptions WHERE {condition})"
        gaps = read_gaps(self._statements, those, parameters)
        return [_registered(row, gaps.get(row[0], ())) for row in rows]


def _registered(row: tuple[Any, ...], gaps: tuple[Gap, ...]) -> Registered:
    _, id, text, first_doc, since, matches, period = row
    limit = None if matches is None else Limit.of(matches, period)
    halted = bool(gaps) and gaps[-1].to_doc is None
    status: Status = gaps[-1].status if halted else "active"
    reason = gaps[-1].reason if halted else None
    return Registered(id, text, status, first_doc, since, reason, gaps, limit)

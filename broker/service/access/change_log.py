"""The log of changes: who has changed what through the API, in the file of the tokens.

In: changes. Out: the same by number. The numbers only grow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.service.access.file import AccessFile
from broker.service.access.scopes import Identity


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of the log of changes: who made it (the name of a token, "" for the service's own),
    from which address, what was done to what, and details."""

    number: int
    at: int
    who: str
    address: str
    action: str
    subject: str
    detail: Mapping[str, Any]


class ChangeLog:
    """The log in an open file. `now` returns microseconds since 1970; `on_entry` is called with the
    number of each entry. Raises AccessError."""

    def __init__(self, file: AccessFile, now: Callable[[], int]) -> None:
        self.on_entry: Callable[[int], object] = lambda number: None
        self._file = file
        self._now = now

    def record(
        self,
        identity: Identity,
        address: str,
        action: str,
        subject: str,
        detail: Mapping[str, Any],
    ) -> None:
        """Add an entry to the log of changes."""
        row = self._now(), identity.name, address, action, subject, json.dumps(detail)
        with self._file.transaction() as db:
            number = db.execute(
                "INSERT INTO change (at, who, address, action, subject, detail)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                row,
            ).lastrowid
        self.on_entry(number or 0)

    def last(self) -> int:
        """The last number of the log of changes, 0 if none."""
        found = self._file.rows("SELECT seq FROM sqlite_sequence WHERE name = 'change'")
        return int(found[0][0]) if found else 0

    def skip_to(self, number: int) -> None:
        """Continue the log of changes above a number."""
        with self._file.transaction() as db:
            db.execute("DELETE FROM sqlite_sequence WHERE name = 'change'")
            db.execute("INSERT INTO sqlite_sequence VALUES ('change', ?)", (number,))

    def read(
        self,
        after: int,
        limit: int,
        who: str | None = None,
        *,
        action: str | None = None,
        before: int | None = None,
    ) -> list[Change]:
        """Entries of the log with numbers above `after`, of all or of one token and action, oldest
        first; with `before` those below it, the newest first."""
        rows = self._file.rows(
            "SELECT number, at, who, address, action, subject, detail FROM change"
            " WHERE number > ?1 AND (?2 IS NULL OR who = ?2) AND (?4 IS NULL OR action = ?4)"
            " AND (?5 IS NULL OR number < ?5)"
            f" ORDER BY number {'' if before is None else 'DESC'} LIMIT ?3",
            (after, who, limit, action, before),
        )
        return [
            Change(number, at, name, address, action, subject, json.loads(detail))
            for number, at, name, address, action, subject, detail in rows
        ]

    def forget(self, before: int) -> None:
        """Delete entries from before a time."""
        with self._file.transaction() as db:
            db.execute("DELETE FROM change WHERE at < ?", (before,))

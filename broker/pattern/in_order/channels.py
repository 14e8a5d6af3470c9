"""Channels: queries that take the same documents, so that one event stands for all of them.

RUMOR's channels: what flows to many queries flows once, and says to which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.instances import Row

_PARTS = 1_000


class Channel:
    """The queries `owners`, of which one block takes the same documents. It has a `number` where
    `noted.py` notes these, else a log of what came to them and was only noted; where documents are
    found by a value, each value has one in `by`. Before `events` there were some that have
    `gone`; of all these each query has `had` so many, or all of them. `parts` are channels of some
    of the queries, as some documents are not for all. `newest` is when the last of what came to it
    ends, where somebody notes that."""

    __slots__ = ("by", "events", "gone", "had", "newest", "number", "owners", "parts")

    def __init__(self, owners: list[int]) -> None:
        self.owners = owners
        self.number = -1
        self.newest = -FOR_EVER
        self.events: list[Offered] | None = None
        self.by: dict[object, Channel] | None = None
        self.gone = 0
        self.had: dict[int, int] | int = 0
        self.parts: dict[tuple[int, ...], Channel] | None = None

    def __bool__(self) -> bool:
        """Whether there is anything in its logs."""
        return bool(self.events or self.by)

    def part(self, owners: Sequence[int]) -> Channel:
        """The channel of these of its queries: the same one for the same of them, so that no query
        is in very many."""
        if len(owners) == len(self.owners):
            return self
        if self.parts is None or len(self.parts) > _PARTS:
            self.parts = {}
        key = tuple(owners)
        found = self.parts.get(key)
        if found is None:
            found = self.parts[key] = Channel([*owners])
        return found

    def log(self, value: object) -> Channel:
        """The log of a value."""
        if self.by is None:
            self.by = {}
        log = self.by.get(value)
        if log is None:
            log = self.by[value] = Channel(self.owners)
        return log

    def not_had(self, owner: int, start: int = FOR_EVER) -> Sequence[Offered]:
        """What is in the log that a query has not had; nothing if the first of it ends at a time or
        behind it."""
        events = self.events
        if not events:
            return ()
        had = self.had
        count = had if isinstance(had, int) else had.get(owner, 0)
        since = max(0, count - self.gone)
        if since == len(events) or events[since][-1].end >= start:
            return ()
        return events[since:] if since else events

    def has_had(self, owner: int) -> None:
        """A query has had all that is in the log."""
        count = self.gone + len(self.events or ())
        if len(self.owners) == 1:
            self.had = count
        elif isinstance(self.had, int):
            self.had = {owner: count}
        else:
            self.had[owner] = count

    def expire(self, horizon: int) -> None:
        """Drop what ended before a time, but for what is behind something else."""
        for value, log in [*self.by.items()] if self.by else ():
            log.expire(horizon)
            if not log.events:
                assert self.by is not None
                del self.by[value]
        count = 0
        for event in self.events or ():
            if event[-1].end >= horizon:
                break
            count += 1
        if count and self.events is not None:
            self.gone += count
            self.events = self.events[count:] or None


Offered = tuple[int, int, int, Any, Any, float, Row]
"""An event of a query; or of a channel, which stands there instead of the query, the value of the
tie, or None, instead of the key, and nothing instead of the number."""

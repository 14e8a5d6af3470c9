"""What the broker tells of its subscriptions: their status, what they have not seen, and since when
they are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from broker.model import Limit

Status = Literal["active", "paused", "suspended"]
"""Of a subscription: "paused" by a person, "suspended" by the broker."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Documents that a subscription has not seen: from number `first_doc` up to, but not including,
    `to_doc`, None while the gap is open. The times are of the wall clock, in microseconds, and None
    if unknown."""

    status: Status
    reason: str
    first_doc: int
    from_time: int | None
    to_doc: int | None
    to_time: int | None


@dataclass(frozen=True, slots=True)
class Registered:
    """The current state of a subscription: the document number `first_doc` and the time `since`
    (wall clock, microseconds, None if unknown) from which on it was registered; the `reason` why it
    is not active; its gaps, the oldest first; and its own limit, if it has one."""

    id: str
    text: str
    status: Status
    first_doc: int
    since: int | None
    reason: str | None
    gaps: tuple[Gap, ...]
    limit: Limit | None = None

    @property
    def periods(self) -> list[tuple[int, int | None]]:
        """From which document on, up to which, not including it, matches are found: all documents
        of one are in one period. The last has no end while it is active."""
        begins = [self.first_doc, *[gap.to_doc for gap in self.gaps]]
        ends = [*[gap.first_doc for gap in self.gaps], None]
        return [(a, b) for a, b in zip(begins, ends, strict=True) if a is not None]


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The outcome of registering a query: "unchanged" if it was registered with the same text, and
    goes on as it is; "replaced" if it takes the place of one with another text."""

    id: str
    number: int
    outcome: Literal["new", "replaced", "unchanged"]


@dataclass(frozen=True, slots=True)
class Suspension:
    """A subscription that the broker has suspended, why, and when (wall clock, microseconds, None
    if unknown)."""

    id: str
    reason: str
    at: int | None

"""What all parts of a registered pattern have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from broker.pattern.instances import Arrived, Instance
from broker.pattern.plan import Plan, Single
from broker.pattern.trace import Trace
from broker.pattern.trying import TooMuch
from broker.planner import PLANNING, Planning, Problem, Shape, plan
from xscl.interruption import PENDING, check

UNCOUNTED = 1 << 62
"""Choices that may be tried where none are counted."""

HELD = 10
"""Of the choices that may be tried for a document, this part may wait at once."""


_RESTS = 500
"""Choices after which a question rests."""


class Source(Protocol):
    """Where the instances of an item come from."""

    def advance(self, arrived: Arrived, watermark: int | None) -> list[Instance]:
        """The instances that have become known, with these new rows and this watermark."""
        ...

    def due(self) -> int:
        """Twice the watermark at which something may be decided without a new row, or less; NEVER
        if nothing waits. Until then `advance` gives nothing without rows."""
        ...

    def expire(self, horizon: int) -> None: ...
    def waiting(self) -> Iterator[tuple[int, Instance]]:
        """What is not decided yet, each with its `due`."""
        ...


@dataclass(slots=True)
class Setting:
    """`registered` is the highest time seen when the pattern was, None if there was none; `free`:
    SKIP TILL ANY MATCH. `source` makes the source of an item, and `unit` that of a unit, of which
    all documents begin after a time and are others than those with some keys. `left` is how many
    choices may still be tried in this batch, `most` how many may wait at once;
    `trace` notes what is blocked."""

    plan: Plan
    registered: int | None
    free: bool
    source: Callable[[Single], Source]
    unit: Callable[..., Source]
    left: int = 0
    most: int = 0
    trace: Trace | None = None
    planning: Planning = PLANNING

    def shape(self, problem: Problem) -> Shape:
        """The plan of a problem."""
        return plan(problem, *self.planning)

    def hold(self, waiting: int) -> None:
        """Say how many choices wait for what is still to come. Raises TooMuch."""
        if waiting > self.most and self.left <= UNCOUNTED >> 1:
            raise TooMuch

    def spend(self) -> None:
        """Count a choice that is tried. Raises TooMuch."""
        if PENDING:
            check()
        self.left -= 1
        if self.left < 0:
            raise TooMuch


@dataclass(slots=True)
class Resting(Setting):
    """That of a question, which rests as its trace says after some choices."""

    def spend(self) -> None:
        Setting.spend(self)
        if self.trace is not None and not self.left % _RESTS:
            self.trace.rest()

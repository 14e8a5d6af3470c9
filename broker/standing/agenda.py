"""At which highest time which pattern has something to decide, without a new row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush

from broker.model import UNBOUNDED
from broker.pattern.instances import NEVER
from broker.standing.live import Group, Live

Planned = Live | Group


class Agenda:
    """A heap of times with the numbers of patterns and of groups. Those that are not the `due` of
    these any more do not count."""

    def __init__(self) -> None:
        self._dues: list[tuple[int, int]] = []

    def plan(self, pattern: Planned) -> None:
        """Note when a pattern has something to decide."""
        due = NEVER if pattern.standing is None else pattern.standing.due()
        before = pattern.due
        pattern.due = UNBOUNDED if due >= NEVER else pattern.highest(due)
        if pattern.due < UNBOUNDED and pattern.due != before:
            heappush(self._dues, (pattern.due, pattern.number))

    def due(self, highest: int, find: Callable[[int], Planned | None]) -> set[int]:
        """Take the patterns out that have something to decide by this time."""
        found: set[int] = set()
        while self._dues and self._dues[0][0] <= highest:
            due, number = heappop(self._dues)
            pattern = find(number)
            if pattern is not None and pattern.due == due:
                pattern.due = UNBOUNDED  # it is not in the heap any more
                found.add(number)
        return found

    def shrink(self, planned: Collection[Planned]) -> None:
        """Drop what does not count, if that is most of it."""
        if len(self._dues) > 2 * len(planned):
            self._dues = [(p.due, p.number) for p in planned if p.due < UNBOUNDED]
            heapify(self._dues)

    def clear(self) -> None:
        self._dues.clear()

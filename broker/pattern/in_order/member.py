"""One query of those that are matched together, as somebody sees it who asks what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from broker.pattern.in_order.spending import Spending
from broker.pattern.in_order.standing import Together
from broker.pattern.instances import NEVER, Instance
from broker.pattern.setting import UNCOUNTED


class Member:
    """What one query of several waits for."""

    __slots__ = ("_owner", "_spending", "_together")

    def __init__(self, together: Together, owner: int) -> None:
        self._together = together
        self._owner = owner
        self._spending: Spending | None = None

    def due(self) -> int:
        """It decides when all do."""
        return NEVER

    def waiting(self, tries: int = UNCOUNTED) -> Iterator[tuple[int, Instance]]:
        """What is not decided, with twice the watermark that decides it. Raises TooMuch."""
        spending = self._spending = Spending(tries, for_all=True)
        return self._together.waiting(self._owner, spending)

    def tried(self, tries: int) -> int:
        """How many choices were tried since there were so many left."""
        return 0 if self._spending is None else tries - max(0, self._spending.left)

"""How much a query may try for what comes at once."""

from __future__ import annotations

from broker.pattern.trying import TooMuch
from xscl.interruption import PENDING, check


class Spending:
    """`left` is how many pairs may still be tried."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self) -> None:
        """Count a pair that is tried. Raises TooMuch."""
        if PENDING:
            check()
        self.left -= 1
        if self.left < 0:
            raise TooMuch

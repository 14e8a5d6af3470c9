"""How much a query may try."""

from __future__ import annotations

from broker.pattern.trying import TooMuch


class Spending:
    """`left` is how many pairs may still be tried, of `most` for each document or `for_all`."""

    __slots__ = ("_for_all", "left", "most")

    def __init__(self, most: int, *, for_all: bool = False) -> None:
        self.left = self.most = most
        self._for_all = for_all

    def spend(self, count: int = 1) -> None:
        """Count pairs that are tried. Raises TooMuch."""
        self.left -= count
        if self.left < 0:
            raise TooMuch

    def renew(self) -> None:
        """Another document comes."""
        if not self._for_all:
            self.left = self.most

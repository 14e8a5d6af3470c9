"""What waits at the links of a chain of NEXT."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from broker.pattern.in_order.held import FOR_EVER, Entry, Waiting
from broker.pattern.instances import Row

At = tuple[int, int]
"""When a document was taken, and its place in the order of arrival."""

NEVER = (-FOR_EVER, 0)
"""Before all documents."""


class Part(Waiting):
    """What waits by one key: the first bound, a number, the documents, the latest end of what may
    follow, and all bounds where there are several. `fed` are those that found what they seek at
    the time `at`. Where that is not the last block, what they seek may be noted for a query, and
    come to it when much more has been decided: these parts are `patient`."""

    __slots__ = ("at", "fed", "patient")

    def __init__(self, *, patient: bool) -> None:
        self.blocks = []
        self.fed: tuple[Entry, ...] = ()
        self.at = 0
        self.patient = patient

    def __bool__(self) -> bool:
        return bool(self.blocks or self.fed)

    def forget(self, time: int) -> None:
        """Forget those that found what they seek before a time."""
        if self.fed and self.at < time:
            self.fed = ()


class Pairs(Part):
    """What a prefix has found for the last link, in order: when, the documents, and the latest end
    of what may follow."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        super().__init__(patient=False)
        self.found: list[tuple[At, Sequence[Row], int]] = []

    def __bool__(self) -> bool:
        return bool(self.found)

    def expire(self, watermark: int, place: int) -> int:
        self.found = [each for each in self.found if each[2] >= watermark]
        return min([last for _, _, last in self.found], default=FOR_EVER)

    def behind(self, at: At) -> Sequence[tuple[At, Sequence[Row], int]]:
        """What was found behind a document."""
        return self.found[bisect_right(self.found, at, key=itemgetter(0)) :]

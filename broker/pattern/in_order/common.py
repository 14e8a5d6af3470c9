"""Iterations that take the same documents: kept once, with where each of them began.

SASE+ shares its runs so. All iterations of one key go on with what comes, or end; one that has just
begun differs from the others only in what it compares the first document with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from broker.pattern.in_order.forms import Common
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.instances import Row

Begun = tuple[int, int, Row, float, int]
"""How many documents were taken before its first one, its number, the document that it began with,
the number of that one, and the latest end of what it may take."""


class Runs:
    """The iterations of one key. `taken` are the documents that they go on with, `went` are those
    that have taken some, in order of where they began, `fresh` are the others. The last document
    came at the time `at`; `before` is what was there when it did: the documents that were taken and
    the iterations that had taken some, with how many they were, and those of the fresh ones that
    saw it."""

    __slots__ = ("at", "before", "fresh", "keys", "taken", "value", "went")

    def __init__(self) -> None:
        self.taken: list[Row] = []
        self.went: list[Begun] = []
        self.fresh: list[Begun] = []
        self.keys: set[int] = set()
        """Of the documents of those that have taken some."""
        self.at = -FOR_EVER
        self.value = 0.0
        """The number of the last one that was taken."""
        self.before: tuple[list[Row], int, list[Begun], int, list[Begun]] | None = None

    def __bool__(self) -> bool:
        return bool(self.went or self.fresh)

    def follow(self, common: Common, row: Row, number: float) -> bool | None:
        """Go on with a document, or end; whether any iteration goes on. One that none sees changes
        nothing. None: the document does not come behind the last one, or was there before, so that
        what was common is not common any more."""
        start, end, key, seeing, went = row.start, row.end, row.key, self.fresh, self.went
        if start <= self.at or key in self.keys:
            return None
        fresh: list[Begun] = []
        if seeing and seeing[-1][2].end >= start:
            fresh = [each for each in seeing if each[2].end >= start]
            seeing = [each for each in seeing if each[2].end < start]
        if not seeing and not went:
            return False
        if key in [each[2].key for each in seeing]:
            return None
        # Lists only grow, so what was there before is told by how many there were.
        self.before = (self.taken, len(self.taken), went, len(went), seeing)
        self.at, self.fresh = end, fresh
        inclusive, free, value = common.inclusive, common.comes is None, self.value
        self.value = number if common.before is None else common.before(row)
        if not went or not (number > value or (inclusive and number == value) or free):
            self.taken, self.keys, went = [], set(), []
        elif went[0][4] < end:
            went = [each for each in went if each[4] >= end]
        taken, keys = self.taken, self.keys
        place = len(taken)
        for each in seeing:
            begun = each[3]
            if number > begun or (inclusive and number == begun) or free:
                went.append((place, *each[1:]))
                keys.add(each[2].key)
        self.went = went
        if not went:
            return False
        taken.append(row)
        keys.add(key)
        return True

    def of_counts(self, least: float, most: float) -> list[Begun]:
        """The iterations that have taken so many documents."""
        count, went = len(self.taken), self.went
        first = bisect_left(went, (count - most,)) if count > most else 0
        return went[first : bisect_left(went, (count - least + 1,))]

    def expire(self, watermark: int) -> None:
        """Drop the iterations that can take nothing any more."""
        self.went = [each for each in self.went if each[4] >= watermark]
        self.fresh = [each for each in self.fresh if each[4] >= watermark]
        if not self.went:
            self.taken, self.keys = [], set()
        if self.at < watermark:
            self.before = None

    def states(self) -> Iterator[tuple[Begun, list[Row], bool]]:
        """All iterations, each with the documents that it has taken: those of now, and of the time
        before the last document, which they saw."""
        for each in self.fresh:
            yield each, [], False
        for each in self.went:
            yield each, self.taken[each[0] :], False
        if self.before is not None:
            taken, count, went, so_many, seeing = self.before
            for each in went[:so_many]:
                yield each, taken[each[0] : count], True
            for each in seeing:
                yield each, [], True

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

    __slots__ = ("at", "before", "fresh", "keys", "taken", "went")

    def __init__(self) -> None:
        self.taken: list[Row] = []
        self.went: list[Begun] = []
        self.fresh: list[Begun] = []
        self.keys: set[int] = set()
        """Of the documents of those that have taken some."""
        self.at = -FOR_EVER
        self.before: tuple[list[Row], int, list[Begun], int, list[Begun]] | None = None

    def __bool__(self) -> bool:
        return bool(self.went or self.fresh)

    def fits(self, row: Row) -> bool:
        """Whether a document comes behind the last one and was not there before, so that what is
        common stays so."""
        start, key = row.start, row.key
        if start <= self.at or key in self.keys:
            return False
        return not any(each[2].key == key and each[2].end < start for each in self.fresh)

    def follow(self, common: Common, row: Row, number: float) -> bool:
        """Go on with a document that fits, or end; whether any iteration goes on. A document that
        none sees changes nothing."""
        start, end, seeing, went = row.start, row.end, self.fresh, self.went
        if seeing and seeing[-1][2].end < start:
            fresh = []
        else:
            fresh = [each for each in seeing if each[2].end >= start]
            seeing = [each for each in seeing if each[2].end < start]
            if not seeing and not went:
                return False
        # Lists only grow, so what was there before is told by how many there were.
        self.before = (self.taken, len(self.taken), went, len(went), seeing)
        self.at, self.fresh = end, fresh
        if went and went[0][4] < end:
            went = [each for each in went if each[4] >= end]
        inclusive = common.inclusive
        if went and common.before is not None:
            value = common.before(self.taken[-1])
            if not (number >= value if inclusive else number > value):
                went = []
        if not went:
            self.taken, self.keys, went = [], set(), []
        taken, keys = self.taken, self.keys
        place = len(taken)
        for each in seeing:
            value = each[3]
            if common.comes is None or number > value or (inclusive and number == value):
                went.append((place, *each[1:]))
                keys.add(each[2].key)
        self.went = went
        if not went:
            return False
        taken.append(row)
        keys.add(row.key)
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

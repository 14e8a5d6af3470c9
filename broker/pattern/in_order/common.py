"""Iterations that take the same documents: kept once, with where each of them began.

SASE+ shares its runs so. All iterations of one key go on with what comes, or end; one that has just
begun differs from the others only in what it compares the first document with. That is looked at
when so many documents have come behind it that it may be a match: most of what begins ends before.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, inf

from broker.pattern.in_order.forms import Common
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.instances import Row

Begun = tuple[int, Row, float, int]
"""The number of an iteration, the document that it began with, the number of that one, and the
latest end of what it may take."""

Chain = list[tuple[Row, list[Begun]]]
"""Documents each of which goes on from the one before, with the iterations that saw it first."""


class Runs:
    """The iterations of one key: those that saw the `chain`, and `fresh` ones that saw nothing yet.
    Of the chain, some of the iterations may not take what they saw first; up to `_sifted` they are
    left out, and up to `_over` nothing is left. The last document came at the time `at`, `_seeing`
    are those that saw it first, and `_earlier` is the chain before it did: another one, or the same
    without that document."""

    __slots__ = (
        *("_common", "_earlier", "_newest", "_over", "_seeing", "_sifted", "_value"),
        *("at", "chain", "fresh"),
    )

    def __init__(self, common: Common) -> None:
        self._common = common
        self.chain: Chain = []
        self.fresh: list[Begun] = []
        self.at = -FOR_EVER
        self._newest = -FOR_EVER
        """No document that an iteration saw or began with has a greater key, but for fresh ones."""
        self._value = 0.0
        """The number of the last one of the chain."""
        self._earlier: Chain = []
        self._seeing: list[Begun] = []
        self._sifted = self._over = 0

    def __bool__(self) -> bool:
        """Whether something may go on; with a document of the time of the last one, too."""
        return bool(self.chain or self.fresh or self._seeing or self._earlier)

    def follow(self, row: Row, number: float) -> int | None:
        """Go on with a document, or end; how many documents an iteration may have taken now. None:
        the document does not come behind the last one, or may have been there before, so that what
        was common is not common any more."""
        start, key, seeing, newest = row.start, row.key, self.fresh, self._newest
        if start <= self.at or (key <= newest and key in self._keys()):
            return None
        fresh: list[Begun] = []
        while seeing and seeing[-1][1].end >= start:
            fresh.append(seeing.pop())
        if len(fresh) > 1:
            fresh.reverse()
        chain = self.chain
        if not seeing and not chain:
            seeing += fresh
            return 0
        for each in seeing:
            own = each[1].key
            if own == key:
                seeing += fresh
                return None
            if own > newest:
                newest = own
        self._newest = key if key > newest else newest
        common, value = self._common, self._value
        self.at, self.fresh, self._earlier, self._seeing = row.end, fresh, chain, seeing
        self._value = number if common.before is None else common.before(row)
        if number > value or (number == value and common.inclusive):
            chain.append((row, seeing))
            return len(chain)
        if self._sifted:
            self._sifted = self._over = 0
        for _, _, begun, _ in seeing:
            if number > begun or (number == begun and common.inclusive):
                self.chain = [(row, seeing)]
                return 1
        self.chain = []
        return 0

    def _keys(self) -> set[int]:
        """Those of the documents of the chain, and of those with which iterations began."""
        found = {row.key for row, _ in self.chain}
        return found.union(*[[each[1].key for each in begun] for _, begun in self.chain])

    def matches(self) -> Iterator[tuple[Begun, list[Row]]]:
        """The iterations that have taken as many documents as is asked for, and these."""
        chain, end = self.chain, self.at
        least, most = self._common.counts or (1.0, inf)
        if least == most:
            place = len(chain) - int(most)
            for each in self._may(*chain[place]):
                if each[3] >= end:
                    yield each, [row for row, _ in chain[place:]]
            return
        behind = floor(len(chain) - least) + 1
        self._sift(behind)
        first = self._over
        while first < behind and not any(each[3] >= end for each in chain[first][1]):
            first += 1
        self._over = first
        if len(chain) - most > first:
            first = ceil(len(chain) - most)
        rows = [row for row, _ in chain[first:]] if first < behind else []
        for place in range(first, behind):
            for each in chain[place][1]:
                if each[3] >= end:
                    yield each, rows[place - first :]

    def _sift(self, behind: int) -> None:
        """Leave out the iterations that may not take what they saw first, up to a place."""
        chain = self.chain
        while self._sifted < behind:
            row, begun = chain[self._sifted]
            chain[self._sifted] = (row, self._may(row, begun))
            self._sifted += 1

    def _may(self, row: Row, begun: list[Begun]) -> list[Begun]:
        """The iterations among these that may take a document first."""
        comes, inclusive = self._common.comes, self._common.inclusive
        number = 0.0 if comes is None else comes(row)
        return [each for each in begun if number > each[2] or (inclusive and number == each[2])]

    def expire(self, watermark: int) -> None:
        """Drop the iterations that can take nothing any more."""
        self.fresh = [each for each in self.fresh if each[3] >= watermark]
        if self.at >= watermark:
            return
        chain, gone = self.chain, 0
        self._sift(len(chain))
        if self._common.counts is not None and len(chain) >= self._common.counts[1]:
            gone = floor(len(chain) - self._common.counts[1]) + 1  # what follows is too much
        while gone < len(chain) and not any(each[3] >= watermark for each in chain[gone][1]):
            gone += 1
        if gone:
            self.chain = chain[gone:]
            self._sifted -= gone
            self._over = max(0, self._over - gone)
        self._earlier, self._seeing = [], []

    def states(self) -> Iterator[tuple[Begun, list[Row], bool, int | None]]:
        """All iterations, each with the documents that it has taken: those of now, and of the time
        before the last document, which they saw; those that took it with its version."""
        chain, earlier = self.chain, self._earlier
        for each in self.fresh:
            yield each, [], False, None
        for each, taken in self._of(chain):
            yield each, taken, False, None
        if earlier is chain:
            for each, taken in self._of(chain[:-1]):
                yield each, taken, True, chain[-1][0].doc
        else:
            for each, taken in self._of(earlier):
                yield each, taken, True, None
        took = {each[0] for each in self._may(chain[-1][0], self._seeing)} if chain else set()
        for each in self._seeing:
            yield each, [], True, chain[-1][0].doc if each[0] in took else None

    def _of(self, chain: Chain) -> Iterator[tuple[Begun, list[Row]]]:
        for place, (first, begun) in enumerate(chain):
            for each in self._may(first, begun):
                yield each, [row for row, _ in chain[place:]]

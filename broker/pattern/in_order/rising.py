"""Which documents of FOLD may complete a match, where it asks for two documents or more.

One that is not beyond the one before it ends what has begun, and completes nothing. So it is noted
like what comes before it, and queries have it when one comes that may complete something; most have
gone by then. What is told is told too often where documents are of the same time, never too seldom.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import ceil

from broker.pattern.in_order.events import Reader
from broker.pattern.in_order.forms import Common, Iterated
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.instances import Row

_STEPS = 8
"""Not more documents are looked at."""

Began = tuple[int, int, float | None]
"""An iteration must have begun with a document that ends at a time or behind it, and before another
one, and that a number is beyond, if there is one."""

ANY: Began = (-FOR_EVER, FOR_EVER, None)
"""Any may be completed."""


class Rising:
    """Looks at what is noted: documents by position, without those that were dropped."""

    def __init__(self, common: Common, counts: tuple[float, float], readers: Sequence[Reader]):
        self._begins, self._comes = (reader.number for reader in readers)
        self._before = common.before or self._comes
        self._inclusive = common.inclusive
        self._steps = min(ceil(counts[0]) - 1, _STEPS)
        self._exact = counts[0] == counts[1] == self._steps + 1

    def completes(
        self, at: int, rows: Sequence[Row], ends: array[int], before: array[int], gone: int
    ) -> Began | None:
        """What a document at a position may complete; None for nothing. Documents of its channel
        stand at the position `before` each other."""
        at, earlier = at - gone, before[at - gone] - gone
        if earlier >= 0 and rows[at].start <= ends[earlier]:
            return ANY
        for _ in range(self._steps):
            if earlier < 0:
                return None
            first = before[earlier] - gone
            if first >= 0 and rows[earlier].start <= ends[first]:
                return ANY
            if not self._goes_on(rows[at], rows[earlier]):
                return None
            at, earlier = earlier, first
        start = rows[at].start
        if not self._exact or self._comes is None:
            return (-FOR_EVER, start, None)
        # What began before the document in front of it has taken that one, or has ended.
        return (rows[earlier].start if earlier >= 0 else -FOR_EVER, start, self._comes(rows[at]))

    def _goes_on(self, row: Row, earlier: Row) -> bool:
        if self._comes is None or self._before is None:
            return True
        number, value = self._comes(row), self._before(earlier)
        return number > value or (self._inclusive and number == value)

    def began(self, asked: Began, row: Row) -> bool:
        """Whether a document of the first block is one that is asked for, but for its end."""
        number = asked[2]
        if number is None or self._begins is None:
            return True
        value = self._begins(row)
        return number > value or (self._inclusive and number == value)


def rising_of(form: object, readers: Sequence[Reader]) -> Rising | None:
    """What tells it of a form; None if one document may complete a match, or more is asked than of
    documents that follow one another."""
    if not isinstance(form, Iterated) or form.common is None or form.partitioned:
        return None
    counts = form.common.counts
    if counts is None or counts[0] < 2 or form.asked.tie is not None:
        return None
    return Rising(form.common, counts, readers)

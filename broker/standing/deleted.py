"""Documents that were deleted while windows still reached them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from broker.model import UNBOUNDED
from broker.pattern.in_order.standing import Answer
from broker.pattern.instances import Row


class Deleted(NamedTuple):
    """Which they are, of those with numbers up to `newest`: all that ended before a time, and some
    others, with when they end; but for those that were revised since, and so are there again.
    `unexpired` says of some documents which are there."""

    before: int = -UNBOUNDED
    docs: Mapping[int, int] = MappingProxyType({})
    newest: int = -1
    unexpired: Callable[[Collection[int]], set[int]] = set

    def left(self, answer: Answer) -> Answer:
        """The matches of an answer that contain none of them."""
        if self is NONE:
            return answer
        every = (each for published in answer.values() for each in published or ())
        gone = {row.doc for each in every for row in each.instance.rows if self._may_have(row)}
        if gone:
            gone -= self.unexpired(gone)
        return _without(answer, gone) if gone else answer

    def _may_have(self, row: Row) -> bool:
        return row.doc <= self.newest and (row.end < self.before or row.doc in self.docs)


NONE = Deleted()


def _without(answer: Answer, gone: set[int]) -> Answer:
    return {
        number: published
        if published is None
        else [each for each in published if gone.isdisjoint([r.doc for r in each.instance.rows])]
        for number, published in answer.items()
    }

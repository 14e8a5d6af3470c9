"""Documents that are not stored any more, though windows still reach them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from broker.model import UNBOUNDED
from broker.pattern.in_order.standing import Answer
from broker.pattern.instances import Row


class Deleted(NamedTuple):
    """Which they are: all that ended before a time, and some others, with when they end. A match
    that contains one is none."""

    before: int = -UNBOUNDED
    docs: Mapping[int, int] = MappingProxyType({})

    def left(self, answer: Answer) -> Answer:
        """The matches of an answer that contain none of them."""
        if self is NONE:
            return answer
        return {
            number: published
            if published is None
            else [each for each in published if not any(map(self._has, each.instance.rows))]
            for number, published in answer.items()
        }

    def _has(self, row: Row) -> bool:
        return row.end < self.before or row.doc in self.docs


NONE = Deleted()

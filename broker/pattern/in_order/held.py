"""What waits: found by a bound, in the order of that number, so that what comes meets those alone
which it satisfies."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from typing import Any

from broker.pattern.instances import Instance, Row

FOR_EVER = 1 << 62
"""The `last` of what nothing bounds."""


@dataclass(slots=True, eq=False)
class Held:
    """What waits for what comes: the document `row`, and the `taken` ones of an iteration with its
    `computed` values. It ends at `end`; nothing that ends after `last` concerns it.

    `number` is its place in the order of arrival, `key` what it is found by, and `bounds` are the
    numbers that what comes is compared with, None for one that is not asked. `over` is when it
    found what it waits for, or was forbidden, which was `by` the document of that key; `again` is
    when another one forbade it too. Of an iteration `by` is the last document that it went on with.
    `keys` are those of its documents, where it has taken any.
    """

    row: Row
    end: int
    last: int
    number: int
    key: float
    bounds: tuple[float | None, ...] = ()
    taken: tuple[Instance, ...] = ()
    computed: Mapping[str, Any] = field(default_factory=dict)
    keys: frozenset[int] = frozenset()
    over: int | None = None
    by: int | None = None
    again: int | None = None


def key_of(bounds: tuple[float | None, ...]) -> float:
    """What is found by its bounds: first where nothing is asked, last where it is no number."""
    found = bounds[0] if bounds else None
    if found is None:
        return -inf
    return found if found == found else inf


_key = attrgetter("key")

_BLOCK = 512


class Waiting:
    """What waits, in order of its first bound, in blocks, so that to add one moves few."""

    def __init__(self) -> None:
        self._blocks: list[list[Held]] = []
        self._firsts: list[float] = []
        """The least number of each block."""

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __iter__(self) -> Iterator[Held]:
        for block in self._blocks:
            yield from block

    def add(self, held: Held) -> None:
        key = held.key
        at = max(0, bisect_right(self._firsts, key) - 1)
        if not self._blocks:
            self._blocks, self._firsts = [[held]], [key]
            return
        block = self._blocks[at]
        insort(block, held, key=_key)
        self._firsts[at] = block[0].key
        if len(block) > _BLOCK:
            half = len(block) // 2
            self._blocks[at : at + 1] = [block[:half], block[half:]]
            self._firsts[at : at + 1] = [block[0].key, block[half].key]

    def remove(self, held: Held) -> None:
        """Remove one, if it is there."""
        key = held.key
        at = max(0, bisect_left(self._firsts, key) - 1)
        while at < len(self._blocks) and self._firsts[at] <= key:
            block = self._blocks[at]
            place = bisect_left(block, key, key=_key)
            while place < len(block) and block[place].key == key:
                if block[place] is held:
                    del block[place]
                    self._renew(at)
                    return
                place += 1
            at += 1

    def _renew(self, at: int) -> None:
        if self._blocks[at]:
            self._firsts[at] = self._blocks[at][0].key
        else:
            del self._blocks[at], self._firsts[at]

    def below(self, number: float | None, inclusive: bool) -> list[Held]:
        """Those whose bound this number is beyond, or `inclusive` at; None: all."""
        if number is None:
            return [*self]
        found: list[Held] = []
        for first, block in zip(self._firsts, self._blocks, strict=True):
            if first > number or number != number:
                break
            if block[-1].key < number:
                found += block
                continue
            side = bisect_right if inclusive else bisect_left
            found += block[: side(block, number, key=_key)]
        return found

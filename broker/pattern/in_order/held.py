"""What waits: found by a bound, in the order of that number, so that what comes meets those alone
which it satisfies."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Any

FOR_EVER = 1 << 62
"""The `last` of what nothing bounds."""


def least(*windows: int | None) -> int:
    """The shortest of some windows; `FOR_EVER` if there is none."""
    return min([FOR_EVER, *[window for window in windows if window is not None]])


def key_of(bound: float | None) -> float:
    """What is found by its bound: first where nothing is asked, last where it is no number."""
    if bound is None:
        return -inf
    return bound if bound == bound else inf


Entry = tuple[Any, ...]
"""What is found by a bound: that number, and one that no other entry has; then whatever belongs to
it."""

_first = itemgetter(0)

BLOCK = 512
"""So many entries are in a block at most."""


class Waiting:
    """Entries in order of their bounds, in blocks, so that to add one moves few."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: list[list[Entry]] = []

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(self.blocks)

    def add(self, entry: Entry) -> None:
        blocks = self.blocks
        if not blocks:
            blocks.append([entry])
            return
        at = 0 if len(blocks) == 1 else self._at(entry)
        block = blocks[at]
        insort(block, entry)
        if len(block) > BLOCK:
            half = len(block) // 2
            blocks[at : at + 1] = [block[:half], block[half:]]

    def _at(self, entry: Entry) -> int:
        """The block in which an entry stands."""
        return max(0, bisect_right(self.blocks, entry, key=_first) - 1)

    def remove(self, entry: Entry) -> None:
        """Remove an entry, if it is there."""
        if not self.blocks:
            return
        at = self._at(entry)
        block = self.blocks[at]
        place = bisect_left(block, entry[:2])
        if place < len(block) and block[place][:2] == entry[:2]:
            del block[place]
            if not block:
                del self.blocks[at]

    def has(self, entry: Entry) -> bool:
        """Whether an entry is there."""
        if not self.blocks:
            return False
        block = self.blocks[self._at(entry)]
        place = bisect_left(block, entry[:2])
        return place < len(block) and bool(block[place][:2] == entry[:2])

    def keep(self, left: list[Entry]) -> None:
        """Have these, which are in order, and no others."""
        self.blocks = [left[n : n + BLOCK] for n in range(0, len(left), BLOCK)]

    def expire(self, watermark: int, place: int) -> int:
        """Drop the entries whose time at a place is over; the first time of what is left."""
        first, over = FOR_EVER, False
        for block in self.blocks:
            for entry in block:
                time = entry[place]
                if time < watermark:
                    over = True
                elif time < first:
                    first = time
        if over:
            self.keep([entry for entry in self if entry[place] >= watermark])
        return first

    def below(self, most: tuple[float, ...]) -> list[Entry]:
        """Those before a bound and a number."""
        blocks = self.blocks
        if most[0] != most[0]:
            return []
        found: list[Entry] = []
        for block in blocks:
            if not block[0] < most:
                break
            found += block[: bisect_left(block, most)]
        return found

    def take_below(self, most: tuple[float, ...]) -> list[Entry]:
        """The same, and remove them."""
        blocks = self.blocks
        if len(blocks) == 1:
            block = blocks[0]
            count = bisect_left(block, most)
            if not count:
                return []
            if count == len(block):
                blocks.clear()
                return block
            found = block[:count]
            del block[:count]
            return found
        found = self.below(most)
        left = len(found)
        while left:
            block = blocks[0]
            if left < len(block):
                del block[:left]
                break
            left -= len(block)
            del blocks[0]
        return found

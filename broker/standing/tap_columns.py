"""Whom the documents of taps come to, in columns: for a whole batch it is found at once.

Where very many taps differ in their constants, each document is for other ones, of which nothing is
in a cache: to look at their objects one after the other takes far longer than what is done with
them.
"""

from __future__ import annotations

from array import array

import numpy as np

from broker.pattern.in_order.takers import LARGE, Numbers
from broker.standing.live import Group
from broker.standing.tap_index import Share, Tap, TapIndex
from broker.standing.taps import Written

_STALE = 1_000
"""So many shares of taps that have changed are kept beside as many as there are."""

Kind = tuple[Group, int]
"""What is the same for very many shares: their group, and the place of what they have written."""


class TapColumns:
    """By the number of the canonical query that finds a tap, its shares are so many of `_counts`
    from a place of `starts` on, which is negative where its documents have to be looked at one by
    one. Of each share there is its kind, of `kinds`, with what it has `written`, and the number of
    its channel. All of them know documents from `first_doc` on."""

    def __init__(self, taps: TapIndex) -> None:
        self.taps = taps
        self._clear()

    def _clear(self) -> None:
        self.starts = array("i", [-1])
        self._counts = array("i", [0])
        self.kinds: list[Kind] = []
        self.written: list[Written] = []
        self._kind_of: dict[tuple[Group, Written], int] = {}
        self._place_of: dict[Written, int] = {}
        self._kinds = array("i")
        self._numbers = array("q")
        self._used = 0
        """So many shares are of a tap that has not changed since."""
        self.first_doc = 0

    def renew(self) -> None:
        """Look at the taps that have changed."""
        changed = self.taps.changed
        if not changed:
            return
        self.taps.changed = set()
        if len(self._kinds) > 2 * self._used + _STALE:
            self._clear()
            changed = self.taps.queries()
        for query in changed:
            more = query + 2 - len(self.starts)
            if more > 0:  # what stands behind all of them is no tap
                self.starts.extend([-1] * more)
                self._counts.extend([0] * more)
            self._used -= self._counts[query]
            self.starts[query], self._counts[query] = -1, 0
            every = [*self.taps.of_query(query)]
            if len(every) == 1:
                self._enter(query, every[0])

    def _enter(self, query: int, tap: Tap) -> None:
        if tap.alone or tap.groups or not tap.reader.is_plain:
            return
        kinds, numbers = [], []
        for share in tap.shares:
            if len(share.owners) > LARGE:  # of which another channel is made when one comes
                return
            number = share.group.standing.number_of(share.channel, share.place)
            if number is None or share.group.floored:
                return
            kinds.append(self._kind(share))
            numbers.append(number)
            self.first_doc = max(self.first_doc, share.first_doc)
        self.starts[query] = len(self._kinds)
        self._counts[query] = len(kinds)
        self._used += len(kinds)
        self._kinds.extend(kinds)
        self._numbers.extend(numbers)

    def _kind(self, share: Share) -> int:
        of = self._kind_of
        known = of.get((share.group, share.written))
        if known is None:
            if share.written not in self._place_of:
                self._place_of[share.written] = len(self.written)
                self.written.append(share.written)
            known = of[share.group, share.written] = len(self.kinds)
            self.kinds.append((share.group, self._place_of[share.written]))
        return known

    def expanded(self, queries: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The shares of the taps that these queries find: which of the queries, and of each share
        its kind and the number of its channel."""
        counts = np.frombuffer(self._counts, np.int32)[queries].astype(np.int64)
        starts = np.frombuffer(self.starts, np.int32)[queries]
        ends = counts.cumsum()
        at = np.arange(ends[-1] if len(ends) else 0) + (starts - ends + counts).repeat(counts)
        kinds, numbers = (
            np.frombuffer(self._kinds, np.int32),
            np.frombuffer(self._numbers, np.int64),
        )
        return np.arange(len(queries)).repeat(counts), kinds[at], numbers[at]

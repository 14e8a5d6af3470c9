"""What waits before the last block, made once for all queries that take the same documents there.

RUMOR shares prefixes by making what they find a stream of its own. Here what is noted for the same
channels is taken once, for a *prefix*, which stands for its queries where a query would stand.
Where nothing is consumed (NOT, groups), a document for the last block of one of these looks at what
waits for the prefix; with NEXT it pulls what the prefix has found and the query has not had. It is
a cache of what is noted: a prefix that is forgotten is made again, of what a match can still
contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.pattern.in_order.channels import Offered
from broker.pattern.in_order.events import ALL
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.takers import Takers
from broker.pattern.instances import Row
from broker.pattern.plan import Window


class Prefix:
    """`number` is one that no query has; it has `had` what is noted before a position."""

    __slots__ = ("had", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.had = 0


class Prefixes:
    """Prefixes by the numbers of their channels. `pulls`: queries pull what a prefix has found, as
    each consumes it for itself. While queries decide `one_by_one`, none has a prefix."""

    def __init__(self, kept: Window, *, pulls: bool) -> None:
        self.pulls = pulls
        self.one_by_one = False
        self._kept = kept or 0
        self._by: dict[tuple[int, ...], Prefix] = {}
        self._number = ALL
        self._alone: dict[int, int] = {}
        """By query, when the last of what came to it alone ends: while a match may contain that, it
        has no prefix."""

    def begin(self, ready: Iterable[Offered], *, one_by_one: bool) -> None:
        """These events are decided, some of them for one query alone."""
        self.one_by_one = one_by_one
        self.came_alone([(event[3], event[-1]) for event in ready if type(event[3]) is int])

    def came_alone(self, rows: Iterable[tuple[int, Row]]) -> None:
        """Rows come to queries that others do not have."""
        alone = self._alone
        for owner, row in rows:
            if alone.get(owner, -FOR_EVER) < row.end:
                alone[owner] = row.end

    def of(self, owner: int, channels: Sequence[int], takers: Takers, start: int) -> Prefix | None:
        """The prefix of a query, which has these channels, for a document that starts at a time;
        None if it has something that others have not, or all for itself."""
        if self.one_by_one or not channels or any(takers.is_alone(each) for each in channels):
            return None
        alone = self._alone.get(owner)
        if alone is not None and alone >= start - self._kept:
            return None
        key = (*channels,)
        found = self._by.get(key)
        if found is None:
            self._number -= 1
            found = self._by[key] = Prefix(self._number)
        return found

    def count(self) -> int:
        """How many there have been."""
        return ALL - self._number

    def forget(self, gone: int, horizon: int) -> Sequence[int]:
        """Forget those that had nothing behind a position, and what came alone before a time; the
        numbers of these prefixes."""
        if self._alone:
            self._alone = {owner: end for owner, end in self._alone.items() if end >= horizon}
        old = [(channels, each.number) for channels, each in self._by.items() if each.had <= gone]
        for channels, _ in old:
            del self._by[channels]
        return [number for _, number in old]


def is_prefix(owner: int) -> bool:
    """Whether a number is that of a prefix."""
    return owner < ALL

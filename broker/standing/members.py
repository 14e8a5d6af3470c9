"""Which patterns there are: subscriptions of one text that know the same documents share one."""

from __future__ import annotations

from itertools import count

from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.standing.groups import Groups
from broker.standing.live import Group, Live, kind
from broker.standing.marks import Marking
from broker.standing.tap_columns import TapColumns
from broker.standing.tap_index import TapIndex
from broker.standing.told import Told
from broker.state.pattern_tables import Entry


class Members:
    """The patterns in memory. `of` are they by the numbers of their subscriptions, `live` by their
    own numbers; `groups` are those that are matched together. `in_order`: those that can be are."""

    def __init__(self, catalog: Catalog, budget: int, marks: Marking, told: Told) -> None:
        self._catalog = catalog
        self.in_order = True
        self.live: dict[int, Live] = {}
        self.groups = Groups(
            budget, lambda number: marks.of(self.live[number].entry.number), told.of
        )
        self._number = count()
        self.clear()

    def clear(self) -> None:
        self.of: dict[int, Live] = {}
        self.live.clear()
        self._kinds: dict[object, Live] = {}
        self.groups.clear()
        self.taps = TapIndex(self._catalog)
        self.columns = TapColumns(self.taps)

    def join(self, subscription: Subscription, entry: Entry) -> None:
        """Add a subscription to the pattern that it shares, or make one."""
        of = kind(subscription, entry)
        pattern = self._kinds.get(of)
        if pattern is None:
            number = next(self._number)
            pattern = self._kinds[of] = self.live[number] = Live(number, entry)
            pattern.subscriptions[entry.number] = subscription
            self.group(pattern)
            self.taps.add(pattern)
        pattern.subscriptions[entry.number] = subscription
        self.of[entry.number] = pattern

    def group(self, pattern: Live) -> None:
        """Add a pattern to those that it is matched together with, if it is decided in the order of
        time."""
        shared = pattern.pattern.ordered
        if shared is not None and self.in_order:
            self.groups.join(pattern, shared, self._number)

    def move(self, pattern: Live, entry: Entry) -> None:
        """Register a pattern as another entry."""
        gone = self.taps.remove(pattern)
        self.groups.leave(pattern)
        pattern.entry = entry
        self.group(pattern)
        self.taps.add(pattern)
        for name in gone:
            self.taps[name].stored = True

    def renew(self, group: Group) -> Group:
        """Let nothing wait for the patterns of a group, which is another one from now on."""
        renewed = self.groups.renew(group, self._number)
        self.taps.renew(group, renewed)
        return renewed

    def find(self, number: int) -> Live | Group | None:
        """A pattern or a group."""
        return self.live.get(number) or self.groups.numbered.get(number)

    def leave(self, pattern: Live, number: int) -> list[str]:
        """Take a subscription from its pattern; the taps that go with it. A pattern without
        subscriptions goes."""
        of = kind(pattern.subscriptions[number], pattern.entry)
        del self.of[number]
        gone: list[str] = []
        if len(pattern.subscriptions) == 1:
            del self._kinds[of], self.live[pattern.number]
            gone = self.taps.remove(pattern)
            self.groups.leave(pattern)
        del pattern.subscriptions[number]
        return gone

    def renew_kinds(self) -> None:
        """Sort the patterns anew, after entries have changed."""
        self._kinds = {kind(each.subscription, each.entry): each for each in self.live.values()}

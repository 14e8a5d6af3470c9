"""Which patterns there are: subscriptions of one text that know the same documents share one."""

from __future__ import annotations

from itertools import count

from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.standing.live import Live, TapIndex, kind
from broker.state.pattern_tables import Entry


class Members:
    """The patterns in memory. `of` are they by the numbers of their subscriptions, `live` by their
    own numbers."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._number = count()
        self.clear()

    def clear(self) -> None:
        self.of: dict[int, Live] = {}
        self.live: dict[int, Live] = {}
        self._kinds: dict[object, Live] = {}
        self.taps = TapIndex(self._catalog)

    def join(self, subscription: Subscription, entry: Entry) -> None:
        """Add a subscription to the pattern that it shares, or make one."""
        of = kind(subscription, entry)
        pattern = self._kinds.get(of)
        if pattern is None:
            number = next(self._number)
            pattern = self._kinds[of] = self.live[number] = Live(number, entry)
        pattern.subscriptions[entry.number] = subscription
        self.of[entry.number] = pattern
        self.taps.add(pattern)

    def leave(self, pattern: Live, number: int) -> list[str]:
        """Take a subscription from its pattern; the taps that go with it. A pattern without
        subscriptions goes."""
        of = kind(pattern.subscriptions[number], pattern.entry)
        del self.of[number], pattern.subscriptions[number]
        if pattern.subscriptions:
            return []
        del self._kinds[of], self.live[pattern.number]
        return self.taps.remove(pattern)

    def renew_kinds(self) -> None:
        """Sort the patterns anew, after entries have changed."""
        self._kinds = {kind(each.subscription, each.entry): each for each in self.live.values()}

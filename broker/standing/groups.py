"""Which patterns are matched together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.pattern.in_order.shared import Shared
from broker.pattern.in_order.standing import Together
from broker.pattern.keeping import Known, Names
from broker.standing.live import Group, GroupKey, Live


class Groups:
    """The groups, by what their patterns have in common, and by number. `known` and `told`
    are those of `Keeping`."""

    def __init__(self, budget: int, known: Callable[[int], Known], told: Names) -> None:
        self._budget = budget
        self._marks = known
        self._told = told
        self._known: dict[GroupKey, Group] = {}
        self._moves = 0
        self.numbered: dict[int, Group] = {}

    def join(self, pattern: Live, shared: Shared, numbers: Iterator[int]) -> None:
        """Add a pattern to its group, or make one with the next number."""
        entry = pattern.entry
        key = (id(shared), entry.lateness, entry.floor, 0 if entry.floor is None else self._moves)
        group = self._known.get(key)
        if group is None:
            number = next(numbers)
            standing = Together(shared, self._budget, self._marks, self._told)
            group = self._known[key] = Group(number, key, entry, standing)
            self.numbered[number] = group
        group.join(pattern)
        group.standing.join(pattern.number, entry.first_doc)
        pattern.group = group

    def leave(self, pattern: Live) -> None:
        """Take a pattern from its group, with all that waits for it."""
        group, pattern.group = pattern.group, None
        if group is None:
            return
        group.leave(pattern.number)
        if group.patterns:
            group.standing.leave(pattern.number)
            return
        del self._known[group.key], self.numbered[group.number]

    def renew(self, group: Group, numbers: Iterator[int]) -> Group:
        """Put another group, with the next number, in the place of one, where nothing waits for its
        patterns."""
        standing = Together(group.standing.shared, self._budget, self._marks, self._told)
        renewed = Group(next(numbers), group.key, group.entry, standing, group.patterns)
        for pattern in group.patterns.values():
            standing.join(pattern.number, pattern.entry.first_doc)
            pattern.group = renewed
        del self.numbered[group.number]
        self.numbered[renewed.number] = self._known[group.key] = renewed
        return renewed

    def move(self) -> None:
        """From now on, those whose lateness has changed are not matched together with those of
        which it changed before: they have decided other things."""
        self._moves += 1

    def clear(self) -> None:
        self._known.clear()
        self.numbered.clear()

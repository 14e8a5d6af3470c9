"""Registered patterns in memory, by themselves and in groups.

A pattern that has seen no document yet is little more than its subscription: what matches it is
made for its first row, as most of very many patterns wait for documents that never come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from broker.model import UNBOUNDED
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.member import Member
from broker.pattern.in_order.standing import Together
from broker.pattern.in_order.takers import Numbers
from broker.pattern.instances import Row
from broker.pattern.standing import Standing
from broker.query.canonical import Subscription
from broker.query.patterns import TAP, PatternQuery, TapQuery
from broker.standing.results import Maker
from broker.state.pattern_tables import Entry
from broker.state.stored_taps import StoredTaps

Block = tuple[int, TapQuery]
"""The place of a block's tap in the plan, and that tap."""

Owns = Callable[["Live", int, Row], bool]
"""Whether a row of the block at a place is for a pattern here, and not elsewhere."""


@dataclass(eq=False)
class Live:
    """A pattern in memory, once for all `subscriptions` of one text that know the same documents:
    they are registered as the same `entry`, but for their numbers. `number` is its own.

    With a `group` it is matched and decides together with others, and what there is of it is there.
    Of one without, `made` is None while there are no rows of its documents; `pending` are rows that
    it has not seen, by the places of their taps in the plan; `newest` is when the last of its rows
    ends. It decides something without a new row at the highest time `due`. `too_much`: there was a
    row with more combinations of values than it may have.
    """

    number: int
    entry: Entry
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    group: Group | None = None
    made: Standing | None = None
    pending: dict[int, list[Row]] = field(default_factory=dict)
    newest: int = -UNBOUNDED
    due: int = UNBOUNDED
    too_much: bool = False

    @property
    def standing(self) -> Standing | Member | None:
        """What matches it; None while there are no rows of its documents."""
        group = self.group
        if group is None:
            return self.made
        return Member(group.standing, self.number) if self.number in group.newest else None

    @property
    def asleep(self) -> StoredTaps | None:
        """Its stored rows, of which nothing is made yet."""
        return None if self.group is None else self.group.asleep.get(self.number)

    def came(self, end: int) -> None:
        """There is a row of its documents that ends at a time."""
        if self.group is not None:
            self.group.came((self.number,), end)
        elif self.newest < end:
            self.newest = end

    @property
    def subscription(self) -> Subscription:
        """One of its subscriptions."""
        return next(iter(self.subscriptions.values()))

    @cached_property
    def pattern(self) -> PatternQuery:
        pattern = self.subscription.pattern
        assert pattern is not None
        return pattern

    @cached_property
    def maker(self) -> Maker:
        return Maker(self.pattern) if self.group is None else self.group.maker

    @cached_property
    def taps(self) -> Sequence[str]:
        """The ids of its taps, by their places in the plan."""
        return tap_names(self.subscription)

    @cached_property
    def blocks(self) -> Mapping[str, Sequence[Block]]:
        """The blocks that each of its taps is for."""
        found: dict[str, list[Block]] = {}
        for place, (name, query) in enumerate(zip(self.taps, self.pattern.taps, strict=True)):
            found.setdefault(name, []).append((place, query))
        return found

    @cached_property
    def _own(self) -> Mapping[str, Sequence[Block]]:
        shared = self.pattern.ordered
        assert shared is not None
        return {
            name: [block for block in blocks if block[0] not in shared.common]
            for name, blocks in self.blocks.items()
        }

    @property
    def own(self) -> Mapping[str, Sequence[Block]]:
        """The blocks that each of its taps is for, without what concerns all of its group."""
        return self.blocks if self.group is None else self._own

    def watermark(self, highest: int) -> int | None:
        """Its watermark where this is the highest time."""
        return watermark_of(self.entry, highest)

    def highest(self, due: int) -> int:
        """The highest time at which twice its watermark is at `due`; UNBOUNDED for never."""
        return time_of(due, self.entry.lateness)

    def takes(self, base: int, end: int, seen: int | None) -> bool:
        """Whether it takes a document, as `takes` says."""
        return takes(self.entry, base, end, seen)


GroupKey = tuple[int, int, int | None, int]
"""What the patterns of a group have in common: the form, the lateness, and what was decided before
that was changed."""


@dataclass(eq=False)
class Group:
    """Patterns by their numbers, registered with the same lateness as `entry`, and decided up to
    the same time before that was changed. They decide something without a new row at the highest
    time `due`. `number` is one that no pattern has. Of what is `asleep` nothing is made yet of the
    stored rows."""

    number: int
    key: GroupKey
    entry: Entry
    standing: Together
    patterns: dict[int, Live] = field(default_factory=dict)
    due: int = UNBOUNDED
    asleep: dict[int, StoredTaps] = field(default_factory=dict)
    _newest: dict[int, int] = field(default_factory=dict)
    _came: list[Channel] = field(default_factory=list)
    """The channels to all of whose patterns something came since somebody asked, each with when the
    last of that ends."""
    _came_by: list[tuple[Numbers, list[int]]] = field(default_factory=list)
    """The same by the numbers of channels, and when each of the rows ends."""
    _left: set[int] = field(default_factory=set)
    """Those that have gone since somebody asked."""
    floored: bool = field(init=False)
    """Whether they had decided up to some time before their lateness was changed."""

    def __post_init__(self) -> None:
        self.floored = self.entry.floor is not None

    @property
    def newest(self) -> dict[int, int]:
        """Of the patterns that have rows, when the last of these ends."""
        self._settle()
        return self._newest

    def _settle(self) -> None:
        if self._came_by:
            by, self._came_by = self._came_by, []
            for numbers, ends in by:
                for channel, end in zip(self.standing.channels(numbers), ends, strict=True):
                    self.came_to(channel, end)
        if self._came:
            came, self._came = self._came, []
            for channel in came:
                self.came(channel.owners, channel.newest)
                channel.newest = -FOR_EVER
        for number in self._left:
            self._newest.pop(number, None)
        self._left.clear()

    def join(self, pattern: Live) -> None:
        """A pattern comes."""
        if pattern.number in self._left:  # it has nothing any more of what came to it before
            self._settle()
        self.patterns[pattern.number] = pattern

    def leave(self, number: int) -> None:
        """A pattern goes. Which of the others have rows is not asked for that."""
        del self.patterns[number]
        self.asleep.pop(number, None)
        self._left.add(number)

    def came(self, owners: Iterable[int], end: int) -> None:
        """There is a row of these patterns that ends at a time."""
        newest = self._newest
        for owner in owners:
            if newest.get(owner, -UNBOUNDED) < end:
                newest[owner] = end

    def came_all(self, numbers: Numbers, rows: Sequence[Row]) -> None:
        """The same of rows, each for the channel of a number."""
        self._came_by.append((numbers, [row.end for row in rows]))

    def came_to(self, channel: Channel, end: int) -> None:
        """There is a row of the patterns of a channel that ends at a time. Nobody asks for each of
        very many patterns when its last row ends."""
        if channel.newest < end:
            if channel.newest == -FOR_EVER:
                self._came.append(channel)
            channel.newest = end

    @property
    def first(self) -> Live:
        """One of its patterns."""
        return next(iter(self.patterns.values()))

    @cached_property
    def maker(self) -> Maker:
        """What makes the matches of all of them, as they differ in constants of their blocks."""
        return Maker(self.first.pattern)

    def watermark(self, highest: int) -> int | None:
        """Its watermark where this is the highest time."""
        return watermark_of(self.entry, highest)

    def highest(self, due: int) -> int:
        """The highest time at which twice its watermark is at `due`; UNBOUNDED for never."""
        return time_of(due, self.entry.lateness)

    def takes(self, end: int, seen: int | None) -> bool:
        """Whether those of its patterns that know a document take it, as `takes` says."""
        return takes(self.entry, self.entry.first_doc, end, seen)


def time_of(due: int, lateness: int) -> int:
    """The highest time at which the watermark is that far; `due` is twice the watermark. UNBOUNDED
    for never."""
    return min(UNBOUNDED, (due + 1) // 2 + lateness)


def watermark_of(entry: Entry, highest: int) -> int | None:
    """The watermark of a pattern that is registered so, where this is the highest time."""
    if highest <= -UNBOUNDED or entry.lateness >= UNBOUNDED:
        return entry.floor
    found = highest - entry.lateness
    return found if entry.floor is None else max(found, entry.floor)


def takes(entry: Entry, base: int, end: int, seen: int | None) -> bool:
    """Whether a pattern that is registered so takes a document that ends at this time, of which the
    oldest that it is made of has the number `base`. `seen` is the highest time when it came, None
    if it was not older than that, or is made of results."""
    if base < entry.first_doc:
        return False
    if seen is None or (end >= seen and entry.floor is None):
        return True
    watermark = watermark_of(entry, seen)
    return watermark is None or end >= watermark


def tap_names(subscription: Subscription) -> list[str]:
    """The ids of a pattern's taps, by their places in its plan."""
    return [inner.id for inner in subscription.nested if inner.id.startswith(TAP)]


def kind(subscription: Subscription, entry: Entry) -> object:
    """What is the same for subscriptions that share what matches them: those of one text that know
    the same documents, and have no memory of matches."""
    pattern = subscription.pattern
    assert pattern is not None
    strategy = pattern.plan.query.strategy
    if strategy is not None and strategy.choosing is not None:
        return entry
    return (subscription.canonical.number, entry._replace(number=0))

"""Registered patterns in memory, and which of them take the documents of a tap.

A pattern that has seen no document yet is little more than its subscription: what matches it is
made for its first row, as most of very many patterns wait for documents that never come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from broker.model import UNBOUNDED
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.member import Member
from broker.pattern.in_order.standing import Together
from broker.pattern.instances import Row
from broker.pattern.standing import Standing
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.query.patterns import TAP, PatternQuery, TapQuery
from broker.standing.results import Maker
from broker.standing.taps import TapReader, reader_of
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

    `standing` is None while there are no rows of its documents. `pending` are rows that it has not
    seen, by the places of their taps in the plan; `newest` is when the last of its rows ends. It
    decides something without a new row at the highest time `due`. `too_much`: there was a row with
    more combinations of values than it may have. With a `group` it is matched and decides together
    with others. Of what is `asleep` nothing is made yet.
    """

    number: int
    entry: Entry
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    standing: Standing | Member | None = None
    group: Group | None = None
    asleep: StoredTaps | None = None
    pending: dict[int, list[Row]] = field(default_factory=dict)
    newest: int = -UNBOUNDED
    due: int = UNBOUNDED
    too_much: bool = False

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
    time `due`. `number` is one that no pattern has."""

    number: int
    key: GroupKey
    entry: Entry
    standing: Together
    patterns: dict[int, Live] = field(default_factory=dict)
    due: int = UNBOUNDED

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


class Share(NamedTuple):
    """A group, one of its blocks, and those of its patterns that take what comes for it: all of
    them are one channel."""

    group: Group
    block: Block
    patterns: list[Live]
    channel: Channel


@dataclass(slots=True, eq=False)
class Tap:
    """A tap, and the patterns that take its documents, by their own numbers, and the groups of
    which they concern all, each with a place of the tap. `stored`: there are rows of it, or may be.
    `query` is what it is to one of them, and `subscription` what finds its documents."""

    name: str
    query: TapQuery
    subscription: Subscription
    patterns: dict[int, Live] = field(default_factory=dict)
    groups: dict[int, tuple[Group, Block]] = field(default_factory=dict)
    stored: bool = False
    branch: Any = None
    """What `Ways` has made of it for the latest layout of its documents."""
    _reader: TapReader | None = None
    _shares: Sequence[Share] | None = None
    _alone: Sequence[Live] = ()

    def __bool__(self) -> bool:
        """Whether anybody takes its documents."""
        return bool(self.patterns or self.groups)

    @property
    def reader(self) -> TapReader:
        """What reads its documents, made for the first of them: most taps never have one."""
        if self._reader is None:
            self._reader = reader_of(self.query, self.subscription)
        return self._reader

    def shares(self) -> Sequence[Share]:
        """Its patterns by the groups that they are in, and the blocks that it is for."""
        if self._shares is None and len(self.patterns) == 1:
            (pattern,) = self.patterns.values()
            group = pattern.group
            self._alone, self._shares = (pattern,), ()
            if group is not None:
                self._alone, numbers = (), [pattern.number]
                own = pattern.own[self.name]
                self._shares = [Share(group, b, [pattern], Channel(numbers)) for b in own]
        if self._shares is None:
            self._alone = [each for each in self.patterns.values() if each.group is None]
            found: dict[tuple[int, int], Share] = {}
            for pattern in self.patterns.values():
                group = pattern.group
                for block in pattern.own[self.name] if group is not None else ():
                    assert group is not None
                    key = (group.number, block[0])
                    if key not in found:
                        found[key] = Share(group, block, [], Channel([]))
                    found[key].patterns.append(pattern)
                    found[key].channel.owners.append(pattern.number)
            self._shares = [*found.values()]
        return self._shares

    def alone(self) -> Sequence[Live]:
        """Its patterns that are in no group."""
        self.shares()
        return self._alone

    def renew(self) -> None:
        """Its patterns, or their groups, have changed."""
        self._shares = self.branch = None


class TapIndex:
    """The patterns by their taps."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._taps: dict[str, Tap] = {}
        self.version = object()
        """Another one whenever a pattern has come or gone, or changed its group."""

    def __getitem__(self, name: str) -> Tap:
        return self._taps[name]

    def get(self, name: str) -> Tap | None:
        return self._taps.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._taps

    def add(self, pattern: Live) -> None:
        self.version = object()
        for name, query in zip(pattern.taps, pattern.pattern.taps, strict=True):
            tap = self._taps.get(name)
            if tap is None:
                tap = self._taps[name] = Tap(name, query, self._catalog.subscriptions[name])
            self._enter(tap, name, pattern)

    def _enter(self, tap: Tap, name: str, pattern: Live) -> None:
        group = pattern.group
        tap.renew()
        if pattern.own[name]:
            tap.patterns[pattern.number] = pattern
        if group is not None and group.number not in tap.groups:
            common = [block for block in pattern.blocks[name] if block not in pattern.own[name]]
            if common:
                # Of blocks with the same path one says it for all.
                tap.groups[group.number] = (group, common[0])

    def remove(self, pattern: Live) -> list[str]:
        """Remove a pattern, which is still in its group. Returns the taps that no other one has and
        that may have rows."""
        gone, group = [], pattern.group
        self.version = object()
        for name in dict.fromkeys(pattern.taps):
            tap = self._taps[name]
            tap.renew()
            tap.patterns.pop(pattern.number, None)
            if group is not None and len(group.patterns) == 1:
                tap.groups.pop(group.number, None)
            if not tap:
                del self._taps[name]
                if tap.stored:
                    gone.append(name)
        return gone

    def patterns_of(self, names: set[str]) -> Iterator[Live]:
        """The patterns of any of these taps, each once."""
        found: dict[int, Live] = {}
        for name in names & self._taps.keys():
            found.update(self[name].patterns)
            for group, _ in self[name].groups.values():
                found.update(group.patterns)
        yield from (found[number] for number in sorted(found))

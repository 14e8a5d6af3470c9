"""Which patterns take the documents of a tap."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from broker.pattern.in_order.channels import Channel
from broker.query.catalog import Catalog
from broker.query.patterns import TapQuery
from broker.standing.live import Block, Group, Live
from broker.standing.taps import TapReader, written
from xscl.compact import OneOrMany

_READERS = 1_000


class Share:
    """Patterns of a group by their numbers, `owners`, that take what comes for one of its blocks,
    by its `place` in the plan and as the `query` of its tap, with the names that they have
    `written` there. All of them know documents from `first_doc` on. A document `wakes` those that
    are asleep, or is only noted. It is `used` as a channel once something was handed over to them:
    whoever comes then has had nothing of it, so that others become another one."""

    __slots__ = (*("first_doc", "group", "owners", "place", "query", "used", "wakes", "written"),)

    def __init__(
        self, group: Group, place: int, query: TapQuery, owners: list[int], first_doc: int
    ) -> None:
        self.group = group
        self.owners = owners
        self.place = place
        self.query = query
        self.first_doc = first_doc
        self.written = written(query.names, query.texts)
        self.used: Channel | None = None
        self.wakes = group.standing.wakes(place)

    @property
    def channel(self) -> Channel:
        """What stands for these patterns when something is handed over to them."""
        channel = self.used
        if channel is None:
            channel = self.used = Channel(self.owners)
        return channel

    def of(self, owners: list[int]) -> Share:
        """The same for other patterns."""
        return Share(self.group, self.place, self.query, owners, self.first_doc)

    def knowing(self, base: int) -> Sequence[int]:
        """The numbers of its patterns that know a document made of none older than this one."""
        if base >= self.first_doc:
            return self.owners
        patterns = self.group.patterns
        return [each for each in self.owners if base >= patterns[each].entry.first_doc]


@dataclass(slots=True, eq=False)
class Tap:
    """A tap, and the patterns that take its documents: those in groups by these, as `shares`, those
    that are `alone`, and by their numbers the groups of which they concern all, each with a place
    of the tap. `stored`: there are rows of it, or may be. `canonical` is the number of the query
    that finds them."""

    name: str
    canonical: int
    reader: TapReader
    shares: list[Share] = field(default_factory=list)
    alone: Sequence[Live] = ()
    groups: Mapping[int, tuple[Group, Block]] = field(default_factory=lambda: _NO_GROUPS)
    stored: bool = False

    def __bool__(self) -> bool:
        """Whether anybody takes its documents."""
        return bool(self.shares or self.alone or self.groups)

    @property
    def patterns(self) -> dict[int, Live]:
        """Those that take its documents, but for the groups of which they concern all."""
        found = {each.number: each for each in self.alone}
        for share in self.shares:
            found.update((number, share.group.patterns[number]) for number in share.owners)
        return found

    def add(self, pattern: Live, place: int, query: TapQuery) -> None:
        """It is for a block of a pattern."""
        group = pattern.group
        if group is None:
            if pattern not in self.alone:
                self.alone = (*self.alone, pattern)
        elif place in group.standing.shared.common:
            # Of blocks with the same path one says it for all.
            if group.number not in self.groups:
                self.groups = {**self.groups, group.number: (group, (place, query))}
        else:
            number, first_doc = pattern.number, pattern.entry.first_doc
            for at, share in enumerate(self.shares):
                if share.group is group and share.place == place:
                    if share.used is not None:
                        share = self.shares[at] = share.of([*share.owners])
                    share.owners.append(number)
                    share.first_doc = max(first_doc, share.first_doc)
                    return
            self.shares.append(Share(group, place, query, [number], first_doc))

    def renew(self, group: Group, renewed: Group) -> None:
        """Another group is in the place of one."""
        self.shares = [
            Share(renewed, each.place, each.query, [*each.owners], each.first_doc)
            if each.group is group
            else each
            for each in self.shares
        ]
        if group.number in self.groups:
            _, block = self.groups[group.number]
            left = {n: each for n, each in self.groups.items() if n != group.number}
            self.groups = {**left, renewed.number: (renewed, block)}

    def remove(self, pattern: Live) -> None:
        """Remove a pattern, which is still in its group."""
        group, number = pattern.group, pattern.number
        if group is None:
            self.alone = tuple([each for each in self.alone if each is not pattern])
            return
        left: list[Share] = []
        for share in self.shares:
            at = _place(share.owners, number) if share.group is group else None
            if at is not None:
                owners = share.owners.copy()
                del owners[at]
                share = share.of(owners)
            if share.owners:
                left.append(share)
        self.shares = left
        if len(group.patterns) == 1:
            self.groups = {n: each for n, each in self.groups.items() if n != group.number}


def _place(owners: Sequence[int], number: int) -> int | None:
    """Where a pattern is among others, which are mostly in order: their numbers grow."""
    at = bisect_left(owners, number)
    if at < len(owners) and owners[at] == number:
        return at
    return owners.index(number) if number in owners else None


_NO_GROUPS: Mapping[int, tuple[Group, Block]] = {}
_TAPS: OneOrMany[str, Tap] = OneOrMany(attrgetter("name"))


class TapIndex:
    """The patterns by their taps."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._taps: dict[str, Tap] = {}
        self._of_query: list[Tap | dict[str, Tap] | None] = []
        """By the number of the canonical query that finds their documents."""
        self._readers: dict[tuple[int, int], TapReader] = {}
        """By what they are made of, which they have."""
        self.changed: set[int] = set()
        """The canonical queries whose taps have changed since somebody asked."""
        self.version = object()
        """Another one whenever a pattern has come or gone, or changed its group."""

    def __getitem__(self, name: str) -> Tap:
        return self._taps[name]

    def get(self, name: str) -> Tap | None:
        return self._taps.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._taps

    def add(self, pattern: Live) -> None:
        """Add a pattern that is in its group, if it is in any."""
        self.version = object()
        for place, (name, query) in enumerate(zip(pattern.taps, pattern.pattern.taps, strict=True)):
            tap = self._taps.get(name)
            if tap is None:
                tap = self._taps[name] = self._made(name, query)
            tap.add(pattern, place, query)
            self.changed.add(tap.canonical)

    def _made(self, name: str, query: TapQuery) -> Tap:
        """A tap. What reads its documents is one for all that differ in their constants."""
        subscription = self._catalog.subscriptions[name]
        number, named = subscription.canonical.number, subscription.delivery.named
        key = (id(query), id(named))
        reader = self._readers.get(key)
        if reader is None:
            if len(self._readers) >= _READERS:
                self._readers.clear()
            reader = self._readers[key] = TapReader(query, named)
        tap = Tap(name, number, reader)
        of_query = self._of_query
        of_query.extend([None] * (number + 1 - len(of_query)))
        of_query[number] = _TAPS.add(of_query[number], tap)
        return tap

    def of_query(self, number: int) -> Iterable[Tap]:
        """The taps whose documents a canonical query finds, in the order of their names."""
        found = self._of_query[number] if number < len(self._of_query) else None
        if isinstance(found, dict):
            return [found[name] for name in sorted(found)]
        return () if found is None else (found,)

    def queries(self) -> set[int]:
        """The canonical queries that find their documents."""
        return {number for number, tap in enumerate(self._of_query) if tap is not None}

    def renew(self, group: Group, renewed: Group) -> None:
        """Another group is in the place of one, with the same patterns."""
        self.version = object()
        for name in {name for each in renewed.patterns.values() for name in each.taps}:
            tap = self._taps[name]
            tap.renew(group, renewed)
            self.changed.add(tap.canonical)

    def remove(self, pattern: Live) -> list[str]:
        """Remove a pattern, which is still in its group. Returns the taps that no other one has and
        that may have rows."""
        gone = []
        self.version = object()
        for name in dict.fromkeys(pattern.taps):
            tap = self._taps[name]
            tap.remove(pattern)
            self.changed.add(tap.canonical)
            if not tap:
                del self._taps[name]
                of_query = self._of_query
                of_query[tap.canonical] = _TAPS.remove(of_query[tap.canonical], tap)
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

"""What registered patterns have in memory: made of the tables, and can be made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from broker.model import UNBOUNDED
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.events import ALL
from broker.pattern.instances import Row
from broker.pattern.keeping import LASTING, keeps
from broker.pattern.standing import Standing
from broker.pattern.trying import TooMuch
from broker.planner import PLANNING, Planning
from broker.query.catalog import Catalog
from broker.standing.agenda import Agenda
from broker.standing.live import Block, Group, Live, Owns
from broker.standing.marks import Marking
from broker.standing.members import Members
from broker.standing.tap_index import Share
from broker.standing.taps import row_of, rows_of
from broker.standing.told import Told
from broker.state.pattern_tables import PatternTables, RowValues, TapRow
from broker.state.stored_taps import StoredTaps

TRIES = 100
"""Choices that a pattern may try for each document of a batch, in budgets of one document."""

Arrivals = dict[int, list[Row]]
"""Rows of a pattern by the places of their taps."""


class Memory:
    """The patterns, when they decide, and what they have not seen. `alone` are those in no group
    that have rows, `touched` those with rows that they have not seen, `rows` what is not stored
    yet; `settled` is the highest time by which they have decided."""

    def __init__(
        self,
        tables: PatternTables,
        catalog: Catalog,
        budget: int,
        planning: Planning = PLANNING,
        owns: Owns | None = None,
    ) -> None:
        self.tables = tables
        self.budget = budget
        self.planning = planning
        self.owns = owns
        self.marks = Marking(tables)
        self.told = Told(tables, self.marks)
        self.members = Members(catalog, TRIES * budget, self.marks, self.told)
        self.agenda = Agenda()
        self.alone: dict[int, Live] = {}
        self.touched: dict[int, Live | Group] = {}
        self.rows: list[RowValues] = []
        self.settled = -UNBOUNDED

    def clear(self) -> None:
        self.members.clear()
        self.told.clear()
        self.alone.clear()
        self.touched.clear()
        self.agenda.clear()
        self.rows.clear()
        self.marks.clear()

    def forget(self, pattern: Live) -> None:
        """Forget what is there of a pattern that has gone."""
        self.alone.pop(pattern.number, None)
        self.touched.pop(pattern.number, None)
        self.told.forget(pattern)

    def awake(self) -> Iterator[Live]:
        """The patterns that have rows."""
        yield from self.alone.values()
        for group in self.members.groups.numbered.values():
            yield from map(group.patterns.__getitem__, group.newest)

    def standing(self, pattern: Live) -> Standing:
        """What matches a pattern in no group, which is made when its first row comes."""
        if pattern.made is None:
            self.alone[pattern.number] = pattern
            plan = pattern.pattern.plan
            marks = self.marks.of(pattern.entry.number) if keeps(plan) else ()
            pattern.made = Standing(
                *(plan, pattern.entry.registered, TRIES * self.budget, marks),
                planning=self.planning,
                told=lambda _: self.told.of(pattern.number),
            )
        return pattern.made

    def offer(self, pattern: Live, row: TapRow, seen: int | None, pending: Arrivals) -> bool:
        """Hand a row to a pattern, unless it is too old for it. `seen` is the highest time when its
        document came, None if that was not older."""
        if not pattern.takes(row.base, row.end, seen if row.base == row.doc else None):
            return False
        taken = False
        try:
            for place, query in pattern.own[row.tap]:
                own = row_of(query, row, self.budget)
                if self.owns is None or self.owns(pattern, place, own):
                    pending.setdefault(place, []).append(own)
                    taken = True
        except TooMuch:
            pattern.too_much = taken = True
        if taken:
            pattern.came(row.end)
        return taken

    def _is_here(self, owns: Owns, pattern: Live, block: Block, row: TapRow) -> bool:
        place, query = block
        try:
            return owns(pattern, place, row_of(query, row, self.budget))
        except TooMuch:
            return True

    # -- those that are asleep -------------------------------------------------------------------

    def lay_down(self, pattern: Live, stored: StoredTaps, tap: str) -> None:
        """Let a pattern of a group be asleep, for which there are rows of a tap."""
        group = pattern.group
        assert group is not None
        group.asleep[pattern.number] = stored
        pattern.came(stored.newest(tap))
        first = stored.after(group.standing.watermark, tap)
        if first < UNBOUNDED and not group.standing.shared.at_once:
            group.standing.asleep.add(pattern.number, first)

    def wake(self, pattern: Live) -> int:
        """Make what a pattern has in memory of its stored rows, if it is asleep; returns how many
        these are."""
        group = pattern.group
        stored = None if group is None else group.asleep.pop(pattern.number, None)
        if stored is None or group is None:
            return 0
        watermark = group.standing.watermark
        kept = -UNBOUNDED if watermark is None else watermark - pattern.pattern.retention
        rows: Arrivals = {}
        try:
            for tap, blocks in pattern.own.items():
                taken = [
                    row
                    for row, seen in stored.rows(tap)
                    if row.end >= kept
                    and pattern.takes(row.base, row.end, seen if row.base == row.doc else None)
                ]
                for place, query in blocks:
                    rows.setdefault(place, []).extend(rows_of(query, taken, self.budget))
        except TooMuch:
            pattern.too_much = True
        group.standing.wake(pattern.number, rows)
        if pattern.too_much:
            group.standing.give_up((pattern.number,))
            self.touched[group.number] = group
        return sum([len(each) for each in rows.values()])

    def wake_by(self, group: Group, watermark: int | None) -> None:
        """Wake the patterns of a group of which a row is decided by a watermark."""
        for number in group.standing.asleep.awakened(watermark):
            pattern = self.members.live.get(number)
            if pattern is not None:
                self.wake(pattern)

    def wake_all(self, rows: int | None = None) -> None:
        """Wake the patterns that are asleep, until so many rows of them are read."""
        read = 0
        for group in self.members.groups.numbered.values():
            for number in [*group.asleep]:
                if rows is not None and read >= rows:
                    return
                read += self.wake(group.patterns[number])

    # -- rows of groups --------------------------------------------------------------------------

    def share(self, group: Group, block: Block, row: TapRow, to: Channel) -> None:
        """Hand a row to patterns of a group, or ALL of them."""
        self.touched[group.number] = group
        place, query = block
        try:
            group.standing.offer(to, place, row_of(query, row, self.budget))
        except TooMuch:
            group.standing.give_up(group.patterns if ALL in to.owners else to.owners)

    def share_rows(
        self, shares: Sequence[Share], rows: Sequence[TapRow], seen: Mapping[int, int]
    ) -> None:
        """Hand rows to the patterns of groups that take them; `seen` is the highest time when a
        document came, of those that are not made of results."""
        for row in rows:
            late = seen.get(row.doc) if row.base == row.doc else None
            for share in shares:
                if share.group.takes(row.end, late):
                    owners = self._here(share, share.knowing(row.base), row)
                    if owners:
                        to = share.channel.part(owners)
                        self.reach(share, to, row.end)
                        self.share(share.group, (share.place, share.query), row, to)

    def _here(self, share: Share, owners: Sequence[int], row: TapRow) -> Sequence[int]:
        """Those of some patterns of a group that a row is for here, and not elsewhere."""
        owns, patterns = self.owns, share.group.patterns
        if owns is None:
            return owners
        block = (share.place, share.query)
        return [each for each in owners if self._is_here(owns, patterns[each], block, row)]

    def reach(self, share: Share, to: Channel, end: int) -> None:
        """A row that ends at a time is for patterns of a group: none that it wakes is asleep."""
        group = share.group
        group.came_to(to, end)
        if share.wakes and group.asleep:
            self.rouse(group, to.owners)

    def rouse(self, group: Group, owners: Iterable[int]) -> None:
        """None of these patterns of a group is asleep any more."""
        for number in owners:
            if number in group.asleep:
                self.wake(group.patterns[number])

    def withdraw(self) -> None:
        """Take back the rows that patterns have not seen."""
        for pattern in self.touched.values():
            if isinstance(pattern, Group):
                pattern.standing.withdraw()
            else:
                pattern.pending = {}
        self.touched.clear()

    def write(self) -> None:
        """Store the rows that have come, and the marks."""
        rows, self.rows = self.rows, []
        self.tables.add_rows(rows)
        self.marks.write()

    def expire(self, horizon: int) -> None:
        """Drop what can be in no match any more, as documents that ended before a time are
        deleted."""
        self.tables.expire(horizon)
        self.tables.expire_marks(horizon, LASTING)
        self.told.expire(horizon)
        groups = self.members.groups.numbered
        for group in groups.values():
            self._expire(group)
        for number, pattern in [*self.alone.items()]:
            watermark = pattern.watermark(self.settled)
            assert pattern.made is not None
            pattern.made.expire(watermark)
            past = watermark is not None and pattern.newest < watermark - pattern.pattern.retention
            if past and pattern.due >= UNBOUNDED:
                # Nothing of it can be in a match any more.
                pattern.made = None
                del self.alone[number]
        self.agenda.shrink([*self.alone.values(), *groups.values()])

    def _expire(self, group: Group) -> None:
        watermark = group.watermark(self.settled)
        newest = group.newest  # before channels have other numbers
        if group.standing.expire(watermark):
            self.members.taps.changed |= self.members.taps.queries()
        if watermark is None:
            return
        horizon = watermark - group.first.pattern.retention
        gone = [number for number, end in newest.items() if end < horizon]
        for number in gone:
            # Nothing of it can be in a match any more.
            del newest[number]
            group.asleep.pop(number, None)
        for number, marks in group.standing.drop({*gone}) if gone else ():
            self.marks.back(self.members.live[number].entry.number, marks)

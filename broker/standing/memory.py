"""What registered patterns have in memory: made of the tables, and can be made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.model import UNBOUNDED
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.events import ALL
from broker.pattern.in_order.member import Member
from broker.pattern.instances import Row
from broker.pattern.keeping import LASTING, keeps
from broker.pattern.standing import Standing
from broker.pattern.trying import TooMuch
from broker.planner import PLANNING, Planning
from broker.query.catalog import Catalog
from broker.standing.agenda import Agenda
from broker.standing.live import Block, Group, Live, Owns, Share
from broker.standing.marks import Marking
from broker.standing.members import Members
from broker.standing.taps import row_of, rows_of
from broker.state.pattern_tables import PatternTables, TapRow
from broker.state.stored_taps import StoredTaps

TRIES = 100
"""Choices that a pattern may try for each document of a batch, in budgets of one document."""

Arrivals = dict[int, list[Row]]
"""Rows of a pattern by the places of their taps."""


class Memory:
    """The patterns, when they decide, and what they have not seen. `awake` are those that have
    rows, `touched` those with rows that they have not seen, `rows` what is not stored yet;
    `settled` is the highest time by which they have decided."""

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
        self.members = Members(catalog, TRIES * budget, self.marks)
        self.agenda = Agenda()
        self.awake: dict[int, Live] = {}
        self.touched: dict[int, Live | Group] = {}
        self.rows: list[TapRow] = []
        self.settled = -UNBOUNDED

    def clear(self) -> None:
        self.members.clear()
        self.awake.clear()
        self.touched.clear()
        self.agenda.clear()
        self.rows.clear()
        self.marks.clear()

    def forget(self, pattern: Live) -> None:
        """Forget what is there of a pattern that has gone."""
        self.awake.pop(pattern.number, None)
        self.touched.pop(pattern.number, None)

    def standing(self, pattern: Live) -> Standing | Member:
        """What matches a pattern, which is made when its first row comes."""
        if pattern.standing is None:
            self.awake[pattern.number] = pattern
            if pattern.group is not None:
                pattern.standing = Member(pattern.group.standing, pattern.number)
                return pattern.standing
            plan = pattern.pattern.plan
            marks = self.marks.of(pattern.entry.number) if keeps(plan) else ()
            pattern.standing = Standing(
                *(plan, pattern.entry.registered, TRIES * self.budget, marks),
                planning=self.planning,
            )
        return pattern.standing

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
            pattern.newest = max(pattern.newest, row.end)
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
        self.standing(pattern)
        pattern.asleep = stored
        pattern.newest = max(pattern.newest, stored.newest(tap))
        first = stored.after(group.standing.watermark, tap)
        if first < UNBOUNDED and not group.standing.shared.at_once:
            group.standing.asleep.add(pattern.number, first)

    def wake(self, pattern: Live) -> int:
        """Make what a pattern has in memory of its stored rows, if it is asleep; returns how many
        these are."""
        stored, pattern.asleep = pattern.asleep, None
        group = pattern.group
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
        for pattern in self.awake.values():
            if rows is not None and read >= rows:
                return
            if pattern.asleep is not None:
                read += self.wake(pattern)

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
                    owners = self._taking(share.patterns, share.block, row)
                    if owners:
                        self.share(share.group, share.block, row, share.channel.part(owners))

    def _taking(self, patterns: Sequence[Live], block: Block, row: TapRow) -> list[int]:
        """The numbers of those patterns of a group that a row is for, here and not elsewhere; they
        have it then."""
        owns = self.owns
        if owns is not None:
            patterns = [each for each in patterns if self._is_here(owns, each, block, row)]
        group = patterns[0].group if patterns else None
        wakes = group is not None and group.standing.wakes(block[0])
        return self.taking(patterns, row.base, row.end, wakes)

    def taking(self, patterns: Sequence[Live], base: int, end: int, wakes: bool) -> list[int]:
        """The numbers of those patterns of a group that know a document; they have it then, and
        none that it `wakes` is asleep."""
        found = []
        for pattern in patterns:
            if base < pattern.entry.first_doc:
                continue
            self.reach(pattern, end, wakes)
            found.append(pattern.number)
        return found

    def reach(self, pattern: Live, end: int, wakes: bool) -> None:
        """A row that ends at a time is for a pattern of a group."""
        if pattern.newest < end:
            pattern.newest = end
        if pattern.standing is None:
            self.standing(pattern)
        elif wakes and pattern.asleep is not None:
            self.wake(pattern)

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
        groups = self.members.groups.numbered
        for group in groups.values():
            group.standing.expire(group.watermark(self.settled))
        gone: dict[int, set[int]] = {}
        for number, pattern in [*self.awake.items()]:
            watermark = pattern.watermark(self.settled)
            if isinstance(pattern.standing, Standing):
                pattern.standing.expire(watermark)
            past = watermark is not None and pattern.newest < watermark - pattern.pattern.retention
            if past and pattern.due >= UNBOUNDED:
                # Nothing of it can be in a match any more.
                pattern.standing = pattern.asleep = None
                del self.awake[number]
                if pattern.group is not None:
                    gone.setdefault(pattern.group.number, set()).add(number)
        for number, owners in gone.items():
            for owner, marks in groups[number].standing.drop(owners):
                self.marks.back(self.members.live[owner].entry.number, marks)
        self.agenda.shrink([*self.awake.values(), *groups.values()])

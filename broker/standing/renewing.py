"""Makes patterns again of their stored rows: after a restart, a failed transaction, a revision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from broker.join.work import Work
from broker.model import UNBOUNDED
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.events import ALL
from broker.pattern.trying import TooMuch
from broker.standing.live import Block, Group, Live
from broker.standing.memory import Arrivals, Memory
from broker.standing.taps import row_of
from broker.standing.told import Decided
from broker.state.pattern_tables import TapRow
from broker.state.stored_taps import StoredTaps
from xscl.growth import growing

_FEW, _SHARE = 2, 4
"""So many patterns of a group, and at least one of so many of them, are not made one by one."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """How patterns are made again. `moved`: their lateness has changed, and they have decided
    nothing since. What they have decided goes to `decided`, if it is given, of documents of which
    one ends at `since` or later."""

    moved: bool = False
    since: int = UNBOUNDED
    decided: Decided | None = None


_PLAIN = _Asked()


class Renewing:
    """Makes what patterns have in memory; with care (`Work.care`) each by itself, as one of them
    may be what does not end."""

    def __init__(self, memory: Memory, work: Work) -> None:
        self._memory = memory
        self._work = work

    def load(self) -> None:
        """Make the state of all patterns of their stored rows. Of those that can be asleep nothing
        is made yet."""
        every = self._memory.members.live
        asleep: dict[int, Live] = {}
        if self._work.care is None and self._memory.owns is None:
            asleep = {
                number: each
                for number, each in every.items()
                if each.group is not None and each.group.standing.shared.sleeps
            }
        self.renew([each for number, each in every.items() if number not in asleep])
        if asleep:
            self._lay_down(asleep)

    def _lay_down(self, chosen: Mapping[int, Live]) -> None:
        """Let patterns be asleep, those that have rows which can be in a match."""
        memory = self._memory
        groups = {each.group.number: each.group for each in chosen.values() if each.group}
        since = {number: self._horizon(group) for number, group in groups.items()}
        first_doc = min([each.entry.first_doc for each in chosen.values()])
        for group in groups.values():
            group.standing.advance_to(self._known(group, False))
        own = None
        if len(chosen) < len(memory.members.live):
            own = {tap for each in chosen.values() for tap in each.taps}
        stored = StoredTaps(memory.tables.by_tap(own, first_doc, min(since.values())))
        for name in stored:
            tap = memory.members.taps.get(name)
            if tap is None:
                continue
            tap.stored = True
            for number, pattern in tap.patterns.items():
                of = pattern.group
                if number in chosen and of and stored.newest(name) >= since[of.number]:
                    memory.lay_down(pattern, stored, name)
        for group in groups.values():
            memory.agenda.plan(group)

    def renew(self, patterns: Collection[Live], moved: bool = False) -> None:
        """Make the state of patterns of their stored rows; see `Standing.again`. `moved`: their
        lateness has changed, and they have decided nothing since."""
        self._make(patterns, _Asked(moved))

    def decided(self, patterns: Collection[Live], since: int) -> Decided:
        """The same; returns the matches that they have decided, those at least of which a document
        ends at this time or later, or would stand between others."""
        decided: Decided = {}
        self._make(patterns, _Asked(since=since, decided=decided))
        return decided

    def _make(self, patterns: Collection[Live], asked: _Asked) -> None:
        if not patterns:
            return
        for pattern in patterns:
            if pattern.group is not None:
                pattern.group.asleep.pop(pattern.number, None)
        self._memory.write()
        stored, taps = self._memory.tables.taps(), self._memory.members.taps
        for name in stored:
            if name in taps:
                taps[name].stored = True
        chosen = {each.number: each for each in patterns}
        with growing(sum(stored.values())):
            whole = [] if self._work.care is not None else _mostly(patterns)
            if whole:
                self._renew_whole(whole, asked)
                known = {number for group in whole for number in group.patterns}
                chosen = {number: each for number, each in chosen.items() if number not in known}
            if chosen:
                self._renew(chosen, asked)

    def _renew_whole(self, groups: Sequence[Group], asked: _Asked) -> None:
        """Make groups again with all of their patterns: each row is handed over once, as when it
        came."""
        memory = self._memory
        for each in groups:
            memory.touched.pop(each.number, None)
        renewed = {each.number: each for each in map(memory.members.renew, groups)}
        patterns = [pattern for each in renewed.values() for pattern in each.patterns.values()]
        since = {number: self._horizon(each, asked) for number, each in renewed.items()}
        first_doc = min([each.entry.first_doc for each in patterns])
        for each in renewed.values():
            each.standing.advance_to(self._known(each, asked.moved))
        taps = {name for each in patterns for name in each.taps}
        for row, seen in memory.tables.rows(taps, first_doc, min(since.values())):
            tap = memory.members.taps[row.tap]
            shares = [s for s in tap.shares if row.end >= since.get(s.group.number, UNBOUNDED)]
            memory.share_rows(shares, (row,), {} if seen is None else {row.doc: seen})
            late = seen if row.base == row.doc else None
            for number, (group, block) in tap.groups.items():
                if row.end >= since.get(number, UNBOUNDED) and group.takes(row.end, late):
                    memory.share(group, block, row, Channel([ALL]))
        for each in renewed.values():
            decided = each.standing.begin(tell=asked.decided is not None)
            if asked.decided is not None:
                asked.decided.update({n: (each.patterns[n], decided[n]) for n in decided})
            memory.agenda.plan(each)

    def _renew(self, chosen: Mapping[int, Live], asked: _Asked) -> None:
        arrived, common = self._stored_rows(chosen, asked)
        care = self._work.care
        stopped = {} if care is None else care.without()
        together: dict[int, dict[int, Arrivals]] = {}
        for number, pattern in chosen.items():
            pattern.pending = {}
            if all(each.id in stopped for each in pattern.subscriptions.values()):
                continue  # it is stopped at the document that is searched
            if pattern.group is not None:
                rows = arrived.get(number, {})
                together.setdefault(pattern.group.number, {})[number] = rows
                continue
            if care is not None:
                self._enter_work(pattern)
            self._remake(pattern, arrived.get(number), asked.decided)
        for number, own in together.items():
            group = self._memory.members.groups.numbered[number]
            self._renew_group(group, own, common.get(number, {}), asked)
        if care is not None:
            self._work.leave()

    def _stored_rows(
        self, chosen: Mapping[int, Live], asked: _Asked
    ) -> tuple[dict[int, Arrivals], dict[int, Arrivals]]:
        """The stored rows that patterns take, and by group those that concern all of them. What is
        older than any match that is not decided is not even read."""
        memory, own = self._memory, None
        if len(chosen) < len(memory.members.live):
            own = {tap for each in chosen.values() for tap in each.taps}
        groups = {each.group.number: each.group for each in chosen.values() if each.group}
        known = [*chosen.values()]
        for group in groups.values():
            if group.standing.shared.common:
                known += group.patterns.values()
        first_doc = min([each.entry.first_doc for each in known])
        since = self._horizons(chosen, groups, asked)
        arrived: dict[int, Arrivals] = {}
        common: dict[int, Arrivals] = {}
        taking: dict[str, dict[int, Live]] = {}
        for row, seen in memory.tables.rows(own, first_doc, min(since.values())):
            tap = memory.members.taps.get(row.tap)
            if tap is None:
                continue
            patterns = taking.get(row.tap)
            if patterns is None:
                patterns = taking[row.tap] = tap.patterns
            for number, pattern in patterns.items():
                if row.end >= since.get(number, UNBOUNDED):
                    memory.offer(pattern, row, seen, arrived.setdefault(number, {}))
            for number, (group, block) in tap.groups.items():
                late = seen if row.base == row.doc else None
                if row.end >= since.get(number, UNBOUNDED) and group.takes(row.end, late):
                    self._share(group, block, row, common.setdefault(number, {}))
        return arrived, common

    def _horizons(
        self, chosen: Mapping[int, Live], groups: Mapping[int, Group], asked: _Asked
    ) -> dict[int, int]:
        """By the numbers of patterns and groups, see `_horizon`."""
        found = {number: self._horizon(group, asked) for number, group in groups.items()}
        for number, each in chosen.items():
            group = each.group
            found[number] = self._horizon(each, asked) if group is None else found[group.number]
        return found

    def _horizon(self, of: Live | Group, asked: _Asked = _PLAIN) -> int:
        """When what ended before can be in no match any more that is not decided, or is asked
        for."""
        watermark = self._known(of, asked.moved)
        if watermark is None:
            return -UNBOUNDED
        first = of.first if isinstance(of, Group) else of
        return max(-UNBOUNDED, min(watermark, asked.since) - first.pattern.retention)

    def _known(self, of: Live | Group, moved: bool) -> int | None:
        """The watermark up to which all is decided."""
        return of.entry.floor if moved else of.watermark(self._memory.settled)

    def _share(self, group: Group, block: Block, row: TapRow, common: Arrivals) -> None:
        """Note a row that concerns all patterns of a group."""
        try:
            place, query = block
            common.setdefault(place, []).append(row_of(query, row, self._memory.budget))
        except TooMuch:
            for pattern in group.patterns.values():
                pattern.too_much = True

    def _enter_work(self, pattern: Live) -> None:
        """What is done from now on is for a pattern."""
        id = pattern.subscription.id
        self._work.enter((id, id))

    def _renew_group(
        self, group: Group, rows: Mapping[int, Arrivals], common: Arrivals, asked: _Asked
    ) -> None:
        group.standing.advance_to(self._known(group, asked.moved))
        careful, decided = self._work.care is not None, asked.decided
        for part in [{n: own} for n, own in rows.items()] if careful else [rows]:
            if careful:
                self._enter_work(self._memory.members.live[next(iter(part))])
            found = group.standing.again(part, common, tell=decided is not None)
            if decided is not None:
                decided |= {number: (group.patterns[number], found[number]) for number in found}
        over = [number for number in rows if group.patterns[number].too_much]
        if over:
            group.standing.give_up(over)
            self._memory.touched[group.number] = group
        self._memory.agenda.plan(group)

    def _remake(self, pattern: Live, rows: Arrivals | None, decided: Decided | None) -> None:
        memory = self._memory
        if rows or pattern.made is not None:
            standing = memory.standing(pattern)
            standing.watermark = pattern.watermark(memory.settled)
            try:
                found = standing.again(rows or {})
                if decided is not None:
                    decided[pattern.number] = (pattern, found)
            except TooMuch:
                pattern.too_much = True
            memory.agenda.plan(pattern)
        if pattern.too_much:
            memory.touched[pattern.number] = pattern


def _mostly(patterns: Collection[Live]) -> list[Group]:
    """The groups of which so many patterns are among these that all of them are made again sooner
    than each of those by itself."""
    groups = {each.group.number: each.group for each in patterns if each.group is not None}
    counts = Counter([each.group.number for each in patterns if each.group is not None])
    return [
        group
        for number, group in groups.items()
        if not group.standing.shared.at_once
        and counts[number] >= _FEW
        and counts[number] * _SHARE >= len(group.patterns)
    ]

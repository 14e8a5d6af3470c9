"""Which patterns are registered, in the tables and in memory, and by which lateness they decide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from broker.join.ownership import Ownership
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.standing.live import Live
from broker.standing.members import Members
from broker.state.pattern_tables import Entry, PatternTables


class Entries:
    """The entries of a catalog's patterns: those that are matched here are among `members`, the
    others `elsewhere`, by number; that is another object when it has changed."""

    def __init__(
        self,
        tables: PatternTables,
        catalog: Catalog,
        members: Members,
        ownership: Ownership,
        lateness: Callable[[Subscription], int],
    ) -> None:
        self._tables = tables
        self._catalog = catalog
        self._members = members
        self._ownership = ownership
        self._lateness = lateness
        self.elsewhere: Mapping[int, Entry] = {}
        self._fresh: set[int] = set()
        """The numbers of those that have come into the tables and were not registered since."""

    def clear(self) -> None:
        self.elsewhere = {}
        self._fresh.clear()

    def keep(self, entries: Sequence[Entry]) -> None:
        """Store entries of patterns that are not registered yet, and go on as these say."""
        self._tables.enter(entries)
        self._fresh.update([entry.number for entry in entries])

    def kept(self, changed: Collection[int]) -> list[int]:
        """Those of the changed patterns of which something may be stored: all that was stored
        before is known."""
        fresh, self._fresh = self._fresh, set()
        known = self._members.of
        return [n for n in changed if n in known or n in self.elsewhere or n in fresh]

    def stored(self, numbers: Collection[int] | None = None) -> tuple[dict[int, Entry], bool]:
        """Of the stored entries, all or those of these numbers, the ones that are the catalog's and
        have been since; and whether others were removed."""
        entries = {entry.number: entry for entry in self._tables.entries(numbers)}
        gone = [number for number, entry in entries.items() if not self._goes_on(entry)]
        self._tables.remove(gone)
        for number in gone:
            del entries[number]
        return entries, bool(gone)

    def _goes_on(self, entry: Entry) -> bool:
        subscription = self._catalog.patterns.get(entry.number)
        return subscription is not None and subscription.first_doc == entry.first_doc

    def leave(self, numbers: Collection[int]) -> None:
        """Forget those that others match."""
        if not self.elsewhere.keys().isdisjoint(numbers):
            self.elsewhere = {n: e for n, e in self.elsewhere.items() if n not in numbers}

    def register(
        self,
        numbers: Iterable[int],
        entries: Mapping[int, Entry],
        registered: int | None,
        settled: int,
    ) -> None:
        """Register patterns of the catalog, as their entries say if they have one; `registered` is
        the highest time now, and all is decided by the highest time `settled`."""
        entered: list[Entry] = []
        fresh: list[Entry] = []
        elsewhere: dict[int, Entry] = {}
        for number in numbers:
            subscription = self._catalog.patterns[number]
            lateness = self._lateness(subscription)
            entry = entries.get(number)
            if entry is None:
                entry = Entry(number, subscription.first_doc, registered, lateness, None)
                fresh.append(entry)
            elif entry.lateness != lateness:
                entry = _decides_by(entry, lateness, settled)
                entered.append(entry)
            if self._ownership.decides(subscription.canonical):
                self._members.join(subscription, entry)
            else:
                elsewhere[number] = entry
        if elsewhere:
            self.elsewhere = {**self.elsewhere, **elsewhere}
            self._tables.lack_rows(True)
        self._tables.enter(entered)
        self._tables.enter(fresh, fresh=True)

    def reconsider(self, settled: int) -> list[Live]:
        """Change the lateness of patterns whose streams other queries publish now, or no more.
        Returns those that are matched here."""
        self._members.groups.move()
        changed: list[Live] = []
        entered: list[Entry] = []
        for pattern in self._members.live.values():
            lateness = self._lateness(pattern.subscription)
            if pattern.entry.lateness != lateness:
                self._members.move(pattern, _decides_by(pattern.entry, lateness, settled))
                entered += [pattern.entry._replace(number=n) for n in pattern.subscriptions]
                changed.append(pattern)
        for number, entry in self.elsewhere.items():
            lateness = self._lateness(self._catalog.patterns[number])
            if entry.lateness != lateness:
                now = _decides_by(entry, lateness, settled)
                self.elsewhere = {**self.elsewhere, number: now}
                entered.append(now)
        self._members.renew_kinds()
        self._tables.enter(entered)
        return changed


def _decides_by(entry: Entry, lateness: int, settled: int) -> Entry:
    """An entry with another lateness: what is decided stays decided."""
    before = settled - entry.lateness
    floor = before if entry.floor is None else max(before, entry.floor)
    return entry._replace(lateness=lateness, floor=floor)

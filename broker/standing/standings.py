"""All registered event patterns: candidates of their taps in, decided matches out.

A batch costs what arrives and what becomes due, however many patterns there are: rows go to the
patterns of their tap, and a heap says which others have something to decide. Everything in memory
is made of the tables of event patterns and can be made again at any time: after a restart, after a
transaction that failed, after a revision. A match is decided in the batch in which the watermark
comes far enough, and enters the outbox in its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from broker.documents.watermark import Watermark
from broker.join.candidates import Candidate, Found
from broker.join.ownership import ALL, Ownership
from broker.join.work import Work
from broker.model import COUNTED, UNBOUNDED, Waiting
from broker.pattern.in_order.standing import Member
from broker.pattern.instances import Row
from broker.pattern.standing import Marks, Published, Standing
from broker.pattern.trying import TooMuch
from broker.planner import PLANNING, Planning
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.query.patterns import TAP
from broker.results.contents import Contents
from broker.standing.agenda import Agenda
from broker.standing.entries import Entries
from broker.standing.live import Group, Live, Tap, tap_names
from broker.standing.members import Members
from broker.standing.upstream import Upstream
from broker.standing.waiting import latest, waiting
from broker.standing.why import Question, StoredRows
from broker.state.pattern_tables import Entry, PatternTables, TapRow
from broker.state.relations import StoredDocument
from broker.state.statements import Statements
from broker.state.store import Store
from xscl.interruption import PENDING, check

TRIES = 100
"""Choices that a pattern may try for each document of a batch, in budgets of one document."""

Arrivals = dict[int, list[Row]]
"""Rows of a pattern by the places of their taps."""

Taken = tuple[Sequence[Found], Sequence[StoredDocument]]
"""Stored documents, with the candidates of taps in them."""


class Standings:
    """The patterns of a catalog. Used within transactions of `store`."""

    def __init__(  # noqa: PLR0913  # each has one meaning
        self,
        store: Store,
        catalog: Catalog,
        contents: Contents,
        watermark: Watermark,
        budget: int,
        work: Work,
        lateness_of: Callable[[Subscription], int] | None = None,
        planning: Planning = PLANNING,
        ownership: Ownership = ALL,
        stored: Callable[[], Iterable[Taken]] = tuple,
    ) -> None:
        self._store = store
        self.tables = PatternTables(store)
        self._catalog = catalog
        self._contents = contents
        self._watermark = watermark
        self._budget = budget
        self._planning = planning
        self._work = work
        self._all_stored = stored
        self._upstream = Upstream(catalog, watermark)
        self.lateness = lateness_of or self._upstream.lateness
        """By how much the watermark of a query is behind the highest time."""
        self._members = Members(catalog, TRIES * budget)
        self._entries = Entries(self.tables, catalog, self._members, ownership, self.lateness)
        self._agenda = Agenda()
        self._awake: dict[int, Live] = {}
        """Those that have rows."""
        self._touched: dict[int, Live | Group] = {}
        """Those with rows that they have not seen."""
        self._rows: list[TapRow] = []
        """Rows that are not stored yet."""
        self.settled = -UNBOUNDED
        """The highest time by which they have decided."""
        self.marked: dict[int, dict[str, int]] = {}
        """What patterns have kept of their matches in this transaction, by number."""
        self._stored: int | None = None
        self._loaded = False

    def match_in_order(self, wanted: bool) -> None:
        """Whether patterns that can be are matched in the order of time, those of one form
        together. Said before any is registered."""
        self._members.in_order = wanted

    def __bool__(self) -> bool:
        return bool(self._catalog.patterns) or bool(self._members.of)

    # -- which patterns there are ----------------------------------------------------------------

    @property
    def elsewhere(self) -> Mapping[int, Entry]:
        """Those that others match, by number; another object when it has changed."""
        return self._entries.elsewhere

    def begin(self, highest: int) -> None:
        """Prepare for a transaction; `highest` is the highest time before it."""
        if not self._loaded and not self:
            self._loaded = not self.tables.entries()
        changed = bool(self._catalog.changed or self._catalog.changed_streams)
        if self._loaded and not changed and not self:
            return
        self.marked.clear()
        self._store.on_rollback(self.reload)
        registered = None if highest <= -UNBOUNDED else highest
        if not self._loaded:
            self._stored = self.settled = self.tables.settled(highest)
            self._load(registered)
        elif changed:
            self._synchronize(registered)
        self._loaded = True

    def reload(self) -> None:
        """Forget everything, as the transaction failed that made it, or other patterns are matched
        here than before."""
        self._members.clear()
        self._entries.clear()
        self._awake.clear()
        self._touched.clear()
        self._agenda.clear()
        self._upstream.forget()
        self._rows.clear()
        self._loaded = False

    def _load(self, registered: int | None) -> None:
        """Make all patterns of the tables."""
        self._catalog.changed.clear()
        self._catalog.changed_streams.clear()
        entries, removed = self._entries.stored()
        if removed:
            self.tables.keep_taps({tap for taps in self._catalog.taps.values() for tap in taps})
        self._entries.register(self._catalog.patterns, entries, registered, self.settled)
        if self._members.of and self.tables.lacks_rows:
            self.tables.keep_taps(())
            for found, documents in self._all_stored():
                self.fill(found, documents)
            self.tables.lack_rows(bool(self.elsewhere))
        self._renew(self._members.live.values())

    def _synchronize(self, registered: int | None) -> None:
        """Make the patterns that have come, and drop those that have gone."""
        changed, self._catalog.changed = self._catalog.changed, set()
        self._upstream.forget()
        taps: set[str] = set()
        self._entries.leave(changed)
        for number in changed:
            before = self._members.of.get(number)
            if before is not None:
                taps.update(self._members.leave(before, number))
                if not before.subscriptions:
                    self._awake.pop(before.number, None)
                    self._touched.pop(before.number, None)
        entries, _ = self._entries.stored(changed)
        moved: list[Live] = []
        fresh = [number for number in sorted(changed) if number in self._catalog.patterns]
        if self._catalog.changed_streams:
            self._catalog.changed_streams.clear()
            for pattern in self._entries.reconsider(self.settled):
                if pattern.group is None:
                    self._agenda.plan(pattern)
                else:
                    moved.append(pattern)
        self._entries.register(fresh, entries, registered, self.settled)
        self.tables.delete_taps([tap for tap in taps if tap not in self._members.taps])
        # No document has come yet to those that were not known.
        here = self._members.of
        known = {here[n].number for n in fresh if n in entries and n in here}
        self._renew([self._members.live[number] for number in sorted(known)])
        self._renew(moved, moved=True)

    # -- documents -------------------------------------------------------------------------------

    def note(self, documents: Iterable[tuple[int, int, int]]) -> None:
        """Note the documents that are older than others when they come, of these: their numbers and
        ends, each with the highest time then."""
        if self:
            self.tables.add_late([each for each in documents if each[1] < each[2]])

    def take(
        self, found: list[Found], documents: Sequence[StoredDocument], seen: Mapping[int, int]
    ) -> list[Found]:
        """Take the candidates of taps; the others are left. `seen` is the highest time when a
        document came, of those that came in."""
        taps = self._catalog.taps
        if not taps:
            return found
        left: list[Found] = []
        own: dict[tuple[str, int], list[Candidate]] = {}
        for canonical, candidate in found:
            names = taps.get(canonical.number)
            if names is None:
                left.append((canonical, candidate))
                continue
            for name in names:
                own.setdefault((name, candidate.docs[0]), []).append(candidate)
            if len(names) < len(canonical.subscribers):
                left.append((canonical, candidate))
        if own:
            self._enter(own, documents, seen)
        return left

    def _enter(
        self,
        found: Mapping[tuple[str, int], list[Candidate]],
        documents: Sequence[StoredDocument],
        seen: Mapping[int, int],
    ) -> None:
        matched = self._contents.of({doc for _, doc in found}, documents)
        for (name, doc), candidates in sorted(found.items()):
            if PENDING:
                check()
            if name not in self._members.taps:
                continue
            tap = self._members.taps[name]
            rows = tap.reader.rows(candidates, matched[doc])
            self._rows += rows
            tap.stored = True
            for row in rows:
                self._come(tap, row, seen.get(doc))

    def _come(self, tap: Tap, row: TapRow, seen: int | None) -> None:
        """A row of a document has come, when the highest time was `seen`; see `_offer`."""
        together: dict[tuple[int, ...], list[int]] = {}
        for number, pattern in tap.patterns.items():
            group = pattern.group
            if group is None:
                if self._offer(pattern, row, seen, pattern.pending):
                    self._touched[number] = pattern
            elif pattern.takes(row.base, row.end, seen if row.base == row.doc else None):
                pattern.newest = max(pattern.newest, row.end)
                if pattern.standing is None:
                    self._standing(pattern)
                places = pattern.places[row.tap]
                together.setdefault((group.number, *places), []).append(number)
        if not together:
            return
        own = tap.reader.row(row, self._budget)
        for (number, *places), owners in together.items():
            group = self._members.groups.numbered[number]
            self._touched[number] = group
            for place in places:
                group.standing.offer(owners, place, own)

    def fill(self, found: Sequence[Found], documents: Sequence[StoredDocument]) -> None:
        """Store the rows of documents that were there before, without handing them over: `reload`,
        or what has called this, makes patterns of all rows."""
        self.take([*found], documents, {})
        self._withdraw()
        self.write()

    def _withdraw(self) -> None:
        """Take back the rows that patterns have not seen."""
        for pattern in self._touched.values():
            if isinstance(pattern, Group):
                pattern.standing.withdraw()
            else:
                pattern.pending = {}
        self._touched.clear()

    def _offer(self, pattern: Live, row: TapRow, seen: int | None, pending: Arrivals) -> bool:
        """Hand a row to a pattern, unless it is too old for it. `seen` is the highest time when its
        document came, None if that was not older."""
        if not pattern.takes(row.base, row.end, seen if row.base == row.doc else None):
            return False
        pattern.newest = max(pattern.newest, row.end)
        try:
            own = self._members.taps[row.tap].reader.row(row, self._budget)
        except TooMuch:
            pattern.too_much = True
            return True
        for place in pattern.places[row.tap]:
            pending.setdefault(place, []).append(own)
        return True

    def replace(self, found: Sequence[Found], documents: Sequence[StoredDocument]) -> None:
        """Replace the rows of documents that were revised: what is decided stays decided."""
        if not self._members.of:
            return
        self.write()
        docs = [document.doc for document in documents]
        before = self.tables.rows_of(docs)
        self.tables.delete_rows(docs)
        self.take([*found], documents, {})
        changed = {row.tap for row in before.symmetric_difference(self._rows)}
        self._withdraw()
        self._renew([*self._members.taps.patterns_of(changed)])

    # -- deciding --------------------------------------------------------------------------------

    def settle(
        self, highest: int, begins: Callable[[Live], bool]
    ) -> Iterator[tuple[Live, list[Published] | None]]:
        """What is decided now that the highest time is this, pattern by pattern, each behind those
        whose results it reads; None for one that has more to try than it may. `begins` is asked
        before each whether it is to decide at all."""
        self.settled = max(self.settled, highest)
        ready: list[tuple[int, int]] = []
        for number in self._agenda.due(highest, self._members.find):
            heappush(ready, (self._depth(number), number))
        while ready or self._touched:
            # What one decides may be documents for others.
            for number in self._touched:
                heappush(ready, (self._depth(number), number))
            self._touched.clear()
            _, number = heappop(ready)
            while ready and ready[0][1] == number:
                heappop(ready)
            group = self._members.groups.numbered.get(number)
            if group is not None:
                yield from self._of_group(group, highest, begins)
                continue
            pattern = self._members.live[number]
            if not self._is_registered(pattern):
                pattern.pending = {}
                continue
            if not begins(pattern):
                continue
            try:
                if pattern.too_much:
                    raise TooMuch
                found = self._advance(pattern, highest)
            except TooMuch:
                yield pattern, None
                continue
            if found:
                yield pattern, found

    def _depth(self, number: int) -> int:
        """How many queries stand before a pattern, or before those of a group, which is the same
        for all of them."""
        found = self._members.find(number)
        assert found is not None
        first = found.first if isinstance(found, Group) else found
        return self._upstream.depth(first.subscription)

    def _is_registered(self, pattern: Live) -> bool:
        return not self._catalog.patterns.keys().isdisjoint(pattern.subscriptions)

    def _of_group(
        self, group: Group, highest: int, begins: Callable[[Live], bool]
    ) -> Iterator[tuple[Live, list[Published] | None]]:
        """What the patterns of a group decide by this time."""
        live = self._members.live
        # With care each is timed by itself.
        one_by_one = None if self._work.care is None else lambda number: begins(live[number])
        try:
            decided = group.standing.advance(group.watermark(highest), one_by_one)
        finally:
            self._agenda.plan(group)
        for number in sorted(decided):
            pattern = live[number]
            if self._is_registered(pattern) and begins(pattern):
                yield pattern, decided[number]

    def _advance(self, pattern: Live, highest: int) -> list[Published]:
        """What a pattern decides by this time. Raises TooMuch."""
        arrived, pattern.pending = pattern.pending, {}
        standing = self._standing(pattern)
        assert isinstance(standing, Standing)
        try:
            found = standing.advance(arrived, pattern.watermark(highest))
        finally:
            self._agenda.plan(pattern)
        if standing.marks.news:
            self.tables.mark(pattern.entry.number, [*standing.marks.news.items()])
            self.marked.setdefault(pattern.entry.number, {}).update(standing.marks.news)
            standing.marks.news.clear()
        return found

    def _standing(self, pattern: Live) -> Standing | Member:
        if pattern.standing is None:
            self._awake[pattern.number] = pattern
            tries = TRIES * self._budget
            if pattern.group is not None:
                pattern.standing = Member(pattern.group.standing, pattern.number)
                return pattern.standing
            plan = pattern.pattern.plan
            strategy = plan.query.strategy
            chooses = strategy is not None and strategy.choosing is not None
            marks = Marks(self.tables.marks(pattern.entry.number) if chooses else ())
            pattern.standing = Standing(
                plan, pattern.entry.registered, tries, marks, planning=self._planning
            )
        return pattern.standing

    def _renew(self, patterns: Collection[Live], moved: bool = False) -> None:
        """Make the state of patterns of their stored rows; see `Standing.again`. `moved`: their
        lateness has changed, and they have decided nothing since."""
        if not patterns:
            return
        chosen = {each.number: each for each in patterns}
        arrived = self._stored_rows(chosen)
        care = self._work.care
        stopped = {} if care is None else care.without()
        together: dict[int, dict[int, Arrivals]] = {}
        for number, pattern in chosen.items():
            pattern.pending = {}
            if all(each.id in stopped for each in pattern.subscriptions.values()):
                continue  # it is stopped at the document that is searched
            if pattern.group is not None:
                rows = arrived.get(number, {})
                if rows:
                    self._standing(pattern)
                together.setdefault(pattern.group.number, {})[number] = rows
                continue
            if care is not None:
                self._enter_work(pattern)
            self._remake(pattern, arrived.get(number))
        for number, own in together.items():
            self._renew_group(self._members.groups.numbered[number], own, moved)
        if care is not None:
            self._work.leave()

    def _stored_rows(self, chosen: Mapping[int, Live]) -> dict[int, Arrivals]:
        """The stored rows that patterns take."""
        self.write()
        own = None
        if len(chosen) < len(self._members.live):
            own = {tap for each in chosen.values() for tap in each.taps}
        first_doc = min([each.entry.first_doc for each in chosen.values()])
        arrived: dict[int, Arrivals] = {}
        for row, seen in self.tables.rows(own, first_doc):
            if row.tap not in self._members.taps:
                continue
            tap = self._members.taps[row.tap]
            tap.stored = True
            for number, pattern in tap.patterns.items():
                if number in chosen:
                    self._offer(pattern, row, seen, arrived.setdefault(number, {}))
        return arrived

    def _enter_work(self, pattern: Live) -> None:
        """What is done from now on is for a pattern."""
        id = pattern.subscription.id
        self._work.enter((id, id))

    def _renew_group(self, group: Group, rows: Mapping[int, Arrivals], moved: bool) -> None:
        known = group.entry.floor if moved else group.watermark(self.settled)
        group.standing.advance_to(known)
        if self._work.care is None:
            group.standing.again(rows)
        else:
            for number, own in rows.items():
                self._enter_work(self._members.live[number])
                group.standing.again({number: own})
        self._agenda.plan(group)

    def _remake(self, pattern: Live, rows: Arrivals | None) -> None:
        if rows or pattern.standing is not None:
            standing = self._standing(pattern)
            assert isinstance(standing, Standing)
            standing.watermark = pattern.watermark(self.settled)
            try:
                standing.again(rows or {})
            except TooMuch:
                pattern.too_much = True
            self._agenda.plan(pattern)
        if pattern.too_much:
            self._touched[pattern.number] = pattern

    # -- the end of a batch ----------------------------------------------------------------------

    def write(self) -> None:
        """Store the rows that have come."""
        rows, self._rows = self._rows, []
        self.tables.add_rows(rows)

    def end(self) -> None:
        """Store how far the patterns are, at the end of a batch."""
        if not self:
            return
        self.write()
        if self.settled != self._stored:
            self.tables.settle(self.settled)
            self._stored = self.settled

    def expire(self, horizon: int) -> None:
        """Drop what is of documents that ended before a time, which are deleted."""
        if not self:
            return
        self.write()
        self.tables.expire(horizon)
        groups = self._members.groups.numbered.values()
        for group in groups:
            group.standing.expire(group.watermark(self.settled))
        gone: dict[int, set[int]] = {}
        for number, pattern in [*self._awake.items()]:
            watermark = pattern.watermark(self.settled)
            if isinstance(pattern.standing, Standing):
                pattern.standing.expire(watermark)
            past = watermark is not None and pattern.newest < watermark - pattern.pattern.retention
            if past and pattern.due >= UNBOUNDED:
                # Nothing of it can be in a match any more.
                pattern.standing = None
                del self._awake[number]
                if pattern.group is not None:
                    gone.setdefault(pattern.group.number, set()).add(number)
        for number, owners in gone.items():
            self._members.groups.numbered[number].standing.drop(owners)
        self._agenda.shrink([*self._awake.values(), *groups])

    def drop(self, docs: Sequence[int]) -> None:
        """Drop the stored rows of documents, before `fill` brings others."""
        self.tables.delete_rows(docs)

    # -- others that match patterns --------------------------------------------------------------

    def enter(self, entries: Mapping[int, Entry]) -> None:
        """Go on with patterns as they are registered elsewhere."""
        self.tables.enter([*entries.values()])
        self._catalog.changed.update(entries)

    # -- history ---------------------------------------------------------------------------------

    def adopt(self, other: Standings, first_doc: int, settled: int) -> None:
        """Take over what the patterns of another broker are made of, which has gone through the
        documents from a number on: those that are registered here, and not known yet. They have
        decided by the highest time `settled`."""
        subscriptions = {each.number: each for each in other._catalog.patterns.values()}
        taps: set[str] = set()
        for entry in other.tables.entries():
            of = subscriptions[entry.number]
            own = self._catalog.subscriptions[of.id]
            self.tables.enter([entry._replace(number=own.number)])
            self.tables.mark(own.number, other.tables.marks(entry.number))
            taps.update(tap_names(of))
        self.tables.replace_rows(
            first_doc, [row for row, _ in other.tables.rows(taps, first_doc)], taps
        )
        known = self.tables.late(first_doc)
        late = other.tables.late(first_doc).items()
        self.tables.add_late([(d, end, seen) for d, (end, seen) in late if d not in known])
        self._store.on_rollback(self.reload)
        self.settled = max(self.settled, settled)

    # -- what waits ------------------------------------------------------------------------------

    def awake(self) -> Iterator[Live]:
        """The patterns that have rows."""
        return iter(self._awake.values())

    def asked(self, id: str, statements: Statements, name: str | None = None) -> list[Question]:
        """The question what became of the stored documents of a query, if it is a pattern, and of
        the patterns in its FROM. Their rows are read by `statements`."""
        name = name or id
        subscription = self._catalog.subscriptions[id]
        found: list[Question] = []
        pattern = self._members.of.get(subscription.number)
        if pattern is not None:
            found.append(self._question(pattern, subscription, statements, name))
        for inner in subscription.nested:
            if not inner.id.startswith(TAP):
                found += self.asked(inner.id, statements, f"the query in the FROM of {name}")
        return found

    def _question(
        self, pattern: Live, subscription: Subscription, statements: Statements, name: str
    ) -> Question:
        entry, own = pattern.entry, subscription.compiled.own_pattern
        assert own is not None
        taps = {tap: (self._members.taps[tap].reader, pattern.places[tap]) for tap in pattern.taps}
        return Question(
            name=name,
            pattern=own,
            registered=entry.registered,
            lateness=entry.lateness,
            watermark=pattern.watermark(self.settled),
            rows=StoredRows(statements, entry, taps, self._budget),
            tries=TRIES * self._budget,
            counted=COUNTED,
        )

    def waiting(self) -> list[Waiting]:
        """What the patterns have not decided yet, what is decided first in front. That of a pattern
        in a FROM counts for the query around it."""
        return waiting(self._awake, self._catalog.owner)

    def latest(self) -> int | None:
        """The highest time at which all that waits is decided, but for what waits for ever."""
        return latest(self._awake.values())

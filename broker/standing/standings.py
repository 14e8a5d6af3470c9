"""All registered event patterns: candidates of their taps in, decided matches out.

A batch costs what arrives and what becomes due, however many patterns there are: rows go to the
patterns of their tap, and a heap says which others have something to decide. All that is in memory
is made of the tables, and is made again after a restart, a transaction that failed, or a revision.
A match is decided in the batch in which the watermark comes far enough, and in its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from broker.documents.watermark import Watermark
from broker.join.candidates import Found
from broker.join.ownership import ALL, Ownership
from broker.join.work import Work
from broker.model import COUNTED, UNBOUNDED, Waiting
from broker.pattern.in_order.standing import Answer
from broker.pattern.published import Published
from broker.pattern.trying import TooMuch
from broker.planner import PLANNING, Planning
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.query.patterns import TAP
from broker.results.contents import Contents
from broker.standing.arriving import Arriving
from broker.standing.deleted import NONE
from broker.standing.entries import Entries
from broker.standing.live import Group, Live, Owns, tap_names
from broker.standing.memory import TRIES, Memory
from broker.standing.renewing import Renewing
from broker.standing.revising import Revising
from broker.standing.upstream import Upstream
from broker.standing.waiting import latest, waiting
from broker.standing.why import Question, StoredRows
from broker.state.pattern_tables import Entry, Mark, PatternTables
from broker.state.statements import Statements
from broker.state.store import Store
from broker.state.stored_documents import StoredDocument

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
        owns: Owns | None = None,
    ) -> None:
        self._store = store
        self.tables = PatternTables(store)
        self._catalog = catalog
        self._budget = budget
        self._work = work
        self._all_stored = stored
        self._upstream = Upstream(catalog, watermark)
        self.lateness = lateness_of or self._upstream.lateness
        """By how much the watermark of a query is behind the highest time."""
        self.deleted = NONE
        """What is in no match from now on."""
        self._memory = Memory(self.tables, catalog, budget, planning, owns)
        self._entries = Entries(
            self.tables, catalog, self._memory.members, ownership, self.lateness
        )
        self._arriving = Arriving(self._memory, catalog, contents)
        self.tapping, self.take = self._arriving.tapping, self._arriving.take
        self._renewing = Renewing(self._memory, work)
        self._revising = Revising(self._memory, self._renewing)
        self._stored: int | None = None
        self._loaded = False

    def match_in_order(self, wanted: bool) -> None:
        """Whether patterns that can be are matched in the order of time, those of one form
        together. Said before any is registered."""
        self._memory.members.in_order = wanted

    def __bool__(self) -> bool:
        return bool(self._catalog.patterns) or bool(self._memory.members.of)

    # -- which patterns there are ----------------------------------------------------------------

    @property
    def settled(self) -> int:
        """The highest time by which they have decided."""
        return self._memory.settled

    @property
    def marked(self) -> Mapping[int, Mapping[str, int]]:
        """What patterns have kept of their matches in this transaction, by number."""
        return self._memory.marks.fresh

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
        self._memory.marks.begin()
        self._store.on_rollback(self.reload)
        registered = None if highest <= -UNBOUNDED else highest
        if not self._loaded:
            self._stored = self._memory.settled = self.tables.settled(highest)
            self._load(registered)
        elif changed:
            self._synchronize(registered)
        self._loaded = True
        self._memory.members.columns.renew()

    def reload(self) -> None:
        """Forget everything, as the transaction failed that made it, or other patterns are matched
        here than before."""
        self._memory.clear()
        self._entries.clear()
        self._upstream.forget()
        self._loaded = False

    def _load(self, registered: int | None) -> None:
        """Make all patterns of the tables."""
        self._catalog.changed.clear()
        self._catalog.changed_streams.clear()
        entries, removed = self._entries.stored()
        if removed:
            self.tables.keep_taps({tap for taps in self._catalog.taps.values() for tap in taps})
        self._entries.register(self._catalog.patterns, entries, registered, self.settled)
        if self._memory.members.of and self.tables.lacks_rows:
            self.tables.keep_taps(())
            for found, documents in self._all_stored():
                self.fill(found, documents)
            self.tables.lack_rows(bool(self.elsewhere))
        self._memory.told.load(self._memory.members.of)
        self._renewing.load()

    def _synchronize(self, registered: int | None) -> None:
        """Make the patterns that have come, and drop those that have gone."""
        changed, self._catalog.changed = self._catalog.changed, set()
        self._upstream.forget()
        self._memory.marks.change(changed)
        taps: set[str] = set()
        here = self._memory.members.of
        stored = self._entries.kept(changed)
        self._entries.leave(changed)
        for number in changed:
            before = here.get(number)
            if before is not None:
                taps.update(self._memory.members.leave(before, number))
                if not before.subscriptions:
                    self._memory.forget(before)
        entries, _ = self._entries.stored(stored)
        moved: list[Live] = []
        fresh = [number for number in sorted(changed) if number in self._catalog.patterns]
        if self._catalog.changed_streams:
            self._catalog.changed_streams.clear()
            for pattern in self._entries.reconsider(self.settled):
                if pattern.group is None:
                    self._memory.agenda.plan(pattern)
                else:
                    moved.append(pattern)
        self._entries.register(fresh, entries, registered, self.settled)
        self.tables.delete_taps([tap for tap in taps if tap not in self._memory.members.taps])
        # No document has come yet to those that were not known.
        of = {n: here[n] for n in fresh if n in entries and n in here}
        if of:
            self._memory.told.load(of)
        known = {pattern.number for pattern in of.values()}
        self._renewing.renew([self._memory.members.live[number] for number in sorted(known)])
        self._renewing.renew(moved, moved=True)

    # -- documents -------------------------------------------------------------------------------

    def note(self, documents: Iterable[tuple[int, int, int]]) -> None:
        """Note the documents that are older than others when they come, of these: their numbers and
        ends, each with the highest time then."""
        if self:
            self.tables.add_late([each for each in documents if each[1] < each[2]])

    def fill(self, found: Sequence[Found], documents: Sequence[StoredDocument]) -> None:
        """Store the rows of documents that were there before, without handing them over: `reload`,
        or what has called this, makes patterns of all rows."""
        self.take([*found], documents, {})
        self._memory.withdraw()
        self._memory.write()

    def replace(self, found: Sequence[Found], documents: Sequence[StoredDocument]) -> None:
        """Replace the rows of documents that were revised: what is decided stays decided."""
        if self._memory.members.of:
            self._revising.replace(documents, lambda: self.take([*found], documents, {}))

    # -- deciding --------------------------------------------------------------------------------

    def settle(
        self, highest: int, begins: Callable[[Live], bool]
    ) -> Iterator[tuple[Group | None, Answer]]:
        """What is decided now that the highest time is this, by the numbers of patterns: of a
        group, or of one pattern, each behind those whose results it reads; None for one that has
        more to try than it may. `begins` is asked before each that is matched by itself whether it
        is to decide at all."""
        self._memory.settled = max(self.settled, highest)
        ready: list[tuple[int, int]] = []
        for number in self._memory.agenda.due(highest, self._memory.members.find):
            heappush(ready, (self._depth(number), number))
        while ready or self._memory.touched:
            # What one decides may be documents for others.
            for number in self._memory.touched:
                heappush(ready, (self._depth(number), number))
            self._memory.touched.clear()
            _, number = heappop(ready)
            while ready and ready[0][1] == number:
                heappop(ready)
            group = self._memory.members.groups.numbered.get(number)
            if group is not None:
                if decided := self._of_group(group, highest, begins):
                    yield group, decided
                continue
            pattern = self.live[number]
            if not self.is_registered(pattern):
                pattern.pending = {}
                continue
            if not begins(pattern):
                continue
            try:
                if pattern.too_much:
                    raise TooMuch
                found = self._advance(pattern, highest)
            except TooMuch:
                yield None, {number: None}
                continue
            if found:
                yield None, {number: found}

    def _depth(self, number: int) -> int:
        """How many queries stand before a pattern, or before those of a group, which is the same
        for all of them."""
        found = self._memory.members.find(number)
        assert found is not None
        return self._upstream.depth(
            (found.first if isinstance(found, Group) else found).subscription
        )

    @property
    def live(self) -> Mapping[int, Live]:
        """The patterns in memory, by their own numbers."""
        return self._memory.members.live

    def is_registered(self, pattern: Live) -> bool:
        """Whether a pattern is the catalog's still."""
        return not self._catalog.patterns.keys().isdisjoint(pattern.subscriptions)

    def _of_group(self, group: Group, highest: int, begins: Callable[[Live], bool]) -> Answer:
        """What the patterns of a group decide by this time."""
        self._memory.wake_by(group, group.watermark(highest))
        # With care each is timed by itself.
        one_by_one = None if self._work.care is None else lambda n: begins(self.live[n])
        try:
            decided = group.standing.advance(group.watermark(highest), one_by_one)
        finally:
            self._memory.agenda.plan(group)
        for number, news in group.standing.news():
            self._memory.marks.note(self.live[number].entry.number, news)
        return self._memory.told.left(decided)

    def _advance(self, pattern: Live, highest: int) -> list[Published]:
        """What a pattern decides by this time. Raises TooMuch."""
        arrived, pattern.pending = pattern.pending, {}
        standing = self._memory.standing(pattern)
        try:
            found = standing.advance(arrived, pattern.watermark(highest))
        finally:
            self._memory.agenda.plan(pattern)
        self._memory.marks.note(pattern.entry.number, standing.news())
        return self._memory.told.left({pattern.number: found})[pattern.number] or []

    # -- the end of a batch ----------------------------------------------------------------------

    def end(self) -> None:
        """Store how far the patterns are, at the end of a batch."""
        if not self:
            return
        self._memory.write()
        if self.settled != self._stored:
            self.tables.settle(self.settled)
            self._stored = self.settled

    def expire(self, horizon: int) -> None:
        """Drop what is of documents that ended before a time, which are deleted."""
        if not self:
            return
        self._memory.write()
        self._memory.expire(horizon)

    def drop(self, docs: Sequence[int]) -> None:
        """Drop the stored rows of documents."""
        self.tables.delete_rows(docs)

    # -- others that match patterns --------------------------------------------------------------

    def enter(self, entries: Mapping[int, Entry]) -> None:
        """Go on with patterns as they are registered elsewhere."""
        self._entries.keep([*entries.values()])
        self._catalog.changed.update(entries)

    # -- history ---------------------------------------------------------------------------------

    def adopt(self, other: Standings, first_doc: int, settled: int) -> None:
        """Take over what the patterns of another broker are made of, which has gone through the
        documents from a number on: those that are registered here, and not known yet. They have
        decided by the highest time `settled`."""
        subscriptions = {each.number: each for each in other._catalog.patterns.values()}
        taps: set[str] = set()
        marks: list[Mark] = []
        for entry in other.tables.entries():
            of = subscriptions[entry.number]
            own = self._catalog.subscriptions[of.id]
            self._entries.keep([entry._replace(number=own.number)])
            marks += [Mark(own.number, *mark) for mark in other.tables.marks(entry.number)]
            taps.update(tap_names(of))
        self.tables.mark(marks)
        self.tables.replace_rows(
            first_doc, [row for row, _ in other.tables.rows(taps, first_doc)], taps
        )
        known = self.tables.late(first_doc)
        late = other.tables.late(first_doc).items()
        self.tables.add_late([(d, end, seen) for d, (end, seen) in late if d not in known])
        self._store.on_rollback(self.reload)
        self._memory.settled = max(self.settled, settled)

    # -- what waits ------------------------------------------------------------------------------

    def awake(self) -> Iterator[Live]:
        """The patterns that have rows."""
        return self._memory.awake()

    def asked(self, id: str, statements: Statements, name: str | None = None) -> list[Question]:
        """The question what became of the stored documents of a query, if it is a pattern, and of
        the patterns in its FROM. Their rows are read by `statements`."""
        name = name or id
        subscription = self._catalog.subscriptions[id]
        found: list[Question] = []
        pattern = self._memory.members.of.get(subscription.number)
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
        return Question(
            name=name,
            pattern=own,
            registered=entry.registered,
            lateness=entry.lateness,
            watermark=pattern.watermark(self.settled),
            rows=StoredRows(statements, entry, pattern.blocks, self._budget),
            tries=TRIES * self._budget,
            counted=COUNTED,
        )

    def waiting(self, rows: int | None = None) -> list[Waiting]:
        """What the patterns have not decided yet, what is decided first in front. That of a pattern
        in a FROM counts for the query around it. After a restart it lacks those for which more than
        so many `rows` would have to be read."""
        self._memory.wake_all(rows)
        return waiting(self._memory.awake(), self._catalog.owner)

    def latest(self) -> int | None:
        """The highest time at which all is decided, but for what waits for ever."""
        self._memory.wake_all()
        return latest(self._memory.awake())

"""All registered event patterns: candidates of their taps in, decided matches out.

Everything in memory is made of the tables of event patterns and can be made again at any time:
after a restart, after a transaction that failed, after a revision. A match is decided in the batch
in which the watermark comes far enough, and enters the outbox in its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from broker.documents.watermark import Watermark
from broker.join.candidates import Candidate, Found
from broker.model import COUNTED, UNBOUNDED, Waiting
from broker.pattern.instances import Row
from broker.pattern.setting import TooMuch
from broker.pattern.standing import Marks, Published, Standing
from broker.query.catalog import Catalog, Subscription
from broker.query.patterns import TAP, PatternQuery
from broker.results.contents import Contents
from broker.standing.results import Maker
from broker.standing.taps import TapReader
from broker.standing.why import Why, look, time_of
from broker.state.pattern_tables import Entry, PatternTables, TapRow
from broker.state.relations import StoredDocument
from broker.state.store import Store

TRIES = 100
"""Choices that a pattern may try for each document of a batch, in budgets of one document."""


@dataclass(slots=True, eq=False)
class Live:
    """A pattern in memory. `places` are the places of its taps in the plan, by tap; `pending` are
    rows that it has not seen. `renewing`: its rows have changed."""

    subscription: Subscription
    pattern: PatternQuery
    entry: Entry
    standing: Standing
    maker: Maker
    readers: Mapping[str, TapReader]
    places: Mapping[str, Sequence[int]]
    pending: dict[int, list[Row]] = field(default_factory=dict)


class Standings:
    """The patterns of a catalog. Used within transactions of `store`."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        contents: Contents,
        watermark: Watermark,
        budget: int,
        lateness_of: Callable[[Subscription], int] | None = None,
    ) -> None:
        self._store = store
        self._tables = PatternTables(store)
        self._catalog = catalog
        self._contents = contents
        self._watermark = watermark
        self._budget = budget
        self._lateness_of = lateness_of or self.lateness
        self._seen = -1
        """The catalog's changes that are applied."""
        self._patterns: dict[int, Live] = {}
        self._ordered: list[Live] = []
        self._by_tap: dict[str, list[Live]] = {}
        self._rows: list[TapRow] = []
        """Rows that are not stored yet."""
        self.settled = -UNBOUNDED
        """The highest time by which they have decided."""
        self._stored: int | None = None
        self._loaded = False

    def __bool__(self) -> bool:
        return bool(self._catalog.patterns) or bool(self._patterns)

    # -- which patterns there are ----------------------------------------------------------------

    def begin(self, highest: int) -> None:
        """Prepare for a transaction; `highest` is the highest time before it."""
        if not self._loaded and not self:
            self._loaded = not self._tables.entries()
        if self._loaded and self._seen == self._catalog.changes and not self._patterns:
            return
        self._store.on_rollback(self._reset)
        if not self._loaded:
            self._stored = self._tables.settled(highest)
            self.settled = self._stored
        if self._seen != self._catalog.changes or not self._loaded:
            self._synchronize(highest)
        self._loaded = True

    def _reset(self) -> None:
        """Forget everything, as the transaction failed that made it."""
        self._patterns.clear()
        self._ordered.clear()
        self._by_tap.clear()
        self._rows.clear()
        self._seen, self._loaded = -1, False

    def _synchronize(self, highest: int) -> None:
        self._seen = self._catalog.changes
        entries = {entry.number: entry for entry in self._tables.entries()}
        patterns = self._catalog.patterns
        gone = {
            number
            for number, entry in entries.items()
            if number not in patterns or patterns[number].first_doc != entry.first_doc
        }
        if gone:
            self._tables.remove(gone)
            self._tables.keep_taps({tap for taps in self._catalog.taps.values() for tap in taps})
        registered = None if highest <= -UNBOUNDED else highest
        kept: dict[int, Live] = {}
        for number, subscription in patterns.items():
            lateness = self._lateness_of(subscription)
            entry = entries.get(number)
            if entry is None or number in gone:
                entry = Entry(number, subscription.first_doc, registered, lateness, None)
                self._tables.enter([entry])
            elif entry.lateness != lateness:
                before = self.settled - entry.lateness
                floor = before if entry.floor is None else max(before, entry.floor)
                entry = entry._replace(lateness=lateness, floor=floor)
                self._tables.enter([entry])
            there = self._patterns.get(number)
            if there is not None and there.subscription is subscription:
                there.entry = entry
                kept[number] = there
            else:
                kept[number] = self._registered(subscription, entry)
        self._patterns = kept
        self._by_tap = {}
        for each in kept.values():
            for tap in each.readers:
                self._by_tap.setdefault(tap, []).append(each)
        self._ordered = self._in_reading_order()

    def _registered(self, subscription: Subscription, entry: Entry) -> Live:
        pattern = subscription.pattern
        assert pattern is not None
        places: dict[str, list[int]] = {}
        readers: dict[str, TapReader] = {}
        for place, tap in enumerate(pattern.taps):
            name = tap.resolved.id
            places.setdefault(name, []).append(place)
            if name not in readers:
                readers[name] = TapReader(tap, self._catalog.subscriptions[name])
        marks = Marks(self._tables.marks(entry.number))
        tries = TRIES * self._budget
        standing = Standing(pattern.plan, entry.registered, tries, marks)
        maker = Maker(subscription, pattern)
        made = Live(subscription, pattern, entry, standing, maker, readers, places)
        standing.watermark = self._at(entry, self.settled)
        self._renew(made)
        return made

    def lateness(self, subscription: Subscription, inside: Collection[str] = ()) -> int:
        """By how much the watermark of a query is behind the highest time."""
        published = self._catalog.published
        query = None if subscription.pattern is None else subscription.pattern.plan.query
        found = []
        base = []
        for stream in subscription.delivery.streams:
            maker = published.get(stream)
            if maker is None:
                base.append(stream)
            elif maker not in inside:
                inner = self._catalog.subscriptions[maker]
                found.append(self.lateness(inner, {*inside, subscription.id}))
        if query is not None and query.wait is not None:
            wait = query.wait.microseconds
            if base or not found:
                found.append(UNBOUNDED if wait is None else wait)
        else:
            found += [self._watermark.allowed((stream,)) for stream in base]
        return max(found)

    def _at(self, entry: Entry, highest: int) -> int | None:
        """The watermark of a pattern."""
        if highest <= -UNBOUNDED or entry.lateness >= UNBOUNDED:
            return entry.floor
        found = highest - entry.lateness
        return found if entry.floor is None else max(found, entry.floor)

    def _in_reading_order(self) -> list[Live]:
        """Each pattern behind those whose results it reads."""
        ordered: dict[int, Live] = {}
        visited: set[str] = set()
        catalog = self._catalog

        def visit(subscription: Subscription) -> None:
            if subscription.id in visited:
                return
            visited.add(subscription.id)
            for stream in sorted(subscription.delivery.streams):
                maker = catalog.published.get(stream)
                if maker is not None:
                    visit(catalog.subscriptions[maker])
            if subscription.number in self._patterns:
                ordered[subscription.number] = self._patterns[subscription.number]

        for number in sorted(self._patterns):
            visit(self._patterns[number].subscription)
        return [*ordered.values()]

    # -- documents -------------------------------------------------------------------------------

    def note(self, documents: Iterable[tuple[StoredDocument, int]]) -> None:
        """Note the documents that are older than others when they come, each with the highest time
        then."""
        if self._patterns:
            late = [(d.doc, d.end, seen) for d, seen in documents if d.end < seen]
            self._tables.add_late(late)

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
            readers = self._by_tap.get(name)
            if not readers:
                continue
            rows = readers[0].readers[name].rows(candidates, matched[doc])
            self._rows += rows
            for row in rows:
                for pattern in readers:
                    self._offer(pattern, row, seen.get(doc), pattern.pending)

    def _offer(
        self, pattern: Live, row: TapRow, seen: int | None, pending: dict[int, list[Row]]
    ) -> None:
        """Hand a row to a pattern, unless it is too old for it. `seen` is the highest time when its
        document came, None if that was not older, or is made of results."""
        entry = pattern.entry
        if row.base < entry.first_doc:
            return
        if row.base == row.doc and seen is not None:
            watermark = self._at(entry, seen)
            if watermark is not None and row.end < watermark:
                return
        own = pattern.readers[row.tap].row(row)
        for place in pattern.places[row.tap]:
            pending.setdefault(place, []).append(own)

    def replace(self, found: Sequence[Found], documents: Sequence[StoredDocument]) -> None:
        """Replace the rows of documents that were revised: what is decided stays decided."""
        if not self._patterns:
            return
        self.write()
        docs = [document.doc for document in documents]
        before = self._tables.rows_of(docs)
        self._tables.delete_rows(docs)
        self.take([*found], documents, {})
        changed = {row.tap for row in before.symmetric_difference(self._rows)}
        for pattern in self._ordered:
            pattern.pending = {}
            if not changed.isdisjoint(pattern.readers):
                self._renew(pattern)

    # -- deciding --------------------------------------------------------------------------------

    def settle(self, highest: int) -> Iterator[tuple[Live, list[Published] | None]]:
        """What is decided now that the highest time is this, pattern by pattern, each behind those
        whose results it reads; None for one that has more to try than it may."""
        self.settled = max(self.settled, highest)
        for pattern in self._ordered:
            if pattern.subscription.number not in self._catalog.patterns:
                continue
            arrived, pattern.pending = pattern.pending, {}
            watermark = self._at(pattern.entry, highest)
            standing = pattern.standing
            if not arrived and (watermark is None or watermark == standing.watermark):
                continue
            try:
                found = standing.advance(arrived, watermark)
            except TooMuch:
                yield pattern, None
                continue
            if standing.marks.news:
                self._tables.mark(pattern.entry.number, [*standing.marks.news.items()])
                standing.marks.news.clear()
            if found:
                yield pattern, found

    def _renew(self, pattern: Live) -> None:
        """Make a pattern's state of its stored rows; see `Standing.again`."""
        self.write()
        pattern.pending = {}
        arrived: dict[int, list[Row]] = {}
        for row, seen in self._tables.rows(pattern.readers.keys(), pattern.entry.first_doc):
            self._offer(pattern, row, seen, arrived)
        pattern.standing.again(arrived)

    # -- the end of a batch ----------------------------------------------------------------------

    def write(self) -> None:
        """Store the rows that have come."""
        rows, self._rows = self._rows, []
        self._tables.add_rows(rows)

    def end(self) -> None:
        """Store how far the patterns are, at the end of a batch."""
        if not self._patterns:
            return
        self.write()
        if self.settled != self._stored:
            self._tables.settle(self.settled)
            self._stored = self.settled

    def expire(self, horizon: int) -> None:
        """Drop what is of documents that ended before a time, which are deleted."""
        if self._patterns:
            self.write()
            self._tables.expire(horizon)
            for pattern in self._patterns.values():
                pattern.standing.expire()

    # -- history ---------------------------------------------------------------------------------

    def late_since(self, first_doc: int) -> dict[int, int]:
        """The documents from a number on that were older than others, with the highest time
        then."""
        return {doc: seen for doc, (_, seen) in self._tables.late(first_doc).items()}

    def adopt(self, other: Standings, first_doc: int, settled: int) -> None:
        """Take over what the patterns of another broker are made of, which has gone through the
        documents from a number on: those that are registered here, and not known yet. They have
        decided by the highest time `settled`."""
        subscriptions = {each.number: each for each in other._catalog.patterns.values()}
        taps: set[str] = set()
        for entry in other._tables.entries():
            of = subscriptions[entry.number]
            own = self._catalog.subscriptions[of.id]
            self._tables.enter([entry._replace(number=own.number)])
            self._tables.mark(own.number, other._tables.marks(entry.number))
            assert of.pattern is not None
            taps.update([tap.resolved.id for tap in of.pattern.taps])
        self._tables.replace_rows(
            first_doc, [row for row, _ in other._tables.rows(taps, first_doc)], taps
        )
        known = self._tables.late(first_doc)
        late = other._tables.late(first_doc).items()
        self._tables.add_late([(d, end, seen) for d, (end, seen) in late if d not in known])
        self._store.on_rollback(self._reset)
        self.settled = max(self.settled, settled)

    # -- what waits ------------------------------------------------------------------------------

    def waiting(self) -> list[Waiting]:
        """What the patterns have not decided yet, what is decided first in front. That of a pattern
        in a FROM counts for the query around it."""
        counts: dict[str, int] = {}
        soonest: dict[str, int] = {}
        for pattern in self._ordered:
            dues = [due for due, _ in islice(pattern.standing.waiting(), COUNTED)]
            if dues:
                owner = self._catalog.owner(pattern.subscription.id)
                counts[owner] = min(COUNTED, counts.get(owner, 0) + len(dues))
                highest = _highest_at(pattern.entry, min(dues))
                soonest[owner] = min(soonest.get(owner, UNBOUNDED), highest)
        found = [
            Waiting(id, counts[id], None if soonest[id] >= UNBOUNDED else soonest[id])
            for id in counts
        ]
        return sorted(found, key=lambda each: (each.decides or UNBOUNDED, each.query))

    def why(self, id: str, name: str | None = None) -> list[Why]:
        """What became of the stored documents of a query, if it is a pattern, and of the patterns
        in its FROM."""
        name = name or id
        subscription = self._catalog.subscriptions[id]
        found: list[Why] = []
        pattern = self._patterns.get(subscription.number)
        if pattern is not None:
            entry, standing = pattern.entry, pattern.standing
            arrived: dict[int, list[Row]] = {}
            for row, seen in self._tables.rows(pattern.readers.keys(), entry.first_doc):
                self._offer(pattern, row, seen, arrived)
            found.append(
                look(
                    *(name, pattern.pattern.plan, entry.registered, entry.lateness),
                    *(standing.watermark, arrived, TRIES * self._budget, COUNTED),
                )
            )
        for inner in subscription.shape.nested:
            if not inner.id.startswith(TAP):
                found += self.why(inner.id, f"the query in the FROM of {name}")
        return found

    def latest(self) -> int | None:
        """The highest time at which all that waits is decided, but for what waits for ever."""
        found = [
            highest
            for pattern in self._ordered
            for due, _ in pattern.standing.waiting()
            if (highest := _highest_at(pattern.entry, due)) < UNBOUNDED
        ]
        return max(found, default=None)


def _highest_at(entry: Entry, due: int) -> int:
    """The highest time at which the watermark is that far; `due` is twice the watermark."""
    return time_of(due, entry.lateness)

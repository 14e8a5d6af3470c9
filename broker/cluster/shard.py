"""A shard: the queries that have routes, the rows that are sent here, and the matches it owns.

It runs the join and makes the results that one machine does, over the same tables, in memory. All
it holds comes from segments, so it can be made anew at any time; it decides nothing that others
need to know but the matches of a batch, which it gives as columns of the outbox, with their text.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from broker.cluster.answers import Answer, Aside, StandIn, Suffixes, Waits, columns_of
from broker.cluster.documents import SegmentDocuments
from broker.cluster.files import Files
from broker.cluster.load import Use
from broker.cluster.manifest import Segment
from broker.cluster.owning import Owner
from broker.cluster.patterns import Patterns
from broker.cluster.routes import Route
from broker.cluster.segments import Change, Reader, Step
from broker.cluster.shard_patterns import ShardPatterns
from broker.join.budget import Budget
from broker.join.candidates import Found
from broker.join.joiner import Joiner
from broker.model import UNBOUNDED, Budgets
from broker.query.catalog import Catalog
from broker.query.prepared import compile_query, resolve
from broker.results.contents import Contents
from broker.results.matches import Making, Result, results
from broker.results.publisher import Plans
from broker.state.pattern_tables import Entry
from broker.state.relations import MatchRelations
from broker.state.store import Store
from broker.subscriptions.limits import Limits
from broker.text.formats import FORMATS


class Settings(NamedTuple):
    """What all shards are told: `form` is the format of the matches' text, if it is wanted, and
    `stand_in` what is in it where subscribers are not known."""

    shards: int
    memory: int
    budgets: Budgets
    form: str | None
    stand_in: StandIn


class Shard:
    """One of several shards, over the files of a cluster."""

    def __init__(self, files: Files, shard: int, settings: Settings) -> None:
        self._shard = shard
        self._horizon = -UNBOUNDED
        self._settings = settings
        self._reader = Reader(files)
        self._store = Store(None)
        self._relations = MatchRelations(self._store)
        self.catalog = Catalog(bare=True)  # else variables would be numbered here
        self._routes: dict[int, Route] = {}
        self._budget = Budget(settings.budgets)
        self._limits = Limits(self._store, None)
        self._documents = SegmentDocuments(self._reader)
        self._contents = Contents(self._documents)
        self._plans = Plans(Suffixes())
        self._owner = Owner(shard, settings.shards, self._routes, self.catalog.taps)
        self._joiner = Joiner(
            self._relations, self.catalog, self._budget, settings.memory, ownership=self._owner
        )
        self._patterns = ShardPatterns(
            *(self._store, self.catalog, self._contents, self._limits, self._budget),
            (shard, settings.shards),
        )

    def close(self) -> None:
        self._store.close()

    # -- what comes --------------------------------------------------------------------------

    def load(
        self,
        queries: Sequence[str],
        segments: Sequence[Segment],
        hot: Mapping[int, int],
        patterns: Patterns,
    ) -> None:
        """Begin with queries and committed batches, which were divided by these hot values, without
        looking for matches; event patterns are as far as is said."""
        self._owner.hot = hot
        self.change(queries)
        self._joiner.refresh()
        with self._store.transaction():
            self._patterns.load(patterns)
        for segment in segments:
            steps, file = self._reader.batch(segment)
            with self._store.transaction():
                for place, step in enumerate(steps):
                    rows = self._rows(file, place)
                    if step.revised:
                        self._relations.delete(step.revised)
                        self._patterns.drop(step.revised)
                        self._contents.forget(step.revised)
                    self._documents.add(segment, steps, place)
                    self._relations.insert_rows(rows)
                    self._patterns.fill(step, rows, self._joiner)
            self._contents.release()
        self._patterns.reload()
        # The index is made of the relations in one go, whatever was revised in between.
        self._joiner.reset()
        self._joiner.refresh()

    def change(self, queries: Sequence[str]) -> None:
        """Apply changes of the queries, given by the names of their files."""
        for name in queries:
            for each in self._reader.changes(name):
                if each.text:
                    self._add(each)
                elif each.first_doc is not None:
                    self._begin(each.id, each.first_doc)
                else:
                    self._remove(each.id)
        self.catalog.edges.changes()

    def _remove(self, id: str) -> None:
        if id in self.catalog.subscriptions:  # else it is a pattern with another home
            gone = self.catalog.remove(id)
            self._patterns.keys.pop(gone.number, None)
            if not gone.canonical.subscribed:
                self._routes.pop(gone.canonical.number, None)

    def _begin(self, id: str, first_doc: int) -> None:
        known = self.catalog.subscriptions[id]
        known.first_doc = first_doc
        canonical = known.canonical
        canonical.begin(min([each.first_doc for each in canonical.subscribers.values()]))
        self.catalog.dirty.add(canonical.number)

    def _add(self, change: Change) -> None:
        if change.home not in (None, self._shard):
            return
        assert change.route is not None
        assert change.first_doc is not None
        known = self.catalog.variables
        known.load([(text, n) for text, n in change.variables.items() if text not in known])
        compiled = compile_query(resolve(change.called, change.text))
        compiled.id = change.id
        added = self.catalog.add(compiled, change.number, change.first_doc)
        if added.pattern is None:
            self._routes[added.canonical.number] = change.route
        elif change.keys:
            self._patterns.keys[added.number] = change.keys

    def apply(
        self,
        segment: Segment,
        horizon: int,
        revised: Collection[int],
        entries: Mapping[int, Entry],
        counted: Collection[str],
    ) -> Answer:
        """Add a batch, and find its matches. Documents that ended before `horizon` are deleted
        first, `revised` are those that have other bytes at the end of the batch, `entries` the
        event patterns that are registered, or have changed, and `counted` the variants of which all
        combinations are told. If it raises, the shard has to be made anew."""
        cpu, began = time.process_time(), time.monotonic()
        steps, file = self._reader.batch(segment)
        found: list[Result] = []
        asides: list[Aside] = []
        self._joiner.refresh()
        with self._store.transaction():
            self._patterns.begin(entries)
            if horizon > self._horizon:
                self._expire(horizon)
                self._horizon = horizon
            self._budget.begin(one_by_one=True)
            self._limits.begin()
            self._contents.release()
            for place, step in enumerate(steps):
                rows = self._rows(file, place)
                if step.revised:
                    self._revise(segment, steps, place, rows)
                    continue
                self._documents.add(segment, steps, place)
                self._patterns.note(step)
                seen = {doc: highest for doc, _, highest in step.late}
                for part, settle in _pieces(rows, step.settles):
                    if part.num_rows:
                        self._relations.insert_rows(part)
                        candidates = self._candidates(part, seen)
                        found += self._results(candidates)
                        asides += self._asides(candidates, counted)
                    for made in self._patterns.decided(*settle) if settle else ():
                        found += made
            self._patterns.end()
            stopped, marked = self._limits.take_stopped(), self._patterns.marked
            form, stand_in = FORMATS.get(self._settings.form or ""), self._settings.stand_in
            matches = columns_of(found, revised, form, stand_in)
        taken = time.process_time() - cpu, time.monotonic() - began
        held = len(self._joiner.postings.records)
        return Answer(matches, asides, stopped, marked, Use(*taken, held, len(found)))

    def _revise(self, segment: Segment, steps: Sequence[Step], place: int, rows: pa.Table) -> None:
        """Replace documents by what they are revised to."""
        docs = steps[place].revised
        self._relations.delete(docs)
        self._contents.forget(docs)
        self._documents.add(segment, steps, place)
        self._relations.insert_rows(rows)
        self._joiner.replace(docs, rows)
        if self._patterns:
            documents = [*self._documents.documents(docs).values()]
            self._patterns.replace(rows, documents, self._joiner)

    def waiting(self) -> Waits:
        """What event patterns have not decided."""
        self._joiner.refresh()
        with self._store.transaction():
            return self._patterns.waiting()

    def _rows(self, file: pa.ipc.RecordBatchFileReader, step: int) -> pa.Table:
        place = step * self._settings.shards + self._shard
        return pa.Table.from_batches([file.get_batch(place).replace_schema_metadata()])

    def _expire(self, horizon: int) -> None:
        self._joiner.expire(horizon)
        self._patterns.expire(horizon)
        postings = self._joiner.postings
        old = [doc for doc, record in postings.records.items() if record.end < horizon]
        if old:
            postings.remove(old)
            self._store.on_rollback(self._relations.rolled_back)
            self._relations.expire(horizon)

    # -- what it finds -----------------------------------------------------------------------

    def _candidates(self, rows: pa.Table, seen: Mapping[int, int]) -> list[Found]:
        """The candidates of new documents, but for those that event patterns take."""
        found = self._joiner.candidates(rows)
        if self.catalog.taps:
            found = self._patterns.take(found, seen)
            found = [each for each in found if self._owner.shares(each[0], each[1].docs)]
        return self._apart(found)

    def _results(self, candidates: list[Found]) -> list[Result]:
        if not candidates:
            return []
        shapes = self._joiner.templates.shapes
        making = Making(self._contents, self._plans, shapes, self._limits, self._budget)
        found = results(making, (), candidates)
        # Where a block of a pattern is a query as well, its taps are among the subscribers.
        return [each for each in found if not each.hidden] if self.catalog.taps else found

    def _apart(self, candidates: list[Found]) -> list[Found]:
        """The candidates in which no two documents are versions of the same document."""
        if not (candidates and self._documents.versioned):
            return candidates
        docs = sorted({doc for _, candidate in candidates for doc in candidate.docs})
        of = {doc: (d.source, d.id) for doc, d in self._documents.documents(docs).items()}
        return [f for f in candidates if len({of[d] for d in f[1].docs}) == len(f[1].docs)]

    def _asides(self, candidates: list[Found], counted: Collection[str]) -> list[Aside]:
        """The pairs that are set aside, and those that might be with what other shards find."""
        catalog = self.catalog.canonical
        asides = []
        for (number, doc), why, of in self._budget.news():
            there = catalog[number].subscribers
            own = None if of is None else tuple([there[each].id for each in sorted(of)])
            asides.append(Aside(catalog[number].name, doc, 0, why, own))
        least = self._budget.combinations // self._settings.shards
        if len(candidates) > least or (counted and candidates):
            known = self.catalog.subscriptions
            told = {known[id].canonical.number for id in counted if id in known}
            counts = Counter(self._budget.pair(each) for each in candidates)
            asides += [
                Aside(catalog[number].name, doc, count, None)
                for (number, doc), count in counts.items()
                if count > least or number in told
            ]
        return asides


def _pieces(
    rows: pa.Table, settles: Sequence[tuple[int, int]]
) -> Iterator[tuple[pa.Table, tuple[int, int] | None]]:
    """The rows up to each document after which something is decided, and those behind the last;
    each with that."""
    if len(settles) <= 1:
        yield rows, settles[0] if settles else None
        return
    docs = rows.column("doc").to_numpy()
    bounds = np.searchsorted(docs, [doc for doc, _ in settles], side="right").tolist()
    for low, high, settle in zip([0, *bounds], bounds, settles, strict=False):
        yield rows.slice(low, high - low), settle

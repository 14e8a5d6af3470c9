"""A shard: the queries that have routes, the rows that are sent here, and the matches it owns.

It runs the join and makes the results that one machine does, over the same tables, in memory. All
it holds comes from segments, so it can be made anew at any time; it decides nothing that others
need to know but the matches of a batch, which it gives as columns of the outbox, with their text.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from broker.cluster.files import Files
from broker.cluster.load import Use
from broker.cluster.manifest import Segment
from broker.cluster.owning import Owner
from broker.cluster.routes import Route
from broker.cluster.segments import Change, Reader, Step
from broker.documents.watermark import Watermark
from broker.join.budget import Budget
from broker.join.candidates import Found
from broker.join.joiner import Joiner
from broker.model import UNBOUNDED, Budgets, Waiting
from broker.query.catalog import Catalog
from broker.query.prepared import compile_query, resolve
from broker.results.contents import Contents
from broker.results.matches import Making, Result, results
from broker.results.publisher import Plans
from broker.standing.deciding import Deciding
from broker.standing.standings import Standings
from broker.state.pattern_tables import Entry
from broker.state.relations import MatchRelations, StoredDocument
from broker.state.store import Store
from broker.subscriptions.limits import Limits
from broker.text.formats import FORMATS

MATCHES = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("first", pa.int64()),
        ("number", pa.int64()),
        ("doc", pa.int64()),
        ("base", pa.int64()),
        ("ids", pa.binary()),
        ("queries", pa.list_(pa.string())),
        ("match", pa.string()),
        ("result", pa.binary()),
        ("docs", pa.list_(pa.int64())),
        ("lines", pa.list_(pa.binary())),
    ]
)
"""Matches of a shard: their interval; their first document, the number of their first subscription,
the document that completes them and the oldest that they are made of; the columns of the outbox;
and the text of the match of each subscriber, if it is wanted."""


class Aside(NamedTuple):
    """How many combinations a query has at a document, or why it is set aside there. The query is
    named by its first subscription."""

    query: str
    doc: int
    combinations: int
    why: str | None


class Answer(NamedTuple):
    """The matches of a batch (schema MATCHES, as a stream of Arrow), and the pairs that a shard
    alone cannot say of whether they are within their budget; of event patterns those that are too
    much, by id with the document and why, and by number what they have kept of their matches; and
    what it took."""

    matches: bytes
    asides: list[Aside]
    stopped: list[tuple[str, int, str]]
    marked: dict[int, dict[str, int]]
    use: Use


class Waits(NamedTuple):
    """What event patterns have not decided, and the highest time at which all of it is decided."""

    waiting: list[Waiting]
    latest: int | None


class Patterns(NamedTuple):
    """How far event patterns are: those that are registered by number, the highest time by which
    they have decided, and by number what they have kept of their matches."""

    entries: Mapping[int, Entry]
    settled: int
    marks: Mapping[int, Mapping[str, int]]


class Settings(NamedTuple):
    """What all shards are told: `form` is the format of the matches' text, if it is wanted."""

    shards: int
    memory: int
    budgets: Budgets
    form: str | None


class Shard:
    """One of several shards, over the files of a cluster."""

    def __init__(self, files: Files, shard: int, settings: Settings) -> None:
        self._shard = shard
        self._horizon = -UNBOUNDED
        self._settings = settings
        self._reader = Reader(files)
        self._store = Store(None)
        self._relations = MatchRelations(self._store)
        self._catalog = Catalog(bare=True)  # else variables would be numbered here
        self._routes: dict[int, Route] = {}
        self._budget = Budget(settings.budgets)
        self._limits = Limits(self._store, None)
        self._documents = SegmentDocuments(self._reader)
        self._contents = Contents(self._documents)
        self._plans = Plans()
        self._owner = Owner(shard, settings.shards, self._routes, self._catalog.taps)
        self._joiner = Joiner(
            self._relations, self._catalog, self._budget, settings.memory, ownership=self._owner
        )
        self._lateness: dict[int, int] = {}
        """Of event patterns by number, as the coordinator has them registered."""
        self._standings = Standings(
            self._store,
            self._catalog,
            self._contents,
            Watermark(-UNBOUNDED, 0, {}, 0, lambda: 0),  # asked for lateness, which is known
            settings.budgets.combinations,
            self._budget.work,
            lambda each: self._lateness[each.number],
        )
        self._deciding = Deciding(
            self._standings, self._catalog, self._limits, self._budget, self._contents
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
            self._enter(patterns.entries)
            self._standings.tables.settle(patterns.settled)
            for number in self._catalog.patterns:
                self._standings.tables.mark(number, [*patterns.marks.get(number, {}).items()])
            self._standings.begin(patterns.settled)
        for segment in segments:
            steps, file = self._reader.batch(segment)
            with self._store.transaction():
                for place, step in enumerate(steps):
                    rows = self._rows(file, place)
                    if step.revised:
                        self._relations.delete(step.revised)
                        self._standings.drop(step.revised)
                        self._contents.forget(step.revised)
                    self._documents.add(segment, steps, place)
                    self._relations.insert_rows(rows)
                    if self._standings:
                        self._standings.note(step.late)
                        if rows.num_rows:
                            self._standings.fill(self._joiner.of_one(rows), ())
            self._contents.release()
        self._standings.reload()  # at the next batch, of all these rows
        # The index is made of the relations in one go, whatever was revised in between.
        self._joiner.reset()
        self._joiner.refresh()

    def change(self, queries: Sequence[str]) -> None:
        """Apply changes of the queries, given by the names of their files."""
        for name in queries:
            for each in self._reader.changes(name):
                if each.text:
                    self._add(each)
                else:
                    self._remove(each.id)
        self._catalog.edges.changes()

    def _remove(self, id: str) -> None:
        if id in self._catalog.subscriptions:  # else it is a pattern with another home
            gone = self._catalog.remove(id)
            if not gone.canonical.subscribed:
                self._routes.pop(gone.canonical.number, None)

    def _add(self, change: Change) -> None:
        if change.home not in (None, self._shard):
            return
        assert change.route is not None
        known = self._catalog.variables
        known.load([(text, n) for text, n in change.variables.items() if text not in known])
        compiled = compile_query(resolve(change.id, change.text))
        added = self._catalog.add(compiled, change.number, change.first_doc)
        if added.pattern is None:
            self._routes[added.canonical.number] = change.route

    def _enter(self, entries: Mapping[int, Entry]) -> None:
        own = {n: entry for n, entry in entries.items() if n in self._catalog.patterns}
        self._lateness.update({number: entry.lateness for number, entry in own.items()})
        self._standings.enter(own)

    def apply(
        self,
        segment: Segment,
        horizon: int,
        revised: Collection[int],
        entries: Mapping[int, Entry],
    ) -> Answer:
        """Add a batch, and find its matches. Documents that ended before `horizon` are deleted
        first, `revised` are those that have other bytes at the end of the batch, and `entries` the
        event patterns that are registered, or have changed. If it raises, the shard has to be made
        anew."""
        cpu, began = time.process_time(), time.monotonic()
        steps, file = self._reader.batch(segment)
        found: list[Result] = []
        asides: list[Aside] = []
        self._joiner.refresh()
        with self._store.transaction():
            self._enter(entries)
            self._standings.begin(-UNBOUNDED)
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
                self._standings.note(step.late)
                seen = {doc: highest for doc, _, highest in step.late}
                for part, settle in _pieces(rows, step.settles):
                    if part.num_rows:
                        self._relations.insert_rows(part)
                        candidates = self._candidates(part, seen)
                        asides += self._asides(candidates)
                        found += self._results(candidates)
                    for made in self._deciding.results(*settle, None) if settle else ():
                        found += made
            self._standings.end()
            stopped, marked = self._limits.take_stopped(), dict(self._standings.marked)
            matches = self._written(found, revised)
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
        if self._standings:
            documents = [*self._documents.documents(docs).values()]
            self._standings.replace(self._joiner.of_one(rows), documents)

    def waiting(self) -> Waits:
        """What event patterns have not decided."""
        self._joiner.refresh()
        with self._store.transaction():
            self._standings.begin(-UNBOUNDED)
            return Waits(self._standings.waiting(), self._standings.latest())

    def _rows(self, file: pa.ipc.RecordBatchFileReader, step: int) -> pa.Table:
        place = step * self._settings.shards + self._shard
        return pa.Table.from_batches([file.get_batch(place).replace_schema_metadata()])

    def _expire(self, horizon: int) -> None:
        self._joiner.expire(horizon)
        self._standings.expire(horizon)
        postings = self._joiner.postings
        old = [doc for doc, record in postings.records.items() if record.end < horizon]
        if old:
            postings.remove(old)
            self._relations.expire(horizon)

    # -- what it finds -----------------------------------------------------------------------

    def _candidates(self, rows: pa.Table, seen: Mapping[int, int]) -> list[Found]:
        """The candidates of new documents, but for those that event patterns take."""
        found = self._joiner.candidates(rows)
        if self._catalog.taps:
            found = self._standings.take(found, (), seen)
            found = [each for each in found if self._owner.shares(each[0], each[1].docs)]
        return self._apart(found)

    def _results(self, candidates: list[Found]) -> list[Result]:
        if not candidates:
            return []
        shapes = self._joiner.templates.shapes
        making = Making(self._contents, self._plans, shapes, self._limits, self._budget)
        found = results(making, (), candidates)
        # Where a block of a pattern is a query as well, its taps are among the subscribers.
        return [each for each in found if not each.hidden] if self._catalog.taps else found

    def _apart(self, candidates: list[Found]) -> list[Found]:
        """The candidates in which no two documents are versions of the same document."""
        if not (candidates and self._documents.versioned):
            return candidates
        docs = sorted({doc for _, candidate in candidates for doc in candidate.docs})
        of = {doc: (d.source, d.id) for doc, d in self._documents.documents(docs).items()}
        return [f for f in candidates if len({of[d] for d in f[1].docs}) == len(f[1].docs)]

    def _asides(self, candidates: list[Found]) -> list[Aside]:
        """The pairs that are set aside, and those that might be with what other shards find."""
        catalog = self._catalog.canonical
        asides = [Aside(catalog[n].name, d, 0, why) for (n, d), why, of in self._budget.news()]
        least = self._budget.combinations // self._settings.shards
        if len(candidates) > least:
            counts = Counter(self._budget.pair(each) for each in candidates)
            asides += [
                Aside(catalog[number].name, doc, count, None)
                for (number, doc), count in counts.items()
                if count > least
            ]
        return asides

    def _written(self, found: list[Result], revised: Collection[int]) -> bytes:
        columns: list[list[object]] = [[] for _ in MATCHES]
        form = FORMATS.get(self._settings.form or "")
        for match, docs, base, numbers, pair in found:
            shared = match.shared
            head: str
            result: bytes | None = None
            if not shared.docs or any(doc in revised for doc in shared.docs):
                head, result = match.dumps()
            else:
                head = shared.dumps(match)
            lines: list[bytes] = []
            if form is not None:
                lines = [f"{form(each)}\n".encode("utf-8", "backslashreplace") for each in match]
            row = (
                *(match.start_us, match.end_us, min(docs), numbers[0], pair[1], base),
                *(match.ids, match.queries, head, result),
                *(None if result is not None else shared.docs, lines),
            )
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, MATCHES, strict=True)]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, MATCHES) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=MATCHES))
        return bytes(sink.getvalue().to_pybytes())


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


class SegmentDocuments:
    """The documents in segments, by number. They are read when a match needs them."""

    def __init__(self, reader: Reader) -> None:
        self.versioned = False
        """Whether documents may be versions of each other."""
        self._reader = reader
        self._firsts: list[int] = []
        self._places: list[tuple[Segment, int]] = []
        self._revised: dict[int, tuple[Segment, int]] = {}
        self._open: dict[tuple[Segment, int], tuple[pa.RecordBatch, dict[int, int]]] = {}

    def add(self, segment: Segment, steps: Sequence[Step], only: int | None = None) -> None:
        """The documents of a batch, or of one of its steps."""
        for place, step in enumerate(steps):
            if (only is not None and place != only) or step.first < 0:
                continue
            if step.revised:
                self._revised.update(dict.fromkeys(step.revised, (segment, place)))
            else:
                # Documents after a revision may come behind those that results have become.
                at = bisect_right(self._firsts, step.first)
                self._firsts.insert(at, step.first)
                self._places.insert(at, (segment, place))
                self.versioned = self.versioned or step.versioned

    def documents(self, docs: Sequence[int]) -> dict[int, StoredDocument]:
        """The documents of these numbers."""
        wanted: dict[tuple[Segment, int], list[int]] = {}
        for doc in docs:
            place = self._revised.get(doc)
            if place is None:
                place = self._places[bisect_right(self._firsts, doc) - 1]
            wanted.setdefault(place, []).append(doc)
        found: dict[int, StoredDocument] = {}
        for place, own in wanted.items():
            batch, rows = self._opened(place)
            taken = batch.take(pa.array([rows[doc] for doc in own], pa.int32()))
            for row in zip(*[column.to_pylist() for column in taken.columns], strict=True):
                document = StoredDocument._make(row)
                found[document.doc] = document._replace(streams=tuple(document.streams))
        return found

    def _opened(self, place: tuple[Segment, int]) -> tuple[pa.RecordBatch, dict[int, int]]:
        """The documents of a step, and the row of each by its number."""
        if place not in self._open:
            batch = self._reader.documents(*place)
            rows = {number: row for row, number in enumerate(batch.column("doc").to_pylist())}
            if len(self._open) >= _OPEN:
                del self._open[next(iter(self._open))]
            self._open[place] = batch, rows
        return self._open[place]


_OPEN = 64
"""Segments whose documents are open at once."""

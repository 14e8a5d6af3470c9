"""The coordinator's part of each batch: routes it, has the shards match it, takes what they found.

    prepare   changed queries into files for the shards
    send      witness rows and documents into a segment, a request to all shards
    receive   their answers; what exceeds a budget with those of all is set aside; results that
              become documents are the engine's to cascade, and
    add       all documents that results become go to the shards in a further round
    post      their matches into the outbox

All of it happens in the transaction of the batch, which also says up to which number segments
count. If it fails, the shards are made anew from what is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from secrets import randbits
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from broker.cluster.files import files_at
from broker.cluster.load import Load
from broker.cluster.manifest import Manifest, Segment
from broker.cluster.owning import Home
from broker.cluster.queries import Queries
from broker.cluster.reading import restored_rows
from broker.cluster.router import Router
from broker.cluster.routes import side_of
from broker.cluster.segments import Shared, Step, document_columns
from broker.cluster.shard import MATCHES, Answer, Patterns, Settings, Waits
from broker.cluster.shards import Ask, Loading, Request, Shards
from broker.cluster.sparing import left
from broker.documents.admitted import (
    WITNESS_ROWS,
    Admitted,
    stored_documents,
    witness_rows,
)
from broker.documents.arrow import Arrivals
from broker.engine.elsewhere import Runs
from broker.engine.suspending import report_set_aside
from broker.model import UNBOUNDED, Waiting
from broker.results.matches import Result
from broker.shared_match import SharedMatch
from broker.state.pattern_tables import Entry

if TYPE_CHECKING:
    from broker.engine import Engine

_NUMBER = "cluster_batch"
_FIRST = "cluster_first"
_STATE = "cluster_state"
_ROUTED = "cluster_routed"
_FILES = 200
"""Files of changed queries, beyond which all queries are written anew."""
_CHUNK = 8_000
_ORDER = ("end", "start", "doc", "first", "number")


class _Run(NamedTuple):
    """Documents of a round, and what they are taken from, None if there are none; with what `Step`
    has for event patterns."""

    run: Sequence[Admitted]
    arrivals: Arrivals | None
    late: tuple[tuple[int, int, int], ...] = ()
    settles: tuple[tuple[int, int], ...] = ()


class Coordinator:
    """What an engine has done elsewhere: `broker.engine.elsewhere.Elsewhere` over shards."""

    def __init__(
        self,
        shared: str,
        shards: Shards,
        count: int,
        form: str | None,
        hot_from: int = 1_000,
    ) -> None:
        self.home = Home()
        self.shared = Shared(files_at(shared))
        self.shards = shards
        self.count = count
        self.form = form
        self.hot_from = hot_from
        """Of how many documents a value has to be, at least, to count as hot."""
        self.load = Load.of(count)
        self.matches = MATCHES.empty_table()
        """What the shards found in the last batch, in order."""
        self.first_posted = 0
        self._found: list[SharedMatch] = []
        self._came = False
        """Whether the batch brings documents, and not only time."""
        self._attempt = 0
        self._names: tuple[str, ...] = ()
        self._pending: list[_Run] = []
        """What the next round consists of."""
        self._asked = False
        self._sent: list[tuple[Segment, int]] = []
        """The segments of this batch, each with the last end of its documents."""
        self._counts: Counter[tuple[int, int]] = Counter()
        """The combinations of a query at a document in this batch, where they are many."""
        self._started = False
        self._patterns = self._before = Patterns({}, -UNBOUNDED, {})
        """How far event patterns are: after the rounds of this batch that were received, and before
        it."""
        self._entered: dict[int, Entry] = {}
        """Those that shards were not told of."""
        self._settles = -UNBOUNDED

    def take_over(self, engine: Engine) -> None:
        """Take over the directory, for an engine that has this as its `elsewhere`. Segments that do
        not fit the state are made again."""
        self._engine = engine
        self.shared.claim()
        store = engine.store
        self._number = store.number(_NUMBER, 0)
        self._state = store.number(_STATE, 0) or randbits(62)
        self._manifest = Manifest(store, self.shared.epoch)
        routed = store.number(_ROUTED, 0)
        recorded = self.shared.routing(routed)
        routes = recorded.get("routes", {}) if recorded.get("shards") == self.count else {}
        self._hot: Mapping[int, int] = dict(recorded.get("hot", ()) if routes else ())
        self.queries = Queries(engine.catalog, self.home, self.count, routes)
        self._rarity = engine.relations.shared_values()
        self._divide()
        self._enter()
        whole = (
            recorded.get("state") == self._state
            and recorded.get("shards") == self.count
            and self.queries.recorded(recorded["routes"])
        )
        if self._look():
            whole = False
        first = store.number(_FIRST, 1)
        segments = self._manifest.committed(first, self._number)
        self._segments = [(each, UNBOUNDED) for each in segments]
        complete = len(segments) == self._number + 1 - first and self.shared.there(segments)
        if not (whole and complete):
            self._renew()
            routed = self.shared.epoch
        else:
            with store.transaction():
                self._manifest.forget(first)
        self._known = Loading(0, (), (), {}, self._patterns)
        self._write_queries(whole=True)
        self.shared.tidy([each for each, _ in self._segments], routed)

    def start(self) -> None:
        """Start the shards, unless they were."""
        if not self._started:
            engine = self._engine
            settings = Settings(self.count, engine.joiner.memory, engine.budget.budgets, self.form)
            self.shards.start(self.shared.files.where, settings, self.loading)
            self._started = True

    def close(self) -> None:
        self.shards.close()

    def loading(self) -> Loading:
        """What a shard that is made anew begins with."""
        return self._known

    def _publish(self) -> None:
        """Say what a shard that is made anew begins with: what is committed, and the rounds of this
        batch that were received. At once, as others read it any time."""
        segments = tuple([each for each, _ in (*self._segments, *self._sent)])
        self._known = Loading(self._number, self._names, segments, self._hot, self._patterns)

    # -- queries -----------------------------------------------------------------------------

    def prepare(self) -> None:
        engine = self._engine
        if (engine.registry.changes, bool(engine.limits)) != self._changes:
            if self._divide():
                engine.joiner.reset()  # what it has in memory lacks what these need
                engine.standings.reload()
            self._enter()
            self._write_queries()
        if self._fresh >= max(self.hot_from, self._stored // 2) and self._look():
            self._renew()
            self._publish()
            self.shards.reset()

    def _divide(self) -> bool:
        limited = bool(self._engine.limits)
        self._changes = (self._engine.registry.changes, limited)
        came = self.queries.divide(lambda v: self._rarity.get(v, 0.0), limited=limited)
        self._flowing, self._read = self.queries.flows()
        self._router = Router(self.queries.routes(), self.count, self._hot)
        return came

    def _enter(self) -> None:
        """Register event patterns, before shards are told of them."""
        standings, store = self._engine.standings, self._engine.store
        with store.transaction():
            standings.begin(self._engine.newest())
        entries, before = standings.elsewhere, self._patterns.entries
        self._patterns = self._patterns._replace(settled=standings.settled)
        if entries is not before:
            known = self._patterns.marks
            marks = {
                n: known[n] if n in known else dict(standings.tables.marks(n)) for n in entries
            }
            marks = {number: kept for number, kept in marks.items() if kept}
            self._entered |= {n: e for n, e in entries.items() if before.get(n) != e}
            self._patterns = self._patterns._replace(entries=entries, marks=marks)

    def _look(self) -> bool:
        """Look for values of which one shard would get more than half of what each gets of all;
        returns whether documents have to be divided anew, as there are new ones or hotter ones."""
        relations = self._engine.relations
        self._fresh, self._stored = 0, relations.count()
        parts = [part for route in self.queries.routes() for part in route.parts]
        pivots = {part.trigger for part in parts if part.by == "value"}
        share = max(2 * self.hot_from, self._stored / self.count)
        found = relations.frequent_values(pivots, int(share / 2))
        sides = {value: side_of(n, share, self.count) for value, n in found.items()}
        if all(side <= self._hot.get(value, 1) for value, side in sides.items()):
            return False
        self._hot = {value: side for value, side in sides.items() if side > 1}
        self._router = Router(self.queries.routes(), self.count, self._hot)
        return True

    def _write_queries(self, whole: bool = False) -> None:
        next_doc = self._engine.admission.next_doc
        if whole or len(self._names) >= _FILES:
            self.queries.forget()
            self._names = ()
            whole = True
        changes, lowest = self.queries.changes()
        if not (whole or changes):
            return
        self._record()
        self._attempt += 1
        self._names += (self.shared.write_queries(self._number, self._attempt, changes),)
        renew = not whole and lowest < next_doc
        if renew:
            self._renew()  # it counts from documents on that were not sent for it
        self._publish()
        if whole or renew:
            self.shards.reset()

    def _record(self) -> None:
        routes, hot = self.queries.record(), [*self._hot.items()]
        self.shared.write_routing(
            {"state": self._state, "shards": self.count, "routes": routes, "hot": hot}
        )

    # -- segments ----------------------------------------------------------------------------

    def _renew(self) -> None:
        """Make all segments again from the documents of the state."""
        with self._engine.store.transaction():
            self._engine.store.set_numbers(**{_ROUTED: 0})  # what is there counts no longer
        self.shared.remove([each for each, _ in self._segments])
        self._segments = []
        self._record()
        relations = self._engine.relations
        first = self._number + 1
        late = self._engine.standings.tables.late(0) if self.home.patterns else {}
        for documents in relations.history(0, _CHUNK):
            rows = relations.witnessed_by(documents[0].doc, documents[-1].doc)
            step = Step(
                documents[0].doc,
                max([each.end for each in documents]),
                any(each.version for each in documents),
                late=tuple([(d.doc, *late[d.doc]) for d in documents if d.doc in late]),
            )
            self._number += 1
            batches = self._router.divide(rows.cast(WITNESS_ROWS))
            self._write([step], batches, [document_columns(documents)])
            self._segments.append((self._segment, step.latest))
        with self._engine.store.transaction():
            self._commit(first, first)
            self._manifest.forget(first)

    def _commit(self, first: int, begun: int) -> None:
        """Have the transaction say which segments count: those from `first` on, of which this one
        has made those from `begun` on."""
        numbers = {_NUMBER: self._number, _FIRST: first, _STATE: self._state}
        numbers[_ROUTED] = self.shared.epoch
        self._engine.store.set_numbers(**numbers, **self._manifest.numbers(begun))

    def _write(
        self, steps: list[Step], rows: list[pa.RecordBatch], documents: list[pa.RecordBatch]
    ) -> None:
        self._segment = self._manifest.next(self._number)
        self.shared.write_batch(self._segment, steps, rows, documents)

    # -- a batch -----------------------------------------------------------------------------

    def begin(self, runs: Runs) -> list[Runs]:
        self._sent, self._pending, self._asked = [], [], False
        self._before, self._settles = self._patterns, -UNBOUNDED
        self._counts.clear()
        self._came = bool(runs)
        self.matches = MATCHES.empty_table()
        self._revised = frozenset(a.document.doc for run in runs for a in run if a.revision)
        # What results become meets documents as they are before a revision that comes later.
        return [[run] for run in runs] if self._flowing or self._read else [runs]

    def send(self, runs: Runs, arrivals: Arrivals, *, held: bool, again: bool) -> None:
        if not (runs and (self.home.routes or self.home.patterns)):
            return
        if not self.home.patterns:
            self._ask([_Run(run, arrivals) for run in runs])
            return
        settled = self._engine.standings.settled
        asked: list[_Run] = []
        for run in runs:
            if run[0].revision:
                asked.append(_Run(run, arrivals))
                continue
            reached = [(a.document, settled if held else max(a.highest, settled)) for a in run]
            late = [(d.doc, d.end, seen) for d, seen in reached if d.end < seen]
            settles = [(document.doc, seen) for document, seen in reached]
            if not (again or self._engine.limits):
                settles = settles[-1:]
            asked.append(_Run(run, arrivals, tuple(late), tuple(settles)))
        self._ask(asked)

    def settle(self, doc: int, highest: int) -> None:
        if self.home.patterns:
            self._pending.append(_Run((), None, settles=((doc, highest),)))

    def waiting(self) -> tuple[list[Waiting], int | None]:
        if not self.home.patterns:
            return [], None
        self.start()
        self.shards.send(Ask())
        answers: list[Waits] = self.shards.receive()
        times = [each.latest for each in answers if each.latest is not None]
        return [of for each in answers for of in each.waiting], max(times, default=None)

    def add(self, run: Sequence[Admitted], arrivals: Arrivals) -> None:
        if not self._read.isdisjoint(stream for each in run for stream in each.document.streams):
            self._pending.append(_Run(run, arrivals))

    @property
    def waits(self) -> bool:
        return self._asked or bool(self._pending)

    def _ask(self, runs: Sequence[_Run]) -> None:
        """Begin a round with these runs."""
        store = self._engine.store
        if self._sent:
            self._publish()
        else:
            self.shared.check()
            store.on_rollback(partial(self._undo, self._number))
        steps: list[Step] = []
        rows: list[pa.RecordBatch] = []
        documents: list[pa.RecordBatch] = []
        for run, arrivals, late, settles in runs:
            self._settles = max([self._settles, *[highest for _, highest in settles]])
            own = stored_documents(run)
            documents.append(document_columns(own))
            if arrivals is None:
                steps.append(Step(-1, -UNBOUNDED, settles=settles))
                rows += self._router.divide(WITNESS_ROWS.empty_table())
                continue
            self._fresh += len(own)
            docs = tuple([each.doc for each in own]) if run[0].revision else ()
            latest = max([each.end for each in own])
            versioned = any(d.version for d in own)
            steps.append(Step(own[0].doc, latest, versioned, docs, late, settles))
            rows += self._router.divide(witness_rows(run, arrivals.rows))
        self._number += 1
        self._write(steps, rows, documents)
        self.start()
        horizon = self._engine.retention.horizon
        entered, self._entered = self._entered, {}
        self.shards.send(Request(self._segment, self._names, horizon, self._revised, entered))
        self.load.sent()
        self._sent.append((self._segment, max([step.latest for step in steps])))
        self._gone = 0
        while self._gone < len(self._segments) and self._latest(self._gone) < horizon:
            self._gone += 1
        first = self._number - len(self._segments) - len(self._sent) + 1 + self._gone
        self._commit(first, self._sent[0][0].number)
        self._asked = True

    def _latest(self, place: int) -> int:
        """The last end of the documents of a segment, of which those before it have none left."""
        segment, latest = self._segments[place]
        if latest == UNBOUNDED:  # it is of an earlier coordinator
            latest = max([step.latest for step in self.shared.steps(segment)])
            self._segments[place] = segment, latest
        return latest

    def _undo(self, number: int) -> None:
        self._number = number
        self._manifest.failed()
        self._sent, self._pending, self._asked = [], [], False
        self._patterns = self._before
        self._publish()
        self.shards.reset()

    def receive(self, now: int | None) -> list[Result]:
        engine = self._engine
        if not self._asked:
            pending, self._pending = self._pending, []
            self._ask(pending)
        answers: list[Answer] = self.shards.receive()
        self.load.answered([each.use for each in answers])
        self.load.bytes_written = self.shared.bytes_written
        self._asked = False
        self.shared.check()
        self._set_aside(answers, now)
        self._take_patterns(answers)
        engine.budget.check()
        tables = [pa.ipc.open_stream(each.matches).read_all() for each in answers]
        found = left(pa.concat_tables(tables), engine.catalog, engine.limits, engine.budget, now)
        if self._flowing:
            first = pc.list_element(found.column("queries"), 0)
            flows = pc.is_in(first, pa.array(sorted(self._flowing), pa.string()))
            flowing, found = found.filter(flows), found.filter(pc.invert(flows))
        else:
            flowing = found.slice(0, 0)
        self.matches = pa.concat_tables([self.matches, found])
        return self._results(flowing)

    def _take_patterns(self, answers: Sequence[Answer]) -> None:
        """Note how far event patterns are, and stop those that are too much."""
        engine = self._engine
        marks = dict(self._patterns.marks)
        for answer in answers:
            for number, kept in answer.marked.items():
                engine.standings.tables.mark(number, [*kept.items()])
                marks[number] = {**marks.get(number, {}), **kept}
            for id, doc, why in answer.stopped:
                engine.budget.alone()
                engine.limits.stop(engine.catalog.subscriptions[id], doc, why)
        settled = max(self._patterns.settled, self._settles)
        self._patterns = self._patterns._replace(settled=settled, marks=marks)

    def _results(self, found: pa.Table) -> list[Result]:
        """Matches of shards as the engine has its own."""
        subscriptions, budget = self._engine.catalog.subscriptions, self._engine.budget
        rows = found.to_pylist()
        results: list[Result] = []
        for row, match in zip(rows, restored_rows(self._engine, rows, None), strict=True):
            known = [subscriptions[id] for id in row["queries"]]
            doc = row["doc"]
            pair = (known[0].canonical.number, budget.completing((doc,)))
            docs = tuple(row["docs"] or (doc,))
            results.append(Result(match, docs, row["base"], [s.number for s in known], pair))
        return results

    def _set_aside(self, answers: Sequence[Answer], now: int | None) -> None:
        """Set the pairs of a query and a document aside that exceed a budget in one shard, or in
        all of them together."""
        engine, counts = self._engine, self._counts
        for each in answers:
            for query, doc, combinations, why in each.asides:
                number = engine.catalog.subscriptions[query].canonical.number
                pair = (number, engine.budget.completing((doc,)))
                counts[pair] += combinations
                if why is not None:
                    engine.budget.refuse(pair, why)
                elif counts[pair] > engine.budget.combinations:
                    engine.budget.too_many(pair)
        if counts:
            report_set_aside(engine, now)

    def post(self) -> None:
        order = pc.sort_indices(self.matches, [(name, "ascending") for name in _ORDER])
        self.matches = self.matches.take(order)
        self.first_posted = self._engine.outbox.next
        self._engine.outbox.post_columns(self.matches)
        self._found = []
        if self.form is None or not self._came:
            # Documents may expire at the end of this batch.
            rows = self.matches.select(["ids", "queries", "match", "result", "docs"]).to_pylist()
            self._found = restored_rows(self._engine, rows, self.first_posted)
            self.matches = MATCHES.empty_table()

    def committed(self) -> None:
        """The transaction of the batch has ended well."""
        if self._sent:
            gone = self._segments[: self._gone]
            self._segments = [*self._segments[self._gone :], *self._sent]
            self._sent = []
            self._publish()
            self.shared.remove([each for each, _ in gone])

    def found(self) -> list[SharedMatch]:
        return self._found

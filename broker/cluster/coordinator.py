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

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from broker.cluster.answers import MATCHES, Answer, StandIn, Waits
from broker.cluster.contents import Run, Untied, content_of, contents_of
from broker.cluster.counting import Counting
from broker.cluster.files import ClusterError, files_at
from broker.cluster.load import Load
from broker.cluster.log import Log
from broker.cluster.owning import Home
from broker.cluster.patterns import PatternsElsewhere, Told
from broker.cluster.queries import Queries
from broker.cluster.reading import restored_rows
from broker.cluster.router import Router
from broker.cluster.routes import side_of
from broker.cluster.segments import Shared
from broker.cluster.shard import Settings
from broker.cluster.shards import Ask, Loading, Request, Shards
from broker.cluster.sparing import left
from broker.documents.admitted import Admitted
from broker.documents.arrow import Arrivals
from broker.engine.elsewhere import Runs
from broker.model import Waiting
from broker.results.matches import Result
from broker.shared_match import SharedMatch

if TYPE_CHECKING:
    from broker.engine import Engine

_FILES = 200
"""Files of changed queries, beyond which all queries are written anew."""
_ORDER = ("end", "start", "doc", "first", "number")


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
        self._pending: list[Run] = []
        """What the next round consists of."""
        self._asked = False
        self._counting = Counting()
        self._started = self._ended = False
        self._told = True
        """Whether the shared files have all that shards have to know: not if they could not be
        written."""
        self._patterns = PatternsElsewhere()
        self._stand_in = StandIn.fresh()

    def take_over(self, engine: Engine) -> None:
        """Take over the directory, for an engine that has this as its `elsewhere`. Segments that do
        not fit the state are made again."""
        self._engine = engine
        self.shared.claim()
        self._log = Log(engine.store, self.shared)
        recorded = self.shared.routing(self._log.routed)
        same = recorded.get("shards") == self.count
        routes = recorded.get("routes", {}) if same else {}
        self._hot: Mapping[int, int] = dict(recorded.get("hot", ()) if routes else ())
        entries = partial(getattr, engine.standings, "elsewhere")
        self.queries = Queries(engine.catalog, self.home, self.count, routes, entries)
        engine.registry.synchronize()
        self._rarity = engine.relations.rows.shared_values()
        self._divide()
        self._patterns.enter(engine)
        fits = (
            same
            and recorded["state"] == self._log.state
            and self.queries.recorded(recorded["routes"])
        )
        if not self._look() and fits and self._log.is_complete():
            self._log.go_on()
        else:
            self._renew()
        self._write_queries(whole=True)
        self.shared.tidy(self._log.segments, self._log.routed)

    def start(self) -> None:
        """Start the shards, unless they were. ClusterError if they have ended."""
        if self._ended:
            raise ClusterError("the shards have ended")
        if not self._started:
            self.shards.start(self.shared.files.where, self.settings(), self.loading)
            self._started = True

    def settings(self) -> Settings:
        """What shards are told when they begin."""
        memory, budgets = self._engine.joiner.memory, self._engine.budget.budgets
        return Settings(self.count, memory, budgets, self.form, self._stand_in)

    def close(self) -> None:
        self._ended = True
        self.shards.close()

    def loading(self) -> Loading:
        """What a shard that is made anew begins with."""
        return self._known

    def _publish(self) -> None:
        """Say what a shard that is made anew begins with: what is committed, and the rounds of this
        batch that were received. At once, as others read it any time."""
        log, hot = self._log, self._hot
        self._known = Loading(log.number, self._names, log.segments, hot, self._patterns.now)

    # -- queries -----------------------------------------------------------------------------

    def prepare(self, arrivals: Arrivals | None = None) -> None:
        engine = self._engine
        if arrivals is not None:
            broken = self.queries.keys.broken_by(arrivals.rows, "position")
            if broken:
                self.queries.untie(broken)
                self._log.clear()
                self._told = False
        again = not self._told
        if again or (engine.registry.changes, bool(engine.limits)) != self._changes:
            self._told = False
            if self._divide():
                engine.joiner.reset()  # what it has in memory lacks what these need
                engine.standings.reload()
            self._patterns.enter(engine)
            if not self._log.routed:
                again = self._renew() or again
            self._write_queries(whole=again)
            self._told = True
        if self._fresh >= max(self.hot_from, self._stored // 2) and self._look():
            self._told = False
            if self._renew():
                self._write_queries(whole=True)
            self._publish()
            self.shards.reset()
            self._told = True

    def _divide(self) -> bool:
        limited = bool(self._engine.limits)
        self._changes = (self._engine.registry.changes, limited)
        came = self.queries.divide(lambda v: self._rarity.get(v, 0.0), limited=limited)
        self._flowing, self._read = self.queries.flows()
        self._counting.read(self.queries.readers(self._read))
        self._router = Router(self.queries.routes(), self.count, self._hot)
        return came

    def _look(self) -> bool:
        """Look for values of which one shard would get more than half of what each gets of all;
        returns whether documents have to be divided anew, as there are new ones or hotter ones."""
        relations = self._engine.relations
        self._fresh, self._stored = 0, relations.count()
        parts = [part for route in self.queries.routes() for part in route.parts]
        pivots = {part.trigger for part in parts if part.by == "value"}
        share = max(2 * self.hot_from, self._stored / self.count)
        found = relations.rows.frequent_values(pivots, int(share / 2))
        sides = {value: side_of(n, share, self.count) for value, n in found.items()}
        if all(side <= self._hot.get(value, 1) for value, side in sides.items()):
            return False
        self._hot = {value: side for value, side in sides.items() if side > 1}
        self._router = Router(self.queries.routes(), self.count, self._hot)
        return True

    def _write_queries(self, whole: bool = False) -> None:
        next_doc = self._engine.admission.next_doc
        whole = whole or len(self._names) >= _FILES
        changes, behind = self.queries.changes(next_doc, whole=whole)
        if behind and self._renew():  # it counts from documents on that were not sent for it
            whole = True
            changes, _ = self.queries.changes(next_doc, whole=True)
        self._patterns.know(self._engine, self.queries.variants)
        if not (whole or changes):
            return
        if whole:
            self._names = ()
        if not behind:
            self._record()
        self._attempt += 1
        self._names += (self.shared.write_queries(self._log.number, self._attempt, changes),)
        self._publish()
        if whole or behind:
            self.shards.reset()

    def _record(self) -> None:
        said = {"state": self._log.state, "shards": self.count, "hot": [*self._hot.items()]}
        self.shared.write_routing({**said, "routes": self.queries.record()})

    def _renew(self) -> bool:
        """Make all segments again from the documents of the state; returns whether event patterns
        have lost their ties by these."""
        untied = False
        while True:
            self.queries.divided()
            self._log.clear()
            self._record()
            try:
                self._log.renew(contents_of(self._engine, self._router, self.queries.keys))
            except Untied as found:
                self.queries.untie(found.numbers)
                self._divide()
                untied = True
            else:
                return untied

    # -- a batch -----------------------------------------------------------------------------

    def begin(self, runs: Runs) -> list[Runs]:
        self._pending, self._asked = [], False
        self._log.begin()
        self._patterns.begin()
        self._counting.begin()
        self._came = bool(runs)
        self.matches = MATCHES.empty_table()
        self._revised = frozenset(a.document.doc for run in runs for a in run if a.revision)
        # What results become meets documents as they are before a revision that comes later.
        return [[run] for run in runs] if self._flowing or self._read else [runs]

    def send(self, runs: Runs, arrivals: Arrivals, *, held: bool, again: bool) -> None:
        if not (runs and (self.home.routes or self.home.patterns)):
            return
        if not self.home.patterns:
            self._ask([Run(run, arrivals) for run in runs])
            return
        patterns, engine = self._patterns, self._engine
        self._ask(
            [Run(run, arrivals, patterns.told(engine, run, held=held, again=again)) for run in runs]
        )

    def settle(self, doc: int, highest: int) -> None:
        if self.home.patterns:
            self._pending.append(Run((), None, Told(settles=((doc, highest),))))

    def waiting(self) -> tuple[list[Waiting], int | None]:
        if not self.home.patterns:
            return [], None
        self.start()
        self.shards.send(Ask())
        answers: list[Waits] = self.shards.receive()
        times = [each.latest for each in answers if each.latest is not None]
        told = [of for each in answers for of in each.waiting]
        return self.queries.variants.waiting(told), max(times, default=None)

    def add(self, run: Sequence[Admitted], arrivals: Arrivals) -> None:
        if not self._read.isdisjoint(stream for each in run for stream in each.document.streams):
            self._pending.append(Run(run, arrivals))

    @property
    def waits(self) -> bool:
        return self._asked or bool(self._pending)

    def _ask(self, runs: Sequence[Run]) -> None:
        """Begin a round with these runs."""
        if self._log.sent:
            self._publish()
        else:
            self.shared.check()
            self._engine.store.on_rollback(partial(self._undo, self._log.number))
        content = content_of(runs, self._router)
        self._fresh += sum([len(each.run) for each in runs])
        horizon = self._engine.retention.horizon
        segment = self._log.send(content, horizon)
        self.start()
        entered = self._patterns.decide([run.told for run in runs])
        counted = self._counting.told(self.queries.variants)
        self.shards.send(Request(segment, self._names, horizon, self._revised, entered, counted))
        self.load.sent()
        self._asked = True

    def _undo(self, number: int) -> None:
        self._log.undo(number)
        self._pending, self._asked = [], False
        self._patterns.undo()
        self._publish()
        self.shards.reset()

    def receive(self, now: int | None) -> list[Result]:
        engine = self._engine
        if not self._asked:
            pending, self._pending = self._pending, []
            self._ask(pending)
        try:
            answers: list[Answer] = self.shards.receive()
        except ClusterError:
            self.shared.check()  # a successor tidies up
            raise
        self.load.answered([each.use for each in answers])
        self.load.bytes_written = self.shared.bytes_written
        self._asked = False
        self.shared.check()
        self._counting.take(answers, engine, self.queries.variants, now)
        self._patterns.take(answers, engine)
        engine.budget.check()
        tables = [pa.ipc.open_stream(each.matches).read_all() for each in answers]
        found = self.queries.variants.handed_out(pa.concat_tables(tables), self._stand_in)
        found = left(found, engine.catalog, engine.limits, engine.budget, now)
        if self._flowing:
            first = pc.list_element(found.column("queries"), 0)
            flows = pc.is_in(first, pa.array(sorted(self._flowing), pa.string()))
            flowing, found = found.filter(flows), found.filter(pc.invert(flows))
        else:
            flowing = found.slice(0, 0)
        self.matches = pa.concat_tables([self.matches, found])
        return self._results(flowing)

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
        if self._log.sent:
            self._log.committed()
            self._publish()

    def found(self) -> list[SharedMatch]:
        return self._found

"""Stage 2: witnesses and state in, matches out; one DuckDB transaction per batch.

The transaction holds everything that a batch changes: documents, match relations, the matches in
the outbox, dead letters, and how far each source has been applied. What was applied before is
dropped on entry, so a batch may be replayed after a crash.

Expiry: a row of the match relations may go when no match to come can hold its document. A document
to come is not older than the watermark, and no match spans more than the widest window of any
query, so a document that ended more than that window before the watermark is out of reach. With a
window of INFINITY nothing ever is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from broker.catalog import Canonical, Catalog, Compiled, Subscription, compile_query
from broker.model import DeadLetter, Match
from broker.publish import Candidate, Publisher, Stored
from broker.residual import constants
from broker.sql import (
    UNBOUNDED,
    blocks_below,
    conjunctive_query,
    create_parameter_table,
    operators,
    parameter_table,
    reported,
)
from broker.store import Store
from broker.wire import (
    ROWS,
    Arrival,
    Arrivals,
    compile_spec,
    rows_from_witnesses,
    witness_document,
)
from xscl.stage1 import Matcher, Witness, value_code
from xscl.template import Template

LATENESS = 7 * 86_400 * 1_000_000
"""Allowed lateness by default, in microseconds."""

_EXPIRY_EVERY = 64
"""Batches between two looks for what may go."""


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A document that comes in. `base` is the oldest document that it is made of, itself if none.

    `position` is that of its witness rows in the batch; `start` and `end` are in microseconds.
    """

    position: int
    doc: int
    base: int
    start: int
    end: int
    arrival: Arrival
    revision: bool


@dataclass(frozen=True, slots=True)
class _Found:
    match: Match
    base: int
    hidden: bool

    def order(self) -> tuple[int, int, str]:
        return (self.match.end, self.match.start, self.match.id)


class Engine:
    """The catalog of subscriptions over a store, and the processing of batches."""

    def __init__(self, store: Store, lateness: int = LATENESS) -> None:
        self.store = store
        self.lateness = lateness
        self.catalog = Catalog()
        self.matcher = Matcher()
        self._sql: dict[tuple[int, int], str] = {}
        self._templates: list[Template] = []
        self._batches = 0
        self._spec: bytes | None = None
        self._next_doc = store.number("next_doc", 1)
        self._next_subscription = store.number("next_subscription", 1)
        self._highest = store.number("highest_timestamp", -UNBOUNDED)
        self._next_match = store.number("next_match", 1)
        self._applied: dict[str, int] = dict(store.rows("SELECT source, seq FROM applied"))
        self._stored_applied = dict(self._applied)
        self._template_of: dict[int, int] = {}
        self._variables_at: dict[tuple[int, int], set[int]] = {}
        self.dead_letters = 0
        self._restore()

    # -- subscriptions -----------------------------------------------------------------------

    def _restore(self) -> None:
        import xscl

        self.catalog.variables = {
            definition: number
            for number, definition in self.store.rows("SELECT id, definition FROM variables")
        }
        for number, id, text, first_doc in self.store.rows(
            "SELECT number, id, text, first_doc FROM subscriptions ORDER BY number"
        ):
            (resolved,) = [q for q in xscl.check([xscl.parse(text, id)]).queries if q.id == id]
            self._register(compile_query(resolved), number, first_doc)

    def subscribe(self, compiled: Sequence[Compiled]) -> list[Subscription]:
        """Register queries from the next document on, all or none.

        One that is registered with the same canonical text goes on as it is; a changed text under
        a known id is a new subscription in its place.
        """
        fresh: list[Compiled] = []
        for query in compiled:
            known = self.catalog.subscriptions.get(query.resolved.id)
            if known is not None and known.resolved.text == query.resolved.text:
                continue
            fresh.append(query)
        with self.store.transaction():
            for query in fresh:
                if query.resolved.id in self.catalog.subscriptions:
                    self._unregister(query.resolved.id)
                number = self._next_subscription
                self._next_subscription += 1
                self._register(query, number, self._next_doc)
            rows = [self.catalog.subscriptions[q.resolved.id] for q in fresh]
            self.store.insert(
                "subscriptions",
                pa.table(
                    {
                        "number": pa.array([s.number for s in rows], pa.int64()),
                        "id": pa.array([s.id for s in rows], pa.string()),
                        "text": pa.array([s.resolved.text for s in rows], pa.string()),
                        "first_doc": pa.array([s.first_doc for s in rows], pa.int64()),
                    }
                ),
            )
            self._store_variables()
            self.store.set_number("next_subscription", self._next_subscription)
        return [self.catalog.subscriptions[q.resolved.id] for q in compiled]

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription. KeyError if there is none of that id."""
        if id not in self.catalog.subscriptions:
            raise KeyError(id)
        with self.store.transaction():
            self._unregister(id)

    def _register(self, query: Compiled, number: int, first_doc: int) -> None:
        self.catalog.add(query, number, first_doc)
        self._synchronize()

    def _unregister(self, id: str) -> None:
        subscription = self.catalog.remove(id)
        self._synchronize()
        self.store.run("DELETE FROM subscriptions WHERE number = ?", [subscription.number])

    def spec(self) -> bytes:
        """Stage 1's compiled form for the queries of now; the same object while they stay so."""
        if self._spec is None:
            self._spec = compile_spec(self.catalog.edges.values())
        return self._spec

    def _synchronize(self) -> None:
        """Let stage 1 hold the edges as the catalog has them."""
        changed, self.catalog.changed = self.catalog.changed, set()
        if changed:
            self._spec = None
        for edge_id in changed:
            if edge_id in self.matcher.edges:
                self.matcher.remove(edge_id)
            if edge_id in self.catalog.edges:
                self.matcher.add(self.catalog.edges[edge_id])

    def _store_variables(self) -> None:
        new, self.catalog.new_variables = self.catalog.new_variables, []
        self.store.insert(
            "variables",
            pa.table(
                {
                    "id": pa.array([n for n, _ in new], pa.int32()),
                    "definition": pa.array([d for _, d in new], pa.string()),
                }
            ),
        )

    # -- batches -----------------------------------------------------------------------------

    def apply(self, arrivals: Arrivals) -> list[Match]:
        """Apply a batch in one transaction; the matches that it completes, in order of their end.

        How documents are cut into batches changes no match. On an exception nothing of the batch
        has happened.
        """
        before = (self._next_doc, self._next_match, self._highest, dict(self._applied))
        self._refresh_parameters()
        try:
            with self.store.transaction():
                admitted = self._admit(arrivals)
                matches: list[Match] = []
                for run in _runs(admitted):
                    matches += self._cascade(self._process(run, arrivals.rows))
                self._post(matches)
                self._advance()
        except BaseException:
            self._next_doc, self._next_match, self._highest, self._applied = before
            raise
        self._stored_applied = dict(self._applied)
        return matches

    def _admit(self, arrivals: Arrivals) -> list[_Admitted]:
        """Who comes in, in order of arrival; the others are dropped or become dead letters."""
        keys = [document_key(a.source, a.id) for a in arrivals.documents]
        known = self._known(keys)
        admitted: list[_Admitted] = []
        letters: list[tuple[Arrival, str]] = []
        for position, (arrival, key) in enumerate(zip(arrivals.documents, keys, strict=True)):
            if arrival.seq is not None:
                if arrival.seq <= self._applied.get(arrival.source, -1):
                    continue
                self._applied[arrival.source] = arrival.seq
            doc = known.get((key, arrival.source, arrival.id))
            if doc is not None and not arrival.revision:
                continue
            if arrival.error is not None:
                letters.append((arrival, arrival.error))
                continue
            if doc is None and arrival.timestamp < self._highest - self.lateness:
                behind = (self._highest - arrival.timestamp) / 86_400_000_000
                letters.append((arrival, f"late: {behind:.1f} days older than the newest document"))
                continue
            revision = doc is not None
            if doc is None:
                doc = known[(key, arrival.source, arrival.id)] = self._next_doc
                self._next_doc += 1
            self._highest = max(self._highest, arrival.timestamp)
            time = arrival.timestamp
            admitted.append(_Admitted(position, doc, doc, time, time, arrival, revision))
        self._bury(letters)
        return admitted

    def _known(self, keys: list[int]) -> dict[tuple[int, str, str], int]:
        if not keys:
            return {}
        found = self.store.rows(
            "SELECT key, source, id, doc FROM documents WHERE key IN (SELECT unnest(?::UBIGINT[]))",
            [keys],
        )
        return {(key, source, id): doc for key, source, id, doc in found}

    def _cascade(self, found: list[_Found]) -> list[Match]:
        """The matches, and those that their results complete as documents of their own streams."""
        matches: list[Match] = []
        while found:
            matches += [f.match for f in found if not f.hidden]
            derived = [f for f in found if self.catalog.read[f.match.stream or ""]]
            run: list[_Admitted] = []
            witnesses: list[Witness] = []
            for f in sorted(derived, key=_Found.order):
                match, doc = f.match, self._next_doc
                self._next_doc += 1
                assert match.stream is not None
                arrival = Arrival(
                    source=match.stream,
                    id=match.id,
                    streams=(match.stream,),
                    timestamp=match.end,
                    dated=True,
                    seq=None,
                    revision=False,
                    xml=match.result.encode("utf-8"),
                    error=None,
                    place=f"{match.query}/{match.id}",
                )
                witness, error = witness_document(self.matcher, arrival.xml, arrival.streams)
                if error is not None:
                    self._bury([(arrival, error)])
                    continue
                run.append(_Admitted(len(run), doc, f.base, match.start, match.end, arrival, False))
                witnesses.append(witness)
            found = self._process(run, rows_from_witnesses(witnesses)) if run else []
        matches.sort(key=lambda m: (m.end, m.start, m.id))
        return matches

    def _process(self, run: list[_Admitted], rows: pa.Table) -> list[_Found]:
        """Insert a run of new documents and find its matches, or replace a run of revised ones."""
        revised = [a.doc for a in run if a.revision]
        if revised:
            for table in ("rl", "documents"):
                self.store.run(
                    f"DELETE FROM {table} WHERE doc IN (SELECT unnest(?::BIGINT[]))", [revised]
                )
        self.store.insert("documents", _documents_table(run))
        witnessed = _witness_rows(run, rows)
        self.store.insert("rl", witnessed)
        if revised or not witnessed.num_rows:
            return []
        self.store.connection.register("arrow_batch", witnessed)
        self.store.run("CREATE OR REPLACE TEMP TABLE rr AS SELECT * FROM arrow_batch")
        self.store.connection.unregister("arrow_batch")
        present = set(pc.unique(witnessed.column("var2")).to_pylist())
        return self._evaluate(run[0].doc, present)

    def _evaluate(self, first: int, present: set[int]) -> list[_Found]:
        """Run the conjunctive query of each template that the batch can touch."""
        candidates: list[tuple[Canonical, Candidate]] = []
        for number, shape in enumerate(self._templates):
            for pivot in range(shape.blocks):
                if self._touched(number, shape, pivot, present):
                    candidates += self._candidates(number, shape, pivot, first)
        if not candidates:
            return []
        publisher = Publisher(self._stored)
        publisher.load({doc for _, candidate in candidates for doc in candidate.docs})
        found = []
        for canonical, candidate in candidates:
            shape = self._templates[canonical.template]
            blocks = [block for block, _ in shape.nodes]
            wanted = [
                s
                for s in canonical.subscribers.values()
                if self._within(s, shape, candidate, publisher)
            ]
            if wanted and publisher.confirmed(canonical, blocks, candidate, shape.joins):
                base = min(publisher.stored(doc).base for doc in candidate.docs)
                found += [
                    _Found(publisher.match(s, blocks, candidate), base, s.hidden) for s in wanted
                ]
        return found

    def _touched(self, number: int, shape: Template, pivot: int, present: set[int]) -> bool:
        position = next(p for p in reversed(shape.block_positions(pivot)))
        return not self._variables_at.get((number, position), frozenset()).isdisjoint(present)

    def _candidates(
        self, number: int, shape: Template, pivot: int, first: int
    ) -> list[tuple[Canonical, Candidate]]:
        sql = self._sql.get((number, pivot))
        if sql is None:
            sql = self._sql[number, pivot] = conjunctive_query(shape, number, pivot)
        parameters = {"first": first} if "$first" in sql else {}
        found = self.store.connection.execute(sql, parameters).fetchall()
        blocks, size = shape.blocks, len(shape.nodes)
        listed = [p for p in range(size) if reported(shape, p)]
        result = []
        for row in found:
            docs, nodes = row[1 : blocks + 1], row[blocks + 1 : blocks + 1 + size]
            lists = {p: tuple(x) for p, x in zip(listed, row[blocks + 1 + size :], strict=True)}
            result.append((self.catalog.canonical[row[0]], Candidate(docs, nodes, lists)))
        return result

    def _within(
        self,
        subscription: Subscription,
        shape: Template,
        candidate: Candidate,
        publisher: Publisher,
    ) -> bool:
        """Whether a candidate is in this subscriber's own windows and after its registration."""
        if len(subscription.canonical.subscribers) == 1:
            return True  # the parameter row is its own
        stored = [publisher.stored(doc) for doc in candidate.docs]
        if min(s.base for s in stored) < subscription.first_doc:
            return False
        spans = [*map(blocks_below, operators(shape.operators)), range(shape.blocks)]
        return all(
            max(stored[b].end for b in blocks) - min(stored[b].start for b in blocks) <= window
            for blocks, window in zip(spans, subscription.windows, strict=True)
        )

    def _refresh_parameters(self) -> None:
        """Bring RT up to date with the subscriptions."""
        for shape, number in self.catalog.templates.items():
            if number == len(self._templates):
                self._templates.append(shape)
                self.store.run(create_parameter_table(shape, number))
        dirty, self.catalog.dirty = self.catalog.dirty, set()
        if not dirty:
            return
        fresh: dict[int, list[Canonical]] = {}
        for cq in dirty:
            canonical = self.catalog.canonical.get(cq)
            if cq in self._template_of:
                table = parameter_table(self._template_of.pop(cq))
                self.store.run(f"DELETE FROM {table} WHERE cq = ?", [cq])
            if canonical is not None:
                fresh.setdefault(canonical.template, []).append(canonical)
                self._template_of[cq] = canonical.template
        for number, rows in fresh.items():
            self.store.insert(
                parameter_table(number), _parameter_rows(self._templates[number], rows)
            )
            for canonical in rows:
                for position, variable in enumerate(canonical.variables):
                    self._variables_at.setdefault((number, position), set()).add(variable)

    def _stored(self, docs: Sequence[int]) -> dict[int, Stored]:
        found = self.store.rows(
            'SELECT doc, base, source, id, streams, "start", "end", xml FROM documents'
            " WHERE doc IN (SELECT unnest(?::BIGINT[]))",
            [list(docs)],
        )
        return {
            doc: Stored(doc, base, source, id, tuple(streams), start, end, xml)
            for doc, base, source, id, streams, start, end, xml in found
        }

    def _post(self, matches: list[Match]) -> None:
        """Into the outbox, in the batch's own transaction."""
        if not matches or not self.store.durable:
            return
        first = self._next_match
        self._next_match += len(matches)
        self.store.insert(
            "outbox",
            pa.table(
                {
                    "n": pa.array(range(first, first + len(matches)), pa.int64()),
                    "id": pa.array([m.id for m in matches], pa.string()),
                    "match": pa.array([m.dumps() for m in matches], pa.string()),
                }
            ),
        )

    def _bury(self, letters: list[tuple[Arrival, str]]) -> None:
        if letters:
            self.store.insert(
                "dead_letters",
                pa.table(
                    {
                        "source": pa.array([a.source for a, _ in letters], pa.string()),
                        "id": pa.array([a.id for a, _ in letters], pa.string()),
                        "place": pa.array([a.place for a, _ in letters], pa.string()),
                        "reason": pa.array([reason for _, reason in letters], pa.string()),
                        "timestamp": pa.array([a.timestamp for a, _ in letters], pa.int64()),
                        "xml": pa.array([a.xml for a, _ in letters], pa.binary()),
                    }
                ),
            )
            self.dead_letters += len(letters)

    def _advance(self) -> None:
        """Write down how far the batch went, and let go what no match can reach any more."""
        self.store.set_number("next_doc", self._next_doc)
        self.store.set_number("next_match", self._next_match)
        self.store.set_number("highest_timestamp", self._highest)
        moved = [(s, n) for s, n in self._applied.items() if self._stored_applied.get(s) != n]
        if moved:
            self.store.connection.executemany(
                "INSERT OR REPLACE INTO applied VALUES (?, ?)", [list(pair) for pair in moved]
            )
        self._batches += 1
        if self._batches % _EXPIRY_EVERY == 0:
            self.expire()

    def expire(self) -> None:
        """Forget what ended more than the widest window before the watermark."""
        horizon = self._highest - self.lateness - self.catalog.widest_window()
        if horizon > -UNBOUNDED:
            self.store.run('DELETE FROM rl WHERE "end" < ?', [horizon])
            # The identity stays, so that a repeated document is still known as one.
            self.store.run(
                'UPDATE documents SET xml = NULL WHERE "end" < ? AND xml IS NOT NULL', [horizon]
            )

    # -- delivery ----------------------------------------------------------------------------

    def undelivered(self, limit: int = 1_000) -> list[Match]:
        """Matches that nobody has acknowledged, oldest first."""
        rows = self.store.rows("SELECT match FROM outbox ORDER BY n LIMIT ?", [limit])
        return [Match.loads(text) for (text,) in rows]

    def acknowledge(self, ids: Iterable[str]) -> None:
        self.store.run("DELETE FROM outbox WHERE id IN (SELECT unnest(?::VARCHAR[]))", [list(ids)])

    def letters(self) -> list[DeadLetter]:
        """What was kept aside, oldest first."""
        rows = self.store.rows(
            'SELECT source, id, place, reason, "timestamp", xml FROM dead_letters ORDER BY rowid'
        )
        return [DeadLetter(*row) for row in rows]


def document_key(source: str, id: str) -> int:
    return value_code(f"{source}\0{id}")


def _runs(admitted: list[_Admitted]) -> list[list[_Admitted]]:
    """Cut where new documents and revisions meet: a revision counts for what arrives after it."""
    return [list(group) for _, group in groupby(admitted, key=lambda a: a.revision)]


def _documents_table(run: list[_Admitted]) -> pa.Table:
    # A document revised twice in one run: the last one stays.
    last = {a.doc: a for a in run}
    arrivals = [a.arrival for a in last.values()]
    return pa.table(
        {
            "doc": pa.array(list(last), pa.int64()),
            "base": pa.array([a.base for a in last.values()], pa.int64()),
            "key": pa.array([document_key(a.source, a.id) for a in arrivals], pa.uint64()),
            "source": pa.array([a.source for a in arrivals], pa.string()),
            "id": pa.array([a.id for a in arrivals], pa.string()),
            "streams": pa.array([list(a.streams) for a in arrivals], pa.list_(pa.string())),
            "start": pa.array([a.start for a in last.values()], pa.int64()),
            "end": pa.array([a.end for a in last.values()], pa.int64()),
            "dated": pa.array([a.dated for a in arrivals], pa.bool_()),
            "xml": pa.array([a.xml for a in arrivals], pa.binary()),
        }
    )


def _witness_rows(run: list[_Admitted], rows: pa.Table) -> pa.Table:
    """The witness rows of a run, with document numbers and times."""
    size = max(a.position for a in run) + 1
    of_document: dict[str, list[int | None]] = {
        name: [None] * size for name in ("doc", "base", "start", "end")
    }
    last = {a.doc: a for a in run}
    for admitted in last.values():
        for name, column in of_document.items():
            column[admitted.position] = getattr(admitted, name)
    chosen = rows.filter(pc.less(rows.column("position"), size))
    position = chosen.column("position")
    columns = {
        name: pa.array(column, pa.int64()).take(position) for name, column in of_document.items()
    }
    columns |= {name: chosen.column(name) for name in ROWS.names if name != "position"}
    table = pa.table(columns)
    return table.filter(pc.is_valid(table.column("doc")))


def _parameter_rows(shape: Template, rows: list[Canonical]) -> pa.Table:
    size = len(shape.nodes)
    windows = [c.windows() for c in rows]
    columns = {
        "cq": pa.array([c.number for c in rows], pa.int64()),
        "first_doc": pa.array([c.first_doc() for c in rows], pa.int64()),
    }
    for p in range(size):
        columns[f"v{p}"] = pa.array([c.variables[p] for c in rows], pa.int32())
        columns[f"s{p}"] = pa.array([p in c.selected for c in rows], pa.bool_())
    for i in range(len(shape.quantified)):
        columns[f"u{i}"] = pa.array([c.quantified[i] for c in rows], pa.int32())
    for i, kind in constants(shape):
        arrow = pa.float64() if kind == "DOUBLE" else pa.string()
        columns[f"k{i}"] = pa.array([c.constants[i] for c in rows], arrow)
    for i in range(len(windows[0])):
        columns[f"w{i}"] = pa.array([w[i] for w in windows], pa.int64())
    return pa.table(columns)

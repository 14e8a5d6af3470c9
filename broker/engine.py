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
from functools import partial
from itertools import groupby
from operator import le
from typing import NamedTuple

import pyarrow as pa

from broker.catalog import Subscription
from broker.clock import Clock
from broker.join import MEMORY, Joiner
from broker.model import DeadLetter, Match
from broker.publish import Publisher, Stored
from broker.registry import Registry
from broker.rows import Admitted, Keys, document_key, documents_table, witness_rows
from broker.shapes import Compiled
from broker.sql import UNBOUNDED, blocks_below, operators
from broker.store import Store
from broker.wire import Arrival, Arrivals, rows_from_witnesses, witness_document
from xscl.stage1 import Witness
from xscl.template import Template

LATENESS = 7 * 86_400 * 1_000_000
"""Allowed lateness by default, in microseconds."""

_ABOVE = 2**48
"""A document's number that no broker reaches."""

_EXPIRY_EVERY = 64
"""Batches between two looks for what may go."""


class _Found(NamedTuple):
    """A match, its documents, the oldest document it is made of, its subscription's number."""

    match: Match
    docs: tuple[int, ...]
    base: int
    number: int

    @property
    def hidden(self) -> bool:
        """Whether it is a match of a query in another's FROM, which only that one sees."""
        return self.number < 0

    def order(self) -> tuple[int, int, str]:
        return (self.match.end, self.match.start, self.match.id)


class Engine:
    """The catalog of subscriptions over a store, and the processing of batches."""

    def __init__(self, store: Store, lateness: int = LATENESS, memory: int = MEMORY) -> None:
        self.store = store
        self.lateness = lateness
        self.registry = Registry(store)
        self.catalog = self.registry.catalog
        self.matcher = self.registry.matcher
        self.joiner = Joiner(store, self.catalog, memory)
        self._batches = 0
        self.clock = Clock()
        self._next_doc = store.number("next_doc", 1)
        self._highest = store.number("highest_timestamp", -UNBOUNDED)
        self._next_match = store.number("next_match", 1)
        self._applied: dict[str, int] = dict(store.rows("SELECT source, seq FROM applied"))
        self._stored_applied = dict(self._applied)
        keys = store.connection.sql("SELECT key FROM documents").to_arrow_table()
        self._keys = Keys(keys.column("key").to_numpy())

    def subscribe(self, compiled: Sequence[Compiled]) -> list[Subscription]:
        """Register queries from the next document on, all or none. Raises `XsclError`."""
        return self.registry.subscribe(compiled, self._next_doc)

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription. KeyError if there is none of that id."""
        self.registry.unsubscribe(id)

    def spec(self) -> bytes:
        """Stage 1's compiled form for the queries of now; the same object while they stay so."""
        return self.registry.spec()

    # -- batches -----------------------------------------------------------------------------

    def apply(self, arrivals: Arrivals, now: int | None = None) -> list[Match]:
        """Apply a batch in one transaction; the matches that it completes, in order of their end.

        How documents are cut into batches changes no match. On an exception nothing of the batch
        has happened. A document dated after `now` (microseconds; None: never) is kept as it is, but
        does not move the watermark beyond it: one wrong date must not make all others late.
        """
        before = (self._next_doc, self._next_match, self._highest, dict(self._applied))
        self.joiner.refresh()
        try:
            with self.store.transaction():
                self.clock.start()
                admitted = self._admit(arrivals, UNBOUNDED if now is None else now)
                self.clock.lap("admit")
                matches: list[Match] = []
                for run in _runs(admitted):
                    matches += self._cascade(self._process(run, arrivals.rows))
                self.post(matches)
                self._advance()
                self.clock.lap("store")
        except BaseException:
            self.joiner.reset()
            self._next_doc, self._next_match, self._highest, self._applied = before
            raise
        self.clock.lap("commit")
        self._stored_applied = dict(self._applied)
        return matches

    def history(self, run: list[Admitted], rows: pa.Table) -> list[Match]:
        """Matches that documents complete which another engine has admitted; they keep their
        numbers, and results of matches get numbers far above them."""
        self._next_doc = max(self._next_doc, _ABOVE)
        self.joiner.refresh()
        return self._cascade(self._process(run, rows))

    def _admit(self, arrivals: Arrivals, now: int) -> list[Admitted]:
        """Who comes in, in order of arrival; the others are dropped or become dead letters."""
        keys = [document_key(a.source, a.id) for a in arrivals.documents]
        known = self._known(keys)
        admitted: list[Admitted] = []
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
            self._highest = max(self._highest, min(arrival.timestamp, now))
            at = arrival.timestamp
            admitted.append(Admitted(position, doc, doc, at, at, arrival, revision))
        self._bury(letters)
        return admitted

    def _known(self, keys: list[int]) -> dict[tuple[int, str, str], int]:
        seen = self._keys.seen(keys)
        self._keys.add(keys)
        if not seen:
            return {}
        found = self.store.rows(
            "SELECT key, source, id, doc FROM documents WHERE key IN (SELECT unnest(?::UBIGINT[]))",
            [seen],
        )
        return {(key, source, id): doc for key, source, id, doc in found}

    def _cascade(self, found: list[_Found]) -> list[Match]:
        """The matches, and those that their results complete as documents of their own streams."""
        complete: list[_Found] = []
        while found:
            complete += [f for f in found if not f.hidden]
            derived = [f for f in found if self.catalog.read[f.match.stream or ""]]
            run: list[Admitted] = []
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
                run.append(Admitted(len(run), doc, f.base, match.start, match.end, arrival, False))
                witnesses.append(witness)
            found = self._process(run, rows_from_witnesses(witnesses)) if run else []
        # For people, in the order of their documents, and of the nodes in those.
        complete.sort(key=lambda f: (f.match.end, f.match.start, f.docs, f.match.nodes, f.number))
        return [f.match for f in complete]

    def _process(self, run: list[Admitted], rows: pa.Table) -> list[_Found]:
        """Insert a run of new documents and find its matches, or replace a run of revised ones."""
        revised = [a.doc for a in run if a.revision]
        if revised:
            for table in ("rl", "documents"):
                self.store.run(
                    f"DELETE FROM {table} WHERE doc IN (SELECT unnest(?::BIGINT[]))", [revised]
                )
        self.store.insert("documents", documents_table(run))
        witnessed = witness_rows(run, rows)
        self.store.insert("rl", witnessed)
        self.clock.lap("store")
        if revised:
            self.joiner.replace(revised, witnessed)
            return []
        return self._evaluate(run, witnessed)

    def _evaluate(self, run: list[Admitted], rows: pa.Table) -> list[_Found]:
        """The matches that the documents of a run complete, of which these are the witness rows."""
        candidates = self.joiner.candidates(rows)
        self.clock.lap("join")
        if not candidates:
            return []
        publisher = Publisher(partial(self._stored, {a.doc: a for a in run}))
        publisher.load({doc for _, candidate in candidates for doc in candidate.docs})
        found = []
        for canonical, candidate in candidates:
            shape = self.joiner.templates.shapes[canonical.template]
            blocks = [block for block, _ in shape.nodes]
            stored = [publisher.stored(doc) for doc in candidate.docs]
            base, lengths = min(s.base for s in stored), _lengths(shape, stored)
            subscribers = canonical.subscribers.values()
            wanted = [s for s in subscribers if self._within(s, base, lengths)]
            if wanted and publisher.confirmed(canonical, blocks, candidate, shape.joins):
                found += [
                    _Found(publisher.match(s, blocks, candidate), candidate.docs, base, s.number)
                    for s in wanted
                ]
        self.clock.lap("publish")
        return found

    def _within(self, subscription: Subscription, base: int, lengths: list[int]) -> bool:
        """Whether a match is in this subscriber's own windows and after its registration, of which
        the search knows only the widest and the earliest of any."""
        return base >= subscription.first_doc and all(map(le, lengths, subscription.windows))

    def _stored(self, run: dict[int, Admitted], docs: Sequence[int]) -> dict[int, Stored]:
        """Documents by number; those of the run need not be read."""
        known: dict[int, Stored] = {}
        for a in [run[doc] for doc in docs if doc in run]:
            arrival = a.arrival
            known[a.doc] = Stored(
                a.doc,
                a.base,
                arrival.source,
                arrival.id,
                arrival.streams,
                a.start,
                a.end,
                arrival.xml,
            )
        older = [doc for doc in docs if doc not in run]
        if not older:
            return known
        found = self.store.rows(
            'SELECT doc, base, source, id, streams, "start", "end", xml FROM documents'
            " WHERE doc IN (SELECT unnest(?::BIGINT[]))",
            [older],
        )
        return known | {
            doc: Stored(doc, base, source, id, tuple(streams), start, end, xml)
            for doc, base, source, id, streams, start, end, xml in found
        }

    def post(self, matches: list[Match]) -> None:
        """Into the outbox, in the batch's own transaction."""
        if not matches or not self.store.durable:
            return
        first = self._next_match
        self._next_match += len(matches)
        dumped = [m.dumps() for m in matches]
        self.store.insert(
            "outbox",
            pa.table(
                {
                    "n": pa.array(range(first, first + len(matches)), pa.int64()),
                    "id": pa.array([m.id for m in matches], pa.string()),
                    "match": pa.array([head for head, _ in dumped], pa.string()),
                    "result": pa.array([result for _, result in dumped], pa.binary()),
                }
            ),
        )

    def _bury(self, letters: list[tuple[Arrival, str]]) -> None:
        """Keep documents aside; one that a replay brings again is there already."""
        if letters:
            known = set(
                self.store.rows(
                    "SELECT source, id, xml FROM dead_letters"
                    " WHERE id IN (SELECT unnest(?::VARCHAR[]))",
                    [[a.id for a, _ in letters]],
                )
            )
            fresh: dict[tuple[str, str, bytes], tuple[Arrival, str]] = {}
            for letter, why in letters:
                fresh.setdefault((letter.source, letter.id, letter.xml), (letter, why))
            letters = [letter for key, letter in fresh.items() if key not in known]
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

    def _advance(self) -> None:
        """Write down how far the batch went, and let go what no match can reach any more."""
        self.store.set_numbers(
            next_doc=self._next_doc,
            next_match=self._next_match,
            highest_timestamp=self._highest,
        )
        moved = [(s, n) for s, n in self._applied.items() if self._stored_applied.get(s) != n]
        if moved:
            # One statement for all: each costs milliseconds.
            self.store.run(
                "INSERT OR REPLACE INTO applied SELECT unnest(?::VARCHAR[]), unnest(?::BIGINT[])",
                [[source for source, _ in moved], [seq for _, seq in moved]],
            )
        self._batches += 1
        if self._batches % _EXPIRY_EVERY == 0:
            self.expire()

    def expire(self) -> None:
        """Forget what ended more than the widest window before the watermark."""
        horizon = self._highest - self.lateness - self.catalog.widest_window()
        if horizon > -UNBOUNDED:
            self.store.run('DELETE FROM rl WHERE "end" < ?', [horizon])
            self.joiner.expire(horizon)
            # The identity stays, so that a repeated document is still known as one.
            self.store.run(
                'UPDATE documents SET xml = NULL WHERE "end" < ? AND xml IS NOT NULL', [horizon]
            )

    def newest(self) -> int:
        """The highest timestamp so far, in microseconds."""
        return self._highest

    def applied(self, sources: Iterable[str]) -> int:
        """The highest sequence number applied of any of these sources, 0 for none."""
        return max((self._applied.get(source, 0) for source in sources), default=0)

    # -- delivery ----------------------------------------------------------------------------

    def undelivered(self, limit: int = 1_000) -> list[Match]:
        """Matches that nobody has acknowledged, oldest first."""
        rows = self.store.rows("SELECT match, result FROM outbox ORDER BY n LIMIT ?", [limit])
        return [Match.loads(text, result) for text, result in rows]

    def acknowledge(self, ids: Iterable[str]) -> None:
        self.store.run("DELETE FROM outbox WHERE id IN (SELECT unnest(?::VARCHAR[]))", [list(ids)])

    def letters(self) -> list[DeadLetter]:
        """What was kept aside, oldest first."""
        rows = self.store.rows(
            'SELECT source, id, place, reason, "timestamp", xml FROM dead_letters ORDER BY rowid'
        )
        return [DeadLetter(*row) for row in rows]


def _lengths(shape: Template, stored: Sequence[Stored]) -> list[int]:
    """How long a match lasts, for each operator and in all, as windows bound it."""
    spans = [*map(blocks_below, operators(shape.operators)), range(shape.blocks)]
    return [
        max(stored[b].end for b in blocks) - min(stored[b].start for b in blocks)
        for blocks in spans
    ]


def _runs(admitted: list[Admitted]) -> list[list[Admitted]]:
    """Cut where new documents and revisions meet: a revision counts for what arrives after it."""
    return [list(group) for _, group in groupby(admitted, key=lambda a: a.revision)]

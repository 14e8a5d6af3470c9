"""The broker's own join as a system of the join benchmarks: posting lists and signatures.

What the engine runs in a batch between stage 1 and the commit, except that the matches of a list of
documents are counted and not listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.workload import Batch, Query, Workload
from broker.join.pair_query import Plan
from broker.join.postings import Postings
from broker.join.records import Reader, Record, bounds_of, packed
from broker.join.signatures import Signatures, Verdict
from broker.join.time_lists import Hits, span
from broker.model import UNBOUNDED
from broker.query.canonical import Canonical
from xscl.normal.operators import FollowedBy
from xscl.normal.template import Template


class Ours:
    """Registers the canonical queries, and counts by verdict, of which there are few."""

    def __init__(self, workload: Workload, *, counting: bool = True) -> None:
        """Without `counting` nobody reads the lists that answer a probe."""
        self.signatures = Signatures()
        self.postings = Postings(self.signatures)
        self._reader = Reader()
        self._queries: dict[int, Query] = {}
        for number, query in enumerate(workload.distinct, 1):
            self._queries[number] = query
            self.signatures.add([_plan(workload, query, number)])
        self._same = all(query.window >= UNBOUNDED for query in workload.distinct)
        # No Counter: in a loop as short as that of `_count` it costs twice what a dictionary does.
        self._verdicts: dict[Verdict, int] = {}
        self._counts: Counter[int] = Counter()
        self._counting = counting

    def add(self, batch: Batch) -> None:
        if not len(batch.doc):
            return
        bounds = bounds_of(batch.doc)
        docs = batch.doc[bounds[:-1]].tolist()
        every = batch.timestamps.tolist()
        timestamps = [every[doc - batch.first] for doc in docs]
        edges = packed((batch.var1, batch.var2, batch.node1, batch.node2))
        own = [docs, docs, timestamps, timestamps]
        records = self._reader.records(own, edges, batch.value.tolist(), bounds)
        for record in records:
            found = self.postings.probe(record)
            if self._counting:
                self._count(found, record)
            self.postings.insert(record)

    def _count(self, found: Sequence[Hits], record: Record) -> None:
        """Count whole lists, where windows do not differ from query to query."""
        counted = self._verdicts
        whole = self._same and self.postings.latest < record.start
        for right, verdicts, lists in found:
            for verdict, olds in zip(verdicts, lists, strict=True):
                if whole:
                    matches = len(olds)
                elif verdict.narrowest >= UNBOUNDED:
                    low, high = span(olds, record, right, UNBOUNDED, True)
                    matches = high - low
                else:
                    self._count_each(verdict, olds, record, right)
                    continue
                try:
                    counted[verdict] += matches
                except KeyError:
                    counted[verdict] = matches

    def _count_each(
        self, verdict: Verdict, olds: Sequence[Record], record: Record, right: bool
    ) -> None:
        """Count for each query, as far as its window goes."""
        ((ordered, plans, _),) = verdict.orders
        for plan in plans:
            low, high = span(olds, record, right, plan.window, ordered)
            self._counts[plan.canonical.number] += high - low

    def counts(self) -> dict[Query, int]:
        counts = Counter(self._counts)
        for verdict, found in self._verdicts.items():
            for _, plans, _ in verdict.orders:
                for plan in plans:
                    counts[plan.canonical.number] += found
        return {self._queries[number]: found for number, found in counts.items()}


def _plan(workload: Workload, query: Query, number: int) -> Plan:
    """A query, registered without its text: the nodes of both blocks, roots first."""
    nodes: list[tuple[int, int | None]] = []
    variables: list[int] = []
    position: dict[tuple[int, int], int] = {}
    for side in (0, 1):
        edges = workload.edges(query, side)
        for node in dict.fromkeys([0, *(n for edge in edges for n in edge)]):
            above = next((a for a, n in edges if n == node), None)
            position[side, node] = len(nodes)
            nodes.append((side, None if above is None else position[side, above]))
            variables.append(workload.variable(query, side, node))
    leaves = workload.documents.schema.leaves
    joins = tuple((position[0, leaves[a]], position[1, leaves[b]]) for a, b in query.joins)
    shape = Template(tuple(nodes), joins, FollowedBy(0, 1))
    selected = frozenset({position[0, 0], position[1, 0]})
    plan = Plan(Canonical(number, 0, tuple(variables), selected, (), (), (), ()), shape)
    plan.window = query.window
    return plan

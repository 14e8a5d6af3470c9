"""Queries of one block: which of them a document satisfies is told by its layout alone.

Most of very many are taps of event patterns, whose one match in a document of a layout is the same
but for the document: of these no candidates are made, where somebody takes them so (`Tapped`).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from broker.join.candidates import Candidate, Chosen, Found
from broker.join.pair_query import Plan
from broker.join.records import Layout, Record, bounds_of
from broker.model import UNBOUNDED
from broker.query.canonical import Canonical
from xscl.compact import OneOrMany

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_KNOWN = 10_000

MANY = 8
"""So many documents are looked at in columns."""

_EDGE = 2
"""Variables of an edge."""

_PLANS: OneOrMany[int, Plan] = OneOrMany(attrgetter("canonical.number"))


class Satisfied:
    """The queries of one block that the documents of a layout satisfy: `every` one, each with its
    nodes where it has one match; and of these the `taps`, which have one and are nothing but taps,
    and the `others`. Documents that last no longer than `window`, and are made of none before
    `first_doc`, are for all of the taps. `again`: the layout was met before. Where most documents
    satisfy constants that no other one does, nothing is remembered of them."""

    __slots__ = ("again", "every", "first_doc", "others", "taps", "window")

    def __init__(
        self,
        every: Sequence[tuple[Plan, Chosen | None]],
        again: bool,
    ) -> None:
        self.every = every
        self.again = again
        self.taps: list[tuple[Canonical, Chosen]] = []
        self.others: list[tuple[Plan, Chosen | None]] = []
        window, first_doc = UNBOUNDED, 0
        for each in every:
            plan, single = each
            if single is not None and plan.is_tap:
                self.taps.append((plan.canonical, single))
                if plan.window < window:
                    window = plan.window
                if plan.first_doc > first_doc:
                    first_doc = plan.first_doc
            else:
                self.others.append(each)
        self.window = window
        self.first_doc = first_doc


Tapped = tuple[int, Satisfied]
"""The number of a document, and what it satisfies: it is for all of the taps."""


class TapRows:
    """The documents of a batch that satisfy nothing but taps, in columns: their numbers, and where
    the rows of each end; by row the canonical query that finds the tap, and the nodes of its one
    match."""

    __slots__ = ("_one_block", "_variables", "docs", "ends", "nodes", "queries")

    def __init__(
        self,
        one_block: OneBlock,
        docs: Sequence[int],
        ends: Sequence[int],
        variables: Numbers,
        queries: Numbers,
        nodes: Sequence[tuple[int, ...]],
    ) -> None:
        self._one_block = one_block
        self._variables = variables
        self.docs = docs
        self.ends = ends
        self.queries = queries
        self.nodes = nodes

    def found(self, doc: int, low: int, high: int) -> list[Found]:
        """The candidates that rows of a document are."""
        own = zip(self._variables[low:high].tolist(), self.nodes[low:high], strict=True)
        return [self._one_block.found(doc, variable, nodes) for variable, nodes in own]


class Tapping:
    """Takes what satisfies taps: documents one by one, as `each`, or many in columns, as `rows`, if
    there are `starts`. So it takes those that are made of none before `first_doc`, and of which all
    canonical queries have one that is not negative."""

    __slots__ = ("each", "first_doc", "rows", "starts")

    def __init__(self, starts: array[int] | None = None, first_doc: int = 0) -> None:
        self.starts = starts
        self.first_doc = first_doc
        self.each: list[Tapped] = []
        self.rows: TapRows | None = None


class OneBlock:
    """The queries of one block. `taps` are by canonical query those of its subscribers that are
    taps."""

    def __init__(self, taps: Mapping[int, Sequence[str]]) -> None:
        self._taps = taps
        self._plans: dict[int, Plan | dict[int, Plan]] = {}
        """By the last variable, and the number of the query: most have one."""
        self._queries = array("i", [0])
        """By the last variable of a query of one edge that is found by this one alone, and is
        nothing but taps, 1 more than its number; 0 if it is the last of none, -1 of others."""
        self._parents = array("i", [0])
        """By that variable, the one above it."""
        self._known: dict[Layout, Satisfied] = {}
        self._chosen: dict[tuple[tuple[int, ...], frozenset[int]], Chosen] = {}

    def __bool__(self) -> bool:
        return bool(self._plans)

    def add(self, plan: Plan) -> None:
        canonical = plan.canonical
        last = canonical.variables[-1]
        self._plans[last] = _PLANS.add(self._plans.get(last), plan)
        self.renew(plan)

    def remove(self, plan: Plan) -> None:
        last = plan.canonical.variables[-1]
        left = _PLANS.remove(self._plans.pop(last), plan)
        if left is not None:
            self._plans[last] = left
        self._renew(last)

    def renew(self, plan: Plan) -> None:
        """The subscribers of one have changed."""
        plan.is_tap = self._is_tap(plan.canonical)
        self._renew(plan.canonical.variables[-1])

    def _renew(self, last: int) -> None:
        """The queries with this last variable have changed."""
        self._known.clear()
        own, query = self._plans.get(last), -1
        if last + 1 >= len(self._queries):  # what stands behind all of them is the last of none
            more = [0] * (last + 2 - len(self._queries))
            self._queries.extend(more)
            self._parents.extend(more)
        if own is None:
            query = 0
        elif isinstance(own, Plan) and own.is_tap and len(own.canonical.variables) <= _EDGE:
            query = own.canonical.number + 1
            self._parents[last] = (0, *own.canonical.variables)[-2]
        self._queries[last] = query

    def satisfied(self, layout: Layout) -> Satisfied:
        """What the documents of a layout satisfy."""
        found = self._known.get(layout)
        if found is None:
            found = Satisfied(self._every(layout), layout.again)
            if layout.again:
                if len(self._known) > _KNOWN:
                    self._known.clear()
                self._known[layout] = found
        return found

    def columns(
        self, rows: pa.Table, records: Sequence[Record], tapping: Tapping
    ) -> Collection[int]:
        """Give documents, by their witness rows and records, in columns, if there are many that
        satisfy nothing but taps, and other ones each. Returns their numbers."""
        first_doc, starts = tapping.first_doc, tapping.starts
        if starts is None or len(records) < MANY:
            return ()
        other = np.array(
            [
                not each.layout.is_single
                or each.layout.again
                or each.start != each.end
                or each.base < first_doc
                for each in records
            ]
        )
        if len(other) - other.sum() < MANY:
            return ()
        var1, var2, node1, node2, doc = [
            rows.column(name).to_numpy() for name in ("var1", "var2", "node1", "node2", "doc")
        ]
        place = np.arange(len(records)).repeat(np.diff(bounds_of(doc)))
        queries = np.frombuffer(self._queries, np.int32).take(var2, mode="clip")
        above = np.frombuffer(self._parents, np.int32).take(var2, mode="clip")
        first = np.frombuffer(starts, np.int32).take(queries - 1, mode="clip")
        is_tap = (queries > 0) & (above == var1) & (first >= 0)
        other[place[(queries != 0) & ~is_tap]] = True
        kept = np.flatnonzero(is_tap & ~other[place])
        ends = np.searchsorted(place[kept], np.flatnonzero(~other), side="right").tolist()
        own = zip(*[column[kept].tolist() for column in (var1, node1, node2)], strict=True)
        docs = [each.doc for each, left in zip(records, other.tolist(), strict=True) if not left]
        nodes = [(below, to) if above else (to,) for above, below, to in own]
        tapping.rows = TapRows(self, docs, ends, var2[kept], queries[kept] - 1, nodes)
        return frozenset(docs)

    def found(self, doc: int, variable: int, nodes: tuple[int, ...]) -> Found:
        """The candidate of a query of one edge in a document, by its last variable."""
        plan = self._plans[variable]
        assert isinstance(plan, Plan)
        canonical = plan.canonical
        return canonical, Candidate((doc,), self._chosen_of(nodes, canonical.selected))

    def _every(self, layout: Layout) -> list[tuple[Plan, Chosen | None]]:
        """The queries that the documents of a layout satisfy, each with its nodes where it has one
        match."""
        plans, single = self._plans, layout.single
        found: list[tuple[Plan, Chosen | None]] = []
        if single is None:
            nodes, regular = layout.nodes, layout.regular
            for variable in nodes:
                for plan in _PLANS.items(plans.get(variable)):
                    if all(map(nodes.__contains__, plan.canonical.variables)):
                        found.append((plan, plan.single((layout,)) if regular else None))
            return found
        for variable in single:
            own = plans.get(variable)
            if own is None:
                continue
            for plan in own.values() if isinstance(own, dict) else (own,):
                canonical = plan.canonical
                try:
                    chosen = tuple([single[each] for each in canonical.variables])
                except KeyError:
                    continue
                found.append((plan, self._chosen_of(chosen, canonical.selected)))
        return found

    def _chosen_of(self, nodes: tuple[int, ...], selected: frozenset[int]) -> Chosen:
        """The one match at these nodes, which is the same for all queries that select the same: in
        one block no joins compare anything."""
        key = (nodes, selected)
        found = self._chosen.get(key)
        if found is None:
            if len(self._chosen) > _KNOWN:
                self._chosen.clear()
            own = tuple([node if p in selected else None for p, node in enumerate(nodes)])
            found = self._chosen[key] = Chosen(own, {})
        return found

    def _is_tap(self, canonical: Canonical) -> bool:
        """Whether all of its subscribers are taps."""
        names = self._taps.get(canonical.number)
        if names is None:
            return False
        return canonical.alone is not None or len(names) == len(canonical.subscribers)

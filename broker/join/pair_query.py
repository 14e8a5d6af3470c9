"""Canonical queries that signatures decide, and their candidates made from records.

A query is decided in memory if it has one block, or two that value joins connect, and nothing of it
needs more than that values are equal: no residual, and no node whose value joins two others. On
regular documents the nodes of its patterns are then independent of each other (`Layout`). All other
queries, and irregular documents, are for the template's query in SQL to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import Literal

from broker.join.alternatives import Alternative, how_many, joined
from broker.join.candidates import Candidate, Chosen
from broker.join.records import Layout, Record
from broker.query.canonical import Canonical
from xscl.normal.operators import FollowedBy
from xscl.normal.template import Template

_KNOWN = 1_000
_SHARED = 10_000


@lru_cache(maxsize=4_096)
def decider(shape: Template) -> Literal["memory", "steps", "slice", "scan"]:
    """How a template's queries are decided: for regular documents in "memory" by signatures, or
    there by "steps" from document to document; or by the template's query in SQL, over a "slice" of
    RL if value joins connect the blocks, else by a "scan" of all of it."""
    if not _connected(shape):
        return "scan"
    parents = {parent for _, parent in shape.nodes}
    ends = [p for pair in shape.joins for p in pair if p not in parents]
    plain = not (shape.residuals or shape.quantified) and all(
        shape.nodes[a][0] != shape.nodes[b][0] for a, b in shape.joins
    )
    if plain and shape.blocks <= 2 and len(set(ends)) == len(ends):
        return "memory"
    if plain and shape.blocks > 1:
        return "steps"
    return "scan" if shape.blocks == 1 else "slice"


def _connected(shape: Template) -> bool:
    reached = {0}
    for _ in range(shape.blocks):
        for a, b in shape.joins:
            blocks = {shape.nodes[a][0], shape.nodes[b][0]}
            if blocks & reached:
                reached |= blocks
    return len(reached) == shape.blocks


class Plan:
    """One canonical query, ready to make candidates of the records of its blocks.

    `ordered`: the left document ends before the right one starts, as FOLLOWED BY says. `window` and
    `first_doc` are the widest of its subscribers. `is_tap`: all of them are taps of patterns.
    """

    __slots__ = ("_known", "canonical", "first_doc", "is_tap", "ordered", "shape", "window")

    def __init__(self, canonical: Canonical, shape: Template) -> None:
        self.canonical = canonical
        self.ordered = isinstance(shape.operators, FollowedBy)
        self.shape = shape
        self.is_tap = False
        self._known: dict[tuple[Layout, ...], Chosen | None] | None = None
        """Caches by the layouts of the documents, None before the first candidate: most queries
        never have one."""
        alone = canonical.alone
        self.window, self.first_doc = (
            (0, 0) if alone is None else (alone.windows[-1], alone.first_doc)
        )
        if alone is None:
            self.renew()

    def renew(self) -> None:
        """Update window and first document after the subscribers have changed."""
        if self.canonical.subscribed:
            self.window = self.canonical.windows()[-1]
            self.first_doc = self.canonical.first_doc()

    def admits(self, left: Record, right: Record) -> bool:
        """Whether two documents are in order, within the window, and new enough for at least one
        subscriber."""
        begin = left.start if left.start < right.start else right.start
        return (
            (left.end < right.start or not self.ordered)
            and left.end - begin <= self.window
            and right.end - begin <= self.window
            and left.base >= self.first_doc
            and right.base >= self.first_doc
        )

    @property
    def blocks(self) -> int:
        return self.shape.blocks

    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of variables that its joins compare, the left block's variable first."""
        variables = self.canonical.variables
        return [(variables[a], variables[b]) for a, b in self.shape.joins]

    def only(self, layouts: tuple[Layout, ...]) -> Chosen | None:
        """The nodes of the one match that regular documents with these layouts and this signature
        are; None if there may be several or none, which `several` then says."""
        for layout in layouts:
            if not layout.again:
                return self.single(layouts)
        known = self._known
        if known is None or len(known) > _KNOWN:
            known = self._known = {}
        found = known.get(layouts)
        if found is None and layouts not in known:
            found = known[layouts] = self.single(layouts)
        return found

    def several(
        self, records: Sequence[Record], docs: tuple[int, ...], most: int
    ) -> Sequence[Candidate] | None:
        """The matches of regular documents with this signature: one for each distinct choice of
        the selected nodes, none where a node that is not compared is missing. None if there are
        more than `most`."""
        alternatives = self._alternatives(records, most)
        if alternatives is None:
            return None
        return [Candidate(docs, self._chosen(choice)) for choice in product(*alternatives)]

    def single(self, layouts: tuple[Layout, ...]) -> Chosen | None:
        """The candidate's nodes where each variable has one, which the signature has compared."""
        nodes: list[int] = []
        own = zip(self.shape.nodes, self.canonical.variables, strict=True)
        for (block, _), variable in own:
            node = layouts[block].only(variable)
            if node is None:
                return None
            nodes.append(node)
        return _chosen(self.shape, self.canonical, tuple(nodes))

    def _alternatives(self, records: Sequence[Record], most: int) -> list[list[Alternative]] | None:
        """The choices where variables have several nodes, or none: of each list one makes a
        match. None if there are more than `most` combinations of these, before any is made."""
        own = [records[block] for block, _ in self.shape.nodes]
        found = [
            record.layout.nodes.get(variable, ())
            for record, variable in zip(own, self.canonical.variables, strict=True)
        ]
        if not all(found):
            return [[]]
        selected = self.canonical.selected
        alternatives: list[list[Alternative]] = []
        compared = {p for pair in self.shape.joins for p in pair}
        count = 1
        for p in sorted(selected - compared):
            count *= len(found[p])
            alternatives.append([{p: (node, ())} for node, _ in found[p]])
        sides: list[list[dict[int, list[int]]]] = []
        for pair in self.shape.joins:
            nodes: list[dict[int, list[int]]] = [{}, {}]
            for by_code, p in zip(nodes, pair, strict=True):
                for node, rows in found[p]:
                    by_code.setdefault(own[p].code(rows), []).append(node)
            count *= how_many(pair, nodes, selected)
            sides.append(nodes)
        if count > most:
            return None
        for pair, nodes in zip(self.shape.joins, sides, strict=True):
            alternatives.append(list(joined(pair, nodes, selected)))
        return alternatives

    def _chosen(self, choice: Iterable[Alternative]) -> Chosen:
        chosen = {p: place for part in choice for p, place in part.items()}
        return Chosen(
            tuple([chosen[p][0] if p in chosen else None for p in range(len(self.shape.nodes))]),
            {p: every for p, (_, every) in chosen.items() if every},
        )


_shared: dict[tuple[int, frozenset[int], tuple[int, ...]], tuple[Template, Chosen]] = {}
"""By the template, the selected positions and the nodes: of very many queries of one shape most
have few candidates each, and all of them at the same nodes. The template is kept, so that no other
one has its identity."""


def _chosen(shape: Template, canonical: Canonical, nodes: tuple[int, ...]) -> Chosen:
    """The nodes of a candidate where each variable has one."""
    selected = canonical.selected
    key = (id(shape), selected, nodes)
    known = _shared.get(key)
    plain = not any(canonical.values)  # else what is derived of it is not the same for all queries
    if known is not None and plain:
        return known[1]
    lists: dict[int, tuple[int, ...]] = {p: (nodes[p],) for pair in shape.joins for p in pair}
    found = Chosen(tuple([n if p in selected else None for p, n in enumerate(nodes)]), lists)
    if plain:
        if len(_shared) >= _SHARED:
            _shared.clear()
        _shared[key] = shape, found
    return found

"""Queries of one block: which of them a document satisfies is told by its layout alone.

Most of very many are taps of event patterns, whose one match in a document of a layout is the same
but for the document: of these no candidates are made, where somebody takes them so (`Tapped`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from broker.join.candidates import Chosen
from broker.join.pair_query import Plan
from broker.join.records import Layout
from broker.model import UNBOUNDED
from broker.query.canonical import Canonical
from xscl.compact import OneOrMany

_KNOWN = 10_000
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
        is_tap: Callable[[Canonical], bool],
        again: bool,
    ) -> None:
        self.every = every
        self.again = again
        self.taps: list[tuple[Canonical, Chosen]] = []
        self.others: list[tuple[Plan, Chosen | None]] = []
        window, first_doc = UNBOUNDED, 0
        for each in every:
            plan, single = each
            canonical = plan.canonical
            if single is not None and is_tap(canonical):
                self.taps.append((canonical, single))
                window = min(window, plan.window)
                first_doc = max(first_doc, plan.first_doc)
            else:
                self.others.append(each)
        self.window = window
        self.first_doc = first_doc


Tapped = tuple[int, Satisfied]
"""The number of a document, and what it satisfies: it is for all of the taps."""


class OneBlock:
    """The queries of one block. `taps` are by canonical query those of its subscribers that are
    taps."""

    def __init__(self, taps: Mapping[int, Sequence[str]]) -> None:
        self._taps = taps
        self._plans: dict[int, Plan | dict[int, Plan]] = {}
        """By the last variable, and the number of the query: most have one."""
        self._known: dict[Layout, Satisfied] = {}
        self._chosen: dict[tuple[tuple[int, ...], frozenset[int]], Chosen] = {}

    def __bool__(self) -> bool:
        return bool(self._plans)

    def add(self, plan: Plan) -> None:
        canonical = plan.canonical
        last = canonical.variables[-1]
        self._plans[last] = _PLANS.add(self._plans.get(last), plan)
        self.renew()

    def remove(self, plan: Plan) -> None:
        last = plan.canonical.variables[-1]
        left = _PLANS.remove(self._plans.pop(last), plan)
        if left is not None:
            self._plans[last] = left
        self.renew()

    def renew(self) -> None:
        """Their subscribers have changed."""
        self._known.clear()

    def satisfied(self, layout: Layout) -> Satisfied:
        """What the documents of a layout satisfy."""
        found = self._known.get(layout)
        if found is None:
            found = Satisfied(self._every(layout), self._is_tap, layout.again)
            if layout.again:
                if len(self._known) > _KNOWN:
                    self._known.clear()
                self._known[layout] = found
        return found

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

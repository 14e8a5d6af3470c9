"""Queries of one block: which of them a document satisfies is told by its layout alone.

Most of very many are taps of event patterns, whose one match in a document of a layout is the same
but for the document: of these no candidates are made, where somebody takes them so (`Tapped`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from broker.join.candidates import Chosen
from broker.join.pair_query import Plan
from broker.join.records import Layout
from broker.query.canonical import Canonical

_KNOWN = 10_000


class Satisfied:
    """The queries of one block that the documents of a layout satisfy: `every` one, each with its
    nodes where it has one match; and of these the `taps`, which have one and are nothing but taps,
    and the `others`. Documents that last no longer than `window`, and are made of none before
    `first_doc`, are for all of the taps."""

    __slots__ = ("every", "first_doc", "others", "taps", "window")

    def __init__(
        self,
        every: Sequence[tuple[Plan, Chosen | None]],
        is_tap: Sequence[bool],
    ) -> None:
        self.every = every
        taps: list[tuple[Canonical, Chosen]] = []
        others: list[tuple[Plan, Chosen | None]] = []
        windows: list[int] = []
        first_docs: list[int] = []
        for (plan, single), tap in zip(every, is_tap, strict=True):
            if tap and single is not None:
                taps.append((plan.canonical, single))
                windows.append(plan.window)
                first_docs.append(plan.first_doc)
            else:
                others.append((plan, single))
        self.taps = taps
        self.others = others
        self.window = min(windows, default=0)
        self.first_doc = max(first_docs, default=0)


Tapped = tuple[int, Satisfied]
"""The number of a document, and what it satisfies: it is for all of the taps."""


class OneBlock:
    """The queries of one block. `taps` are by canonical query those of its subscribers that are
    taps."""

    def __init__(self, taps: Mapping[int, AbstractSet[str]]) -> None:
        self._taps = taps
        self._plans: dict[int, dict[int, Plan]] = {}
        """By the last variable, and the number of the query."""
        self._known: dict[Layout, Satisfied] = {}

    def __bool__(self) -> bool:
        return bool(self._plans)

    def add(self, plan: Plan) -> None:
        canonical = plan.canonical
        self._plans.setdefault(canonical.variables[-1], {})[canonical.number] = plan
        self.renew()

    def remove(self, plan: Plan) -> None:
        canonical = plan.canonical
        left = self._plans[canonical.variables[-1]]
        del left[canonical.number]
        if not left:
            del self._plans[canonical.variables[-1]]
        self.renew()

    def renew(self) -> None:
        """Their subscribers have changed."""
        self._known.clear()

    def satisfied(self, layout: Layout) -> Satisfied:
        """What the documents of a layout satisfy."""
        found = self._known.get(layout)
        if found is None:
            if len(self._known) > _KNOWN:
                self._known.clear()
            nodes, regular = layout.nodes, layout.regular
            plans = [
                plan
                for variable in nodes
                if variable in self._plans
                for plan in self._plans[variable].values()
                if all(map(nodes.__contains__, plan.canonical.variables))
            ]
            found = self._known[layout] = Satisfied(
                [(plan, plan.single((layout,)) if regular else None) for plan in plans],
                [self._is_tap(plan.canonical) for plan in plans],
            )
        return found

    def _is_tap(self, canonical: Canonical) -> bool:
        """Whether all of its subscribers are taps."""
        names = self._taps.get(canonical.number, ())
        return len(names) == len(canonical.subscribers)

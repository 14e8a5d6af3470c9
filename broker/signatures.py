"""Signatures: which canonical queries does a pair of documents satisfy?

A *link* is a pair of variables that some query joins, the left block's first. Two documents agree
on a set of links, their *signature*; very many pairs have one of very few signatures. So what a
signature satisfies is worked out once and remembered. A query changes, and the memory is dropped.

What a pair must agree on for a query, or for two blocks of a longer one, is a `Need`. Queries with
different templates, windows or selected nodes may share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.plan import Plan

_REMEMBERED = 100_000

Part = frozenset[int]


@dataclass(slots=True, eq=False)
class Need:
    """Links that a pair must agree on, and for whom.

    `plans` are the queries that the signature decides, by operator; `templates` counts those for which a pair is a candidate only, by template.
    """

    links: Part
    plans: dict[str, dict[int, Plan]] = field(default_factory=dict)
    templates: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """What a signature satisfies: by operator the queries and their widest window, and the
    templates that have to decide. `narrowest` is the narrowest window of any of the queries."""

    kinds: tuple[tuple[str, tuple[Plan, ...], int], ...]
    templates: frozenset[int]
    narrowest: int


class Signatures:
    """The links of all queries, their needs, and the memory of verdicts.

    `right` maps a variable of the new document, taken as the right block, to the variables of an
    old one with which it makes a link; `left` the other way round.
    """

    def __init__(self) -> None:
        self.right: dict[int, dict[int, int]] = {}
        self.left: dict[int, dict[int, int]] = {}
        self.both_orders = 0
        """How many uses of needs hold in both orders of time: those of JOIN and of templates."""
        self.version = 0
        """Goes up whenever verdicts may have changed."""
        self._needs: dict[Part, Need] = {}
        self._by_link: dict[int, dict[Part, Need]] = {}
        self._uses: Counter[int] = Counter()
        self._pairs: dict[int, tuple[int, int]] = {}
        self._next = 1
        self._memory: dict[object, Verdict | None] = {}
        self._satisfiable: dict[Part, tuple[tuple[Part, Verdict], ...]] = {}

    # -- queries come and go -----------------------------------------------------------------

    def add(self, plan: Plan) -> None:
        """Let the signature decide a query of two blocks."""
        need = self._use(plan.pairs(), 1, plan.kind == "JOIN")
        need.plans.setdefault(plan.kind, {})[plan.canonical.number] = plan
        self.forget()

    def remove(self, plan: Plan) -> None:
        need = self._use(plan.pairs(), -1, plan.kind == "JOIN")
        del need.plans[plan.kind][plan.canonical.number]
        self._drop(need)

    def add_candidates(self, template: int, pairs: Iterable[tuple[int, int]]) -> None:
        """Report pairs of documents for two blocks of a query that its template decides."""
        need = self._use(pairs, 1, True)
        need.templates[template] += 1
        self.forget()

    def remove_candidates(self, template: int, pairs: Iterable[tuple[int, int]]) -> None:
        need = self._use(pairs, -1, True)
        need.templates[template] -= 1
        self._drop(need)

    def forget(self) -> None:
        """Drop the memory, since queries or windows have changed; it is worked out again."""
        self.version += 1
        self._memory.clear()
        self._satisfiable.clear()

    def _use(self, pairs: Iterable[tuple[int, int]], by: int, both_orders: bool) -> Need:
        """The need of a query that comes (1) or goes (-1)."""
        links = frozenset(self._link(u, v) for u, v in pairs)
        need = self._needs.get(links)
        if need is None:
            need = self._needs[links] = Need(links)
            # One link of it is enough to come upon it: the one that the fewest needs hang from.
            pivot = min(links, key=lambda link: len(self._by_link.get(link, ())))
            self._by_link.setdefault(pivot, {})[links] = need
        for link in links:
            self._uses[link] += by
        self.both_orders += by * both_orders
        return need

    def _link(self, left: int, right: int) -> int:
        link = self.right.setdefault(right, {}).get(left)
        if link is None:
            link = self._next
            self._next += 1
            self.right[right][left] = link
            self.left.setdefault(left, {})[right] = link
            self._pairs[link] = (left, right)
        return link

    def _drop(self, need: Need) -> None:
        self.forget()
        if any(need.plans.values()) or any(need.templates.values()):
            return
        del self._needs[need.links]
        for link in need.links:
            self._by_link.get(link, {}).pop(need.links, None)
            if not self._uses[link]:
                left, right = self._pairs.pop(link)
                del self._uses[link], self.right[right][left], self.left[left][right]
                self._by_link.pop(link, None)

    # -- what a signature satisfies ----------------------------------------------------------

    def verdict(self, part: Part, also: Part) -> Verdict | None:
        """The queries satisfied by the union of two sets of links that need something of `part`."""
        key = (part, also)
        if key in self._memory:
            return self._memory[key]
        if len(self._memory) > _REMEMBERED:
            self._memory.clear()
        needs = [n for n in self._within(part | also) if not n.links.isdisjoint(part)]
        found = self._memory[key] = _verdict(needs)
        return found

    def needs(self, available: Part) -> tuple[tuple[Part, Verdict], ...]:
        """Each set of links, among those available, that some query needs, and what it satisfies."""
        found = self._satisfiable.get(available)
        if found is None:
            if len(self._satisfiable) > _REMEMBERED:
                self._satisfiable.clear()
            verdicts = ((need.links, _verdict([need])) for need in self._within(available))
            found = tuple((links, verdict) for links, verdict in verdicts if verdict is not None)
            self._satisfiable[available] = found
        return found

    def _within(self, links: Part) -> list[Need]:
        return [
            need
            for link in links
            for need in self._by_link.get(link, {}).values()
            if need.links <= links
        ]


def _verdict(needs: list[Need]) -> Verdict | None:
    if not needs:
        return None
    by_kind: dict[str, list[Plan]] = {}
    for need in needs:
        for kind, plans in need.plans.items():
            by_kind.setdefault(kind, []).extend(plans.values())
    return Verdict(
        tuple((k, tuple(v), max(p.window for p in v)) for k, v in by_kind.items() if v),
        frozenset(t for need in needs for t, n in need.templates.items() if n),
        min((p.window for v in by_kind.values() for p in v), default=0),
    )

"""Signatures: which canonical queries does a pair of documents satisfy?

A *link* is a pair of variables that some query joins, the left block's first. Two documents agree
on a set of links, their *signature*; very many pairs have one of very few signatures. So the
queries that a signature satisfies are computed once and cached, until a query changes.

The links that a pair must agree on for a query, or for two blocks of a longer one, are a `Need`.
Queries with different templates, windows or selected nodes may share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from broker.join.pair_query import Plan
from xscl.compact import OneOrMany, Uses

_REMEMBERED = 100_000

Part = frozenset[int]
Links = tuple[int, ...]
"""The links of a need in order; a tuple takes a third of the memory of a set."""


class Need:
    """Links that a pair must agree on, and the queries that need them.

    `plans` are the queries that the signature decides; most needs have one. `templates` counts, by
    template, the queries that other documents decide too, for which a pair is only a candidate.
    """

    __slots__ = ("_plans", "links", "templates")

    def __init__(self, links: Links, plan: Plan | None = None) -> None:
        self.links = links
        self._plans: Plan | dict[int, Plan] | None = plan
        """As `_PLANS` holds them."""
        self.templates: Counter[int] | None = None

    @property
    def plans(self) -> Iterable[Plan]:
        return _PLANS.items(self._plans)

    def add(self, plan: Plan) -> None:
        self._plans = _PLANS.add(self._plans, plan)

    def remove(self, plan: Plan) -> None:
        self._plans = _PLANS.remove(self._plans, plan)

    def __bool__(self) -> bool:
        return bool(self._plans or self.templates)


_PLANS: OneOrMany[int, Plan] = OneOrMany(lambda plan: plan.canonical.number)
_NEEDS: OneOrMany[Links, Need] = OneOrMany(attrgetter("links"))


class _One(Mapping[int, int]):
    """A mapping of one variable to its link: a fifth of a dictionary, and most need no more."""

    __slots__ = ("link", "variable")

    def __init__(self, variable: int, link: int) -> None:
        self.variable = variable
        self.link = link

    def get(self, key: object, default: object = None) -> int | None:  # type: ignore[override]
        return self.link if key == self.variable else None

    def __getitem__(self, key: int) -> int:
        if key != self.variable:
            raise KeyError(key)
        return self.link

    def __contains__(self, key: object) -> bool:
        return key == self.variable

    def __iter__(self) -> Iterator[int]:
        return iter((self.variable,))

    def __len__(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """The queries that a signature satisfies: those that need the documents in order of time and
    those that do not, with their widest windows, and the templates for which more has to decide.
    `narrowest` is the narrowest window of any of the queries."""

    orders: tuple[tuple[bool, tuple[Plan, ...], int], ...]
    templates: frozenset[int]
    narrowest: int


class Signatures:
    """The links of all queries, their needs, and a cache of verdicts.

    `right` maps a variable of the new document, taken as the right block, to the variables of an
    old one with which it makes a link; `left` the other way round. A link is the two variables in
    one number, left << 32 | right.
    """

    def __init__(self) -> None:
        self.right: dict[int, Mapping[int, int]] = {}
        self.left: dict[int, Mapping[int, int]] = {}
        self.both_orders = 0
        """How many uses of needs hold in both orders of time: those of JOIN."""
        self.version = 0
        """Goes up whenever verdicts may have changed."""
        self._by_link: dict[int, Need | dict[Links, Need]] = {}
        """Needs, as `_NEEDS` holds them, each under one of its links: a look-up of the links of a
        signature then finds every need that it may satisfy."""
        self._uses: Uses[int] = Uses()
        """How many needs have a link."""
        self._memory: dict[object, Verdict | None] = {}
        self._satisfiable: dict[Part, tuple[tuple[Links, Verdict], ...]] = {}
        self._alone: dict[Need, Verdict | None] = {}

    # -- queries come and go -----------------------------------------------------------------

    def add(self, plans: Sequence[Plan]) -> None:
        """Let the signature decide queries of two blocks."""
        by_link, right, left = self._by_link, self.right, self.left
        for plan in plans:
            joins = plan.shape.joins
            self.both_orders += not plan.ordered
            if len(joins) == 1:
                ((a, b),) = joins
                variables = plan.canonical.variables
                one, other = variables[a], variables[b]
                link = one << 32 | other
                if link not in by_link and one not in left:
                    # Most are new, and need no more than this.
                    by_link[link] = Need((link,), plan)
                    left[one] = _One(other, link)
                    there = right.get(other)
                    if isinstance(there, dict):
                        there[one] = link
                    else:
                        _put(right, other, one, link)
                    continue
            self._need(plan.pairs()).add(plan)
        self.forget()

    def remove(self, plan: Plan) -> None:
        need = self._need(plan.pairs())
        need.remove(plan)
        self.both_orders -= not plan.ordered
        self._drop(need)

    def add_candidates(
        self, template: int, pairs: Iterable[tuple[int, int]], ordered: bool = False
    ) -> None:
        """Report pairs of documents as candidates for two blocks of a query that signatures do not
        decide; `ordered` if the left one ends before the right one starts."""
        need = self._need(pairs)
        if need.templates is None:
            need.templates = Counter()
        need.templates[template] += 1
        self.both_orders += not ordered
        self.forget()

    def remove_candidates(
        self, template: int, pairs: Iterable[tuple[int, int]], ordered: bool = False
    ) -> None:
        need = self._need(pairs)
        assert need.templates is not None
        need.templates[template] -= 1
        if not need.templates[template]:
            del need.templates[template]
        self.both_orders -= not ordered
        self._drop(need)

    def forget(self) -> None:
        """Clear the cache of verdicts, because queries or windows have changed."""
        self.version += 1
        self._memory.clear()
        self._satisfiable.clear()
        self._alone.clear()

    def _need(self, pairs: Iterable[tuple[int, int]]) -> Need:
        """The need of a query, made if it is new."""
        links = tuple({left << 32 | right for left, right in pairs})
        if len(links) > 1:
            links = tuple(sorted(links))
        by_link = self._by_link
        for link in links:
            there = by_link.get(link)
            found = None if there is None else _NEEDS.get(there, links)
            if found is not None:
                return found
        need = Need(links)
        for link in links:
            self._enter(link)
        # The link under which the fewest needs are.
        pivot = min(links, key=self._needs_under) if len(links) > 1 else links[0]
        by_link[pivot] = _NEEDS.add(by_link.get(pivot), need)
        return need

    def _needs_under(self, link: int) -> int:
        return _NEEDS.count(self._by_link.get(link))

    def _enter(self, link: int) -> None:
        """Count one more need that has this link."""
        left, right = link >> 32, link & 0xFFFF_FFFF
        there = self.right.get(right)
        if there is not None and left in there:
            self._uses.add(link)
        else:
            _put(self.right, right, left, link)
            _put(self.left, left, right, link)

    def _drop(self, need: Need) -> None:
        self.forget()
        if need:
            return
        for link in need.links:
            there = self._by_link.get(link)
            if there is not None and _NEEDS.remove(there, need) is None:
                del self._by_link[link]
            if self._uses.remove(link):
                left, right = link >> 32, link & 0xFFFF_FFFF
                _take(self.right, right, left)
                _take(self.left, left, right)

    # -- what a signature satisfies ----------------------------------------------------------

    def verdict(self, part: Part, also: Part) -> Verdict | None:
        """The queries that the union of two sets of links satisfies, of those that need at least
        one link of `part`."""
        key = (part, also)
        if key in self._memory:
            return self._memory[key]
        if len(self._memory) > _REMEMBERED:
            self._memory.clear()
        needs = [n for n in self._within(part | also) if not part.isdisjoint(n.links)]
        found = self._memory[key] = _verdict(needs)
        return found

    def needs(self, available: Part) -> tuple[tuple[Links, Verdict], ...]:
        """Each set of links, among those available, that some query needs, and what it
        satisfies."""
        found = self._satisfiable.get(available)
        if found is None:
            if len(self._satisfiable) > _REMEMBERED:
                self._satisfiable.clear()
            verdicts = ((need.links, self._of_one(need)) for need in self._within(available))
            found = tuple((links, verdict) for links, verdict in verdicts if verdict is not None)
            self._satisfiable[available] = found
        return found

    def _of_one(self, need: Need) -> Verdict | None:
        if need not in self._alone:
            self._alone[need] = _verdict([need])
        return self._alone[need]

    def _within(self, links: Part) -> list[Need]:
        found: list[Need] = []
        for link in links:
            needs = _NEEDS.items(self._by_link.get(link))
            found += [need for need in needs if links.issuperset(need.links)]
        return found


def _put(table: dict[int, Mapping[int, int]], variable: int, other: int, link: int) -> None:
    there = table.get(variable)
    if there is None:
        table[variable] = _One(other, link)
    elif isinstance(there, dict):
        there[other] = link
    else:
        table[variable] = {**there, other: link}


def _take(table: dict[int, Mapping[int, int]], variable: int, other: int) -> None:
    there = table[variable]
    if isinstance(there, dict):
        del there[other]
    if isinstance(there, _One) or not there:
        del table[variable]


def _verdict(needs: list[Need]) -> Verdict | None:
    if not needs:
        return None
    by_order: dict[bool, list[Plan]] = {}
    for need in needs:
        for plan in need.plans:
            by_order.setdefault(plan.ordered, []).append(plan)
    return Verdict(
        tuple((k, tuple(v), max(p.window for p in v)) for k, v in by_order.items()),
        frozenset(template for need in needs for template in need.templates or ()),
        min((p.window for v in by_order.values() for p in v), default=0),
    )

"""The steps by which long queries are searched, shared by all queries that begin alike.

A new document is the first of a combination, at each block that it may be in. A step leads from
documents that are placed to one more, which has a value of one of them; queries with the same joins
and the same order in time take it together. So of a thousand queries that differ in their third
block the first two are searched once, and of the thousand those go on whose third variable has the
value.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.join.long_query import Extension, LongPlan, orders_of

Join = tuple[int, int, int]
"""A value join: the place of a document, its variable and the variable of the next one."""

Joins = tuple[Join, ...]

ByVariable = dict[int, "list[Step]"]
"""Steps by the variable of the next document."""


class Step:
    """One more document, for the queries of some templates. It has the value of the join `lead`, by
    which it is found, and agrees in the other `joins`. `relations` are its order in time with each
    document that is placed, and `widths` the widest window of any query over both."""

    __slots__ = ("joins", "key", "lead", "leads_to", "relations", "templates", "widths")

    def __init__(self, lead: Join, key: tuple[Joins, tuple[int, ...]]) -> None:
        self.lead = lead
        self.key = key
        self.joins, self.relations = key
        self.widths: tuple[int, ...] = (0,) * len(self.relations)
        self.templates: frozenset[int] = frozenset()
        self.leads_to = Node()


class Node:
    """Documents are placed: the queries for which they are all, each with the place of each block,
    and the steps to the next one, by place, variable there and variable of the next."""

    __slots__ = ("complete", "steps")

    def __init__(self) -> None:
        self.complete: list[tuple[LongPlan, tuple[int, ...]]] = []
        self.steps: dict[int, dict[int, ByVariable]] = {}

    def __bool__(self) -> bool:
        return bool(self.complete or self.steps)


class Steps:
    """The steps of all long queries; `root` has those from a new document."""

    def __init__(self) -> None:
        self.root = Node()
        self._alone: dict[int, frozenset[int]] = {}
        """Most steps are for one template, of which there are few."""

    def add(self, plan: LongPlan) -> None:
        """Add a query, or widen its steps after its windows have changed."""
        template = plan.canonical.template
        alone = self._alone.setdefault(template, frozenset((template,)))
        every = plan.widths()
        for first, order in orders_of(plan.shape):
            node = self.root
            placed = [first]
            for extension in order:
                lead, key = _key(plan, extension)
                place, variable, other = lead
                steps = node.steps.setdefault(place, {}).setdefault(variable, {})
                own = steps.setdefault(other, [])
                step = next((each for each in own if each.key == key), None)
                if step is None:
                    step = Step(lead, key)
                    own.append(step)
                if template not in step.templates:
                    step.templates = step.templates | alone if step.templates else alone
                widths = [every[extension.block][block] for block in placed]
                step.widths = tuple(map(max, step.widths, widths))
                placed.append(extension.block)
                node = step.leads_to
            blocks = tuple(map(placed.index, range(plan.shape.blocks)))
            if (plan, blocks) not in node.complete:
                node.complete.append((plan, blocks))

    def remove(self, plan: LongPlan) -> None:
        for first, order in orders_of(plan.shape):
            placed = [first, *[extension.block for extension in order]]
            blocks = tuple(map(placed.index, range(plan.shape.blocks)))
            self._remove(self.root, plan, blocks, iter(order))

    def _remove(
        self, node: Node, plan: LongPlan, blocks: tuple[int, ...], order: Iterator[Extension]
    ) -> None:
        """Remove a query below a node, and the steps that lead to nothing any more."""
        extension = next(order, None)
        if extension is None:
            node.complete.remove((plan, blocks))
            return
        (place, variable, other), key = _key(plan, extension)
        by_place = node.steps[place]
        by_variable = by_place[variable]
        own = by_variable[other]
        step = next(each for each in own if each.key == key)
        self._remove(step.leads_to, plan, blocks, order)
        if step.leads_to:
            return
        own.remove(step)
        if not own:
            del by_variable[other]
        if not by_variable:
            del by_place[variable]
        if not by_place:
            del node.steps[place]


def _key(plan: LongPlan, extension: Extension) -> tuple[Join, tuple[Joins, tuple[int, ...]]]:
    """The join by which the documents of a step are found; and what else the step is known by, the
    other joins and the order in time."""
    variables = plan.canonical.variables
    joins = [(place, variables[a], variables[b]) for place, a, b in extension.joins]
    lead, *others = dict.fromkeys(joins)
    return lead, (tuple(others), extension.relations)

"""NOT: what could have stood in its place, looked for among all that has come.

In: a match of the other items of a unit. Out: whether nothing forbids it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from broker.pattern.instances import Arrived, Instance, common
from broker.pattern.plan import (
    Absence,
    Conjunct,
    Group,
    Item,
    Ordered,
    Together,
    Tree,
    Unit,
    Variant,
)
from broker.pattern.pool import PARTITION, Pool, Wanted
from broker.pattern.setting import Setting
from broker.pattern.timing import Span, Timing
from broker.pattern.values import Scope, path_text
from xscl import ast


class Absences:
    """The absences of a unit, and the matches of what they forbid; those that are not `allowed` do
    not count."""

    def __init__(self, unit: Unit, setting: Setting, allowed: Callable[[Instance], bool]) -> None:
        self.unit = unit
        self.setting = setting
        self._allowed = allowed
        self._absences = {each: (setting.unit(each.unit), Pool()) for each in unit.absences}
        for absence, (_, pool) in self._absences.items():
            for each in absence.conjuncts:
                for path, other in sides(each):
                    if (
                        path.variable in absence.variables
                        and other.variable not in absence.variables
                    ):
                        pool.index(path_text(path), path.variable or "")
            if setting.plan.query.partition:
                pool.index(PARTITION, "")

    def advance(self, arrived: Arrived, watermark: int | None) -> None:
        for source, pool in self._absences.values():
            pool.add(filter(self._allowed, source.advance(arrived, watermark)))

    def expire(self, horizon: int) -> None:
        for source, pool in self._absences.values():
            source.expire(horizon)
            pool.expire(horizon)

    def unblocked(
        self,
        variant: Variant,
        chosen: Mapping[Item, Instance],
        filled: Mapping[Group, Sequence[Instance]],
        instance: Instance,
    ) -> bool:
        """Whether no absence forbids a match, and all of them can be known."""
        trace = self.setting.trace
        for absence in variant.absences:
            early = self._reaches_back(variant, chosen, filled, absence, instance)
            by = [] if early else self._forbidden(variant, chosen, filled, absence, instance)
            if early or by:
                if trace is not None:
                    trace.block(instance, absence, by)
                return False
        return True

    def _forbidden(
        self,
        variant: Variant,
        chosen: Mapping[Item, Instance],
        filled: Mapping[Group, Sequence[Instance]],
        absence: Absence,
        instance: Instance,
    ) -> list[Instance]:
        """What is there and an absence forbids; nothing if there is less than its count."""
        _, pool = self._absences[absence]
        found: list[Instance] = []
        for each in pool.find(self._where(variant, chosen, absence, instance)):
            self.setting.spend()
            if not instance.keys.isdisjoint(each.keys):
                continue
            both = common(instance.tuples, each.tuples)
            if both is not None and not both:
                continue
            span = Span(each.start, each.end, each.first, each.last)
            if not self._fits(variant, chosen, filled, absence, span):
                continue
            scope = Scope(
                {**instance.single, **each.single},
                {**instance.several, **each.several},
                {**instance.computed, **each.computed},
                length=instance.span,
            )
            if all(one.holds(scope) for one in absence.conjuncts):
                found.append(each)
                if absence.count == 1:
                    return found
        return found if _count(found, absence) >= absence.count else []

    def _where(
        self,
        variant: Variant,
        chosen: Mapping[Item, Instance],
        absence: Absence,
        instance: Instance,
    ) -> Wanted:
        """Where in time what a NOT forbids can be at most, and by which value it is found."""
        ends, starts = _around(variant.tree, absence, chosen)
        after = max(ends, default=None)
        before = min(starts, default=None)
        extent = self.unit.extent
        if extent is not None:
            after = max(instance.last - extent - 1, -(2**62) if after is None else after)
            before = min(instance.first + extent + 1, 2**62 if before is None else before)
        for each in absence.conjuncts:
            for path, other in sides(each):
                name = other.variable or ""
                own = path.variable in absence.variables and path.variable not in instance.single
                if own and name in instance.single:
                    values = instance.single[name].values[path_text(other)]
                    return Wanted(after, before, path_text(path), values)
        if instance.tuples is not None:
            return Wanted(after, before, PARTITION, [*instance.tuples])
        return Wanted(after, before)

    def _fits(
        self,
        variant: Variant,
        chosen: Mapping[Item, Instance],
        filled: Mapping[Group, Sequence[Instance]],
        absence: Absence,
        span: Span,
    ) -> bool:
        timing = Timing(variant, self.unit.within, chosen, filled, inserted=(absence, span))
        return timing.span() is not None

    def _reaches_back(
        self,
        variant: Variant,
        chosen: Mapping[Item, Instance],
        filled: Mapping[Group, Sequence[Instance]],
        absence: Absence,
        instance: Instance,
    ) -> bool:
        """Whether an absence at the start or in a JOIN looks back to before the registration."""
        known = self.setting.registered
        if known is None or not _looks_back(variant.tree, absence, chosen, filled):
            return False
        if instance.first <= known:
            return True
        point = Span(known, known, known, known)
        return self._fits(variant, chosen, filled, absence, point)


def sides(each: Conjunct) -> Iterator[tuple[ast.Path, ast.Path]]:
    """The two paths of an equality of nodes, either way round."""
    if each.equal is not None:
        left, right = each.equal
        yield left, right
        yield right, left


def _count(found: Sequence[Instance], absence: Absence) -> int:
    """How many there are: documents, or composite matches each before the next."""
    if not absence.composite:
        return len(frozenset().union(*[each.keys for each in found]))
    number, end = 0, None
    for each in sorted(found, key=lambda one: one.end):
        if end is None or each.start > end:
            number, end = number + 1, each.end
    return number


def _around(
    tree: Tree, absence: Absence, chosen: Mapping[Item, Instance]
) -> tuple[list[int], list[int]]:
    """The ends of what must stand before an absence, and the starts of what must stand after it."""
    if not isinstance(tree, Ordered | Together):
        return [], []
    ends: list[int] = []
    starts: list[int] = []
    place = next((n for n, item in enumerate(tree.items) if _contains(item, absence)), None)
    if place is None:
        return [], []
    if isinstance(tree, Ordered):
        for item in tree.items[:place]:
            ends += [each.end for each in _chosen_in(item, chosen)]
        for item in tree.items[place + 1 :]:
            starts += [each.start for each in _chosen_in(item, chosen)]
    inner = _around(tree.items[place], absence, chosen)
    return ends + inner[0], starts + inner[1]


def _contains(tree: Tree, absence: Absence) -> bool:
    if isinstance(tree, Ordered | Together):
        return any(_contains(item, absence) for item in tree.items)
    return tree is absence


def _chosen_in(tree: Tree, chosen: Mapping[Item, Instance]) -> list[Instance]:
    if isinstance(tree, Ordered | Together):
        return [each for item in tree.items for each in _chosen_in(item, chosen)]
    return [chosen[tree]] if tree in chosen else []  # type: ignore[index]


def _looks_back(
    tree: Tree,
    absence: Absence,
    chosen: Mapping[Item, Instance],
    filled: Mapping[Group, Sequence[Instance]],
) -> bool:
    match tree:
        case Ordered():
            for item in tree.items:
                if item is absence:
                    return True
                if _present(item, chosen, filled):
                    break
            return any(
                _looks_back(item, absence, chosen, filled)
                for item in tree.items
                if not isinstance(item, Absence)
            )
        case Together():
            return any(
                item is absence or _looks_back(item, absence, chosen, filled) for item in tree.items
            )
    return False


def _present(
    tree: Tree, chosen: Mapping[Item, Instance], filled: Mapping[Group, Sequence[Instance]]
) -> bool:
    if isinstance(tree, Ordered | Together):
        return any(_present(item, chosen, filled) for item in tree.items)
    if isinstance(tree, Group):
        return bool(filled.get(tree))
    return tree in chosen

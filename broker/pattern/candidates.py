"""A choice of single items of a unit, and the match that it becomes with its groups filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.pattern.groups import Filling
from broker.pattern.instances import Instance, Part, Row, Tuples, several_of
from broker.pattern.plan import Conjunct, Group, Item, Variant
from broker.pattern.timing import Span, Timing
from broker.pattern.values import Scope


@dataclass(slots=True, eq=False)
class Candidate:
    """A choice of single items of a variant. `rest` are the conjuncts that its matches are still
    asked, `decided` the fillings of its groups that were decided, `begun` the first elements of
    those where there is one group with a greatest number."""

    variant: Variant
    rest: Sequence[Conjunct]
    chosen: dict[Item, Instance]
    keys: frozenset[int]
    tuples: Tuples
    decided: set[tuple[int, ...]] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)

    def decide(self, elements: tuple[int, ...]) -> None:
        """Note that a filling is decided: a run of so many elements does not change any more."""
        self.decided.add(elements)
        groups = self.variant.groups
        if elements and len(groups) == 1 and groups[0].most == len(elements):
            self.begun.add(elements[0])

    @property
    def unfilled(self) -> Filling:
        """Its groups, before one is filled."""
        return Filling({}, self.tuples, self.keys)

    def alone(self, span: Span, due: int) -> Instance:
        """The match of the single items, where there is no group."""
        return self._instance({}, self.tuples, self.keys, span, due)

    def filled(self, filling: Filling, timing: Timing) -> Instance | None:
        """The match with groups; None if an order or a window does not hold."""
        span = timing.span()
        return None if span is None else self._instance(*filling, span, timing.due)

    def _instance(
        self,
        filled: Mapping[Group, Sequence[Instance]],
        tuples: Tuples,
        keys: frozenset[int],
        span: Span,
        due: int,
    ) -> Instance:
        parts: dict[int, Part] = dict.fromkeys(self.variant.absent)
        single: dict[str, Row] = {}
        several: dict[str, Sequence[Row | None]] = {}
        computed: dict[str, object] = {}
        for each in self.chosen.values():
            parts.update(each.parts)
            single.update(each.single)
            several.update(each.several)
            computed.update(each.computed)
            due = max(due, each.due)
        for group, elements in filled.items():
            parts[group.slot] = tuple(elements)
            several.update(dict.fromkeys(group.variables, ()))
            several.update(several_of(elements))
            for each in elements:
                due = max(due, each.due)
        return Instance(*span, due, parts, keys, tuples, single, several, computed)

    def passes(self, instance: Instance) -> bool:
        """Whether a match of it is what the conjuncts ask that were not asked before."""
        if not self.rest:
            return True
        scope = Scope(instance.single, instance.several, instance.computed, length=instance.span)
        return all(each.holds(scope) for each in self.rest)


def identity(filling: Filling) -> tuple[int, ...]:
    """The elements of a filling, told apart by identity: they stay in their pools."""
    return tuple([id(e) for each in filling.filled.values() for e in each])

"""Groups: longest ones, and all combinations.

In: a choice of single items. Out: that choice with its groups filled, from left to right, in every way
that the strategy allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.oracle.part2 import naming, shape
from tests.oracle.part2.instances import Around, Instance, State, World, common, leaves, several
from tests.oracle.part2.scope import Bound, Scope
from tests.oracle.part2.times import Span, Timing, hull
from xscl import ast


def filled(world: World, unit: shape.Unit, state: State, around: Around) -> Iterator[State]:
    here = [group for group in unit.groups if any(e is group for e in leaves(state.branches))]

    def fill(at: int, state: State) -> Iterator[State]:
        if at == len(here):
            yield state
            return
        for each in _fillings(world, unit, here[at], state, around):
            yield from fill(at + 1, each)

    yield from fill(0, state)


def _fillings(
    world: World, unit: shape.Unit, group: shape.Group, state: State, around: Around
) -> Iterator[State]:
    filler = _Filler(world, unit, group, state, around)
    if world.combinations:
        yield from filler.combinations()
    elif len(list(leaves(state.branches))) == 1:
        yield from filler.alone()
    else:
        yield from filler.longest()


class _Filler:
    def __init__(
        self,
        world: World,
        unit: shape.Unit,
        group: shape.Group,
        state: State,
        around: Around,
    ) -> None:
        self.world, self.unit, self.group = world, unit, group
        self.state, self.around = state, around
        self.candidates = self._candidates()

    def _candidates(self) -> list[list[Instance]]:
        """The matches of an element, in order; those of the same documents are together."""
        group, world = self.group, self.world
        seen = Around({**self.around.single, **self._single()}, taken=frozenset(self.state.keys()))
        found: dict[tuple[object, ...], list[Instance]] = {}
        for instance in world.instances(group.unit, replace(seen, single={})):
            if self.state.shares(instance):
                continue
            found.setdefault(tuple(d.key for d in instance.documents()), []).append(instance)
        return sorted(found.values(), key=lambda same: same[0].order)

    def _single(self) -> dict[str, Bound]:
        single: dict[str, Bound] = {}
        for item in self.state.chosen.values():
            single.update(item.single())
        return single

    # -- taking --------------------------------------------------------------------------------

    def taken(
        self, before: Sequence[Instance], tuples: object, candidate: Sequence[Instance]
    ) -> tuple[Instance, object] | None:
        """The first of the candidate's nodes with which it can be taken behind these, and the
        common values of PARTITION BY."""
        for instance in candidate:
            if before and not self._behind(before[-1], instance):
                continue
            both = common(tuples, instance.tuples)  # type: ignore[arg-type]
            if both is not None and not both:
                continue
            if not self._fits([*before, instance]):
                continue
            if self._passes(before, instance):
                return instance, both
        return None

    def _behind(self, last: Instance, instance: Instance) -> bool:
        """Composite elements are each before the next; documents are in order, ties by id."""
        if len(last.documents()) == len(instance.documents()) == 1 and is_simple(self.group):
            return last.order < instance.order
        return last.span.end < instance.span.start

    def _fits(self, elements: Sequence[Instance]) -> bool:
        keys = [d.key for e in elements for d in e.documents()]
        if len(set(keys)) < len(keys):
            return False
        start = self.around.after
        if start is not None and not all(e.span.start > start for e in elements):
            return False
        state = self.state.with_group(self.group, elements, None)
        timing = Timing(self.unit, state.spans(), state.branches, filling=self.group)
        return timing.checked() is not None

    def _passes(self, before: Sequence[Instance], instance: Instance) -> bool:
        scope = self._scope(before, instance)
        for part in self.group.conjuncts:
            if naming.of_elements(part, self.group.variables):
                if not scope.holds(part):
                    return False
            elif not before and not self._first(part, instance):
                return False
        return True

    def _first(self, part: ast.Expr, instance: Instance) -> bool:
        """A conjunct that names the group by first() only, asked of the first element."""
        scope = self._scope([instance], instance)
        return replace(scope, current=None).holds(part)

    def _scope(self, before: Sequence[Instance], instance: Instance) -> Scope:
        single = {**self.around.single}
        others: dict[str, list[object]] = {}
        computed = dict(self.around.computed)
        for item in self.state.chosen.values():
            single.update(item.single())
            others.update(item.elements())  # type: ignore[arg-type]
            computed.update(item.computed)
        for elements in self.state.groups.values():
            others.update(several(elements))  # type: ignore[arg-type]
        own: dict[str, list[object]] = {name: [] for name in self.group.variables}
        own.update(several(before))  # type: ignore[arg-type]
        return Scope(
            self.world.namespaces,
            single,
            {**self.around.several, **others, **own},  # type: ignore[dict-item]
            computed,
            current=instance.single(),
            length=self._so_far([*before, instance]),
        )

    def _so_far(self, elements: Sequence[Instance]) -> int:
        """How long what stands before, and the elements, last."""
        place = self.unit.order.index(self.group)
        spans: list[Span | None] = [each.span for each in elements]
        for item in self.unit.order[:place]:
            if item in self.state.chosen:
                spans.append(self.state.chosen[item].span)
            elif isinstance(item, shape.Group):
                spans += [each.span for each in self.state.groups.get(item, ())]
        found = hull(spans)
        assert found is not None
        return found.length

    # -- longest -------------------------------------------------------------------------------

    def run(self, first: int) -> tuple[list[Instance], object] | None:
        """The run that begins with a candidate: each next one that passes, up to `most`."""
        elements: list[Instance] = []
        tuples: object = self.state.tuples
        for candidate in self.candidates[first:]:
            if len(elements) == self.group.most:
                break
            found = self.taken(elements, tuples, candidate)
            if found is not None:
                elements.append(found[0])
                tuples = found[1]
            elif not elements:
                return None
        return elements, tuples

    def longest(self) -> Iterator[State]:
        group = self.group
        begun = False
        for first in range(len(self.candidates)):
            found = self.run(first)
            if found is None:
                continue
            elements, tuples = found
            full = len(elements) == group.most
            if full or (not begun and len(elements) >= group.least):
                yield self.state.with_group(group, elements, tuples)  # type: ignore[arg-type]
            begun = True
            if group.most is None:
                break
        if not begun and group.least == 0:
            yield self.state.with_group(group, (), self.state.tuples)

    def alone(self) -> Iterator[State]:
        """A group that is the whole pattern: one from each possible first element, without those
        that others contain."""
        found: list[State] = []
        for first in range(len(self.candidates)):
            run = self.run(first)
            if run is None:
                continue
            elements, tuples = run
            if len(elements) < self.group.least:
                continue
            keys = {tuple(d.key for d in e.documents()) for e in elements}
            contained = any(
                keys < {tuple(d.key for d in e.documents()) for e in other.groups[self.group]}
                for other in found
            )
            if not contained:
                found.append(self.state.with_group(self.group, elements, tuples))  # type: ignore[arg-type]
        yield from found

    # -- all combinations ----------------------------------------------------------------------

    def combinations(self) -> Iterator[State]:
        group = self.group
        most = len(self.candidates) if group.most is None else group.most

        def choose(
            at: int, elements: list[Instance], tuples: object
        ) -> Iterator[tuple[list[Instance], object]]:
            if len(elements) >= group.least:
                yield elements, tuples
            if len(elements) == most:
                return
            for number in range(at, len(self.candidates)):
                found = self.taken(elements, tuples, self.candidates[number])
                if found is not None:
                    yield from choose(number + 1, [*elements, found[0]], found[1])

        for elements, tuples in choose(0, [], self.state.tuples):
            yield self.state.with_group(group, elements, tuples)  # type: ignore[arg-type]


def is_simple(group: shape.Group) -> bool:
    """Whether an element is a document: of a block, or of an OR of blocks."""
    tree = group.unit.tree
    branches = tree.branches if isinstance(tree, shape.Either) else [tree]
    return all(isinstance(each, shape.Leaf) for each in branches)

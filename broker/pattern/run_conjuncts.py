"""What is asked of runs: windows, and conjuncts as soon as what they name is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.pattern.instances import Instance, Row, of_row, several_of
from broker.pattern.live_runs import Run
from broker.pattern.plan import (
    Absence,
    Choice,
    Group,
    Item,
    Leaf,
    Ordered,
    Tree,
    Unit,
    Variant,
    Window,
)
from broker.pattern.timing import Timing
from broker.pattern.values import Scope

Place = Leaf | Choice | Group
"""What a run takes documents for: a block, one of several blocks, a group of these."""


class RunConjuncts:
    """The windows and conjuncts of a unit whose matches are runs. `trees` are its items, `items`
    those for which documents are taken."""

    def __init__(self, unit: Unit) -> None:
        tree = unit.tree
        self._unit = unit
        self._trees = tree.items if isinstance(tree, Ordered) else [tree]
        self._windows: list[tuple[Window, bool]] = [(None, False)]
        if isinstance(tree, Ordered):
            self._windows = tree.windows
        self.items: list[Place] = [i for i in self._trees if isinstance(i, Leaf | Choice | Group)]
        self.groups = [item for item in self.items if isinstance(item, Group)]

    def once(self, at: int) -> bool:
        """Whether the elements of a group are documents of which all is known when they are taken:
        the first branch and nodes that pass then are those that count."""
        group = self.items[at]
        if not isinstance(group, Group) or not group.simple:
            return False
        known = group.variables.union(*[_variables(item) for item in self.items[:at]])
        return all(each.names <= known for each in (*group.conjuncts, *group.first))

    def holds(self, run: Run, ended: bool = False) -> bool:
        """Whether windows hold so far, and all conjuncts that can be answered."""
        if (run.chosen or run.elements) and self.timing(run).span() is None:
            return False
        known = {name for leaf, _ in run.chosen for name in leaf.variables}
        known |= self._absent(run)
        for group in self.groups:
            if ended or group.slot in run.left:
                known |= group.variables
        asked = [each for each in self._unit.conjuncts if each.names <= known]
        if asked:
            scope = self._scope(run)
            if not all(each.holds(scope) for each in asked):
                return False
        if not all(self._elements_hold(run, group, known) for group in self.groups):
            return False
        if not ended:  # a group that is taken for complete may grow all the same
            run.asked = frozenset(known)
        return True

    def _elements_hold(self, run: Run, group: Group, known: set[str]) -> bool:
        """Whether the elements pass. What was asked of a run without its last document is not asked
        again: then only one element can be new."""
        elements = run.elements.get(group, ())
        for each in group.first:
            others = each.names - group.variables
            again = len(elements) > 1 and others <= run.asked
            if not elements or again or not others <= known:
                continue
            if not each.holds(self._scope(run, group, elements[:1])):
                return False
        for each in group.conjuncts:
            others = each.names - group.variables
            if not others <= known:
                continue
            new = max(0, len(elements) - 1) if others <= run.asked else 0
            for number in range(new, len(elements)):
                scope = self._scope(run, group, elements[:number], elements[number])
                if not each.holds(scope):
                    return False
        return True

    def _absent(self, run: Run) -> set[str]:
        """The variables of branches that were not taken."""
        taken = {id(leaf) for leaf, _ in run.chosen}
        return {
            name
            for item in self.items[: run.at]
            if isinstance(item, Choice)
            for leaf in leaves_of(item)
            if id(leaf) not in taken
            for name in leaf.variables
        }

    def _scope(
        self,
        run: Run,
        group: Group | None = None,
        before: Sequence[Instance] = (),
        current: Instance | None = None,
    ) -> Scope:
        single = {name: row for leaf, row in run.chosen for name in leaf.variables}
        several: dict[str, Sequence[Row | None]] = {}
        for each in self.groups:
            several.update(dict.fromkeys(each.variables, ()))
            several.update(several_of(run.elements.get(each, ())))
        times = [(row.start, row.end) for _, row in run.chosen]
        if group is None:
            times += [(e.start, e.end) for own in run.elements.values() for e in own]
        else:
            several.update(dict.fromkeys(group.variables, ()))
            several.update(several_of(before))
            place = self.items.index(group)
            earlier = {id(leaf) for item in self.items[:place] for leaf in leaves_of(item)}
            times = [(row.start, row.end) for leaf, row in run.chosen if id(leaf) in earlier]
            for other, own in run.elements.items():
                if self.items.index(other) < place:
                    times += [(e.start, e.end) for e in own]
            times += [(e.start, e.end) for e in before]
        if current is not None:
            times.append((current.start, current.end))
        length = max([e for _, e in times]) - min([s for s, _ in times]) if times else 0
        return Scope(single, several, {}, None if current is None else current.single, length)

    def variant(self, run: Run) -> Variant:
        """The list with the branches that a run has taken."""
        taken = {id(leaf) for leaf, _ in run.chosen}
        kept: list[Tree] = []
        absent: list[int] = []
        for item in self._trees:
            if isinstance(item, Choice):
                every = list(leaves_of(item))
                own = [leaf for leaf in every if id(leaf) in taken]
                kept.append((own or every)[0])
                absent += [leaf.slot for leaf in every if leaf is not kept[-1]]
            else:
                kept.append(item)
        absences = [item for item in self._trees if isinstance(item, Absence)]
        tree = Ordered(kept, self._windows)
        return Variant(tree, [], [*self.groups], absences, tuple(absent), frozenset())

    def timing(self, run: Run, variant: Variant | None = None) -> Timing:
        chosen: dict[Item, Instance] = {leaf: of_row(leaf.slot, row) for leaf, row in run.chosen}
        variant = variant or self.variant(run)
        return Timing(variant, self._unit.within, chosen, run.elements, free=True)


def _variables(item: Place) -> frozenset[str]:
    if isinstance(item, Group):
        return item.variables
    return frozenset[str]().union(*[leaf.variables for leaf in leaves_of(item)])


def leaves_of(item: Tree) -> Iterator[Leaf]:
    match item:
        case Leaf():
            yield item
        case Choice():
            for branch in item.branches:
                yield from leaves_of(branch)

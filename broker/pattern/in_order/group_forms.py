"""Patterns with a group between two blocks or at the end, as they are matched for many queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.pattern.equalities import classes, pair_of, pairs_of
from broker.pattern.in_order.asking import Asked, split
from broker.pattern.in_order.held import FOR_EVER, least
from broker.pattern.in_order.run_forms import Place, block_of
from broker.pattern.instances import Row
from broker.pattern.plan import Conjunct, Group, Leaf, Ordered, Unit


@dataclass(frozen=True, slots=True)
class Grouping:
    """`left FOLLOWED BY (element)+ FOLLOWED BY right`, or with another least number of elements;
    without `right` the group stands at the end, until its deadline. With a greatest number, which
    there is between two blocks only, each run of so many elements is one. `keys` are the variables
    whose values all of them have in common, None if there are none; `paired` are the conjuncts
    about the two around the group, `elements` those about an element, `first` those about the first
    one, and `whole` those about what the group is filled with. An element ends at most `window`
    after the start of the first document, and all of it `until` after that. `dependent`: some
    conjunct about elements names what comes behind them."""

    left: Leaf
    group: Group
    element: Leaf
    right: Leaf | None
    places: tuple[Place, ...]
    keys: tuple[str, ...] | None
    paired: Asked
    elements: tuple[Conjunct, ...]
    first: tuple[Conjunct, ...]
    whole: tuple[Conjunct, ...]
    window: int
    until: int
    dependent: bool
    partitioned: bool

    @property
    def name(self) -> str:
        return "a longest group" if self.group.most is None else "runs of a group"

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        found = (self.left, self.element)
        return found if self.right is None else (*found, self.right)

    def last(self, row: Row) -> int:
        """The latest end of a match that begins with a document."""
        return FOR_EVER if self.until == FOR_EVER else row.start + self.until


def grouping_of(unit: Unit, tree: Ordered, partitioned: bool) -> Grouping | None:
    """The form of a list; None for a pattern that is matched in the general way."""
    if not 2 <= len(tree.items) <= 3 or unit.absences:
        return None
    left, group = tree.items[:2]
    right = tree.items[2] if len(tree.items) > 2 else None
    if not isinstance(left, Leaf) or not isinstance(group, Group):
        return None
    if right is not None and not isinstance(right, Leaf):
        return None
    element = block_of(group)
    if element is None:
        return None
    if group.most is not None and (right is None or not _is_asked_alone(group)):
        return None
    if any(after for window, after in tree.windows if window is not None):
        return None
    if any(each.lasts for each in (*group.conjuncts, *group.first)):
        return None
    leaves = (left, element) if right is None else (left, element, right)
    keys = _keys(leaves, unit, group)
    agreed = frozenset(keys or ())
    behind = frozenset[str]() if right is None else right.variables
    around = left.variables | behind
    pairs = [c for c in unit.conjuncts if c.names <= around and not _is_agreed(c, agreed)]
    window, *last = [window for window, _ in tree.windows[1:]]
    elements = tuple([c for c in group.conjuncts if not _is_agreed(c, agreed)])
    return Grouping(
        *(left, group, element, right),
        tuple([_place(leaf, group if leaf is element else None) for leaf in leaves]),
        keys,
        split(pairs, left.variables, behind),
        elements,
        tuple(group.first),
        tuple([c for c in unit.conjuncts if not c.names <= around]),
        least(window) if last else least(window, unit.within),
        least(*last, unit.within) if last else least(window, unit.within),
        any(c.names & behind for c in (*elements, *group.first)),
        partitioned,
    )


def _is_asked_alone(group: Group) -> bool:
    """Whether no element depends on those that were taken before it."""
    return not group.first and all(each.of_nodes for each in group.conjuncts)


def _place(leaf: Leaf, group: Group | None = None) -> Place:
    return Place(leaf, group, 1, 1.0, FOR_EVER, ())


def _keys(leaves: Sequence[Leaf], unit: Unit, group: Group) -> tuple[str, ...] | None:
    """A variable of each block, all of which equalities make equal, whether the group has elements
    or not."""
    around = classes(pairs_of(unit.conjuncts))
    for names in classes(pairs_of([*unit.conjuncts, *group.conjuncts])):
        own = [sorted(names & leaf.variables) for leaf in leaves]
        if all(own):
            keys = tuple([each[0] for each in own])
            apart = {keys[0], *keys[2:]}
            if group.least or len(apart) < 2 or any(apart <= each for each in around):
                return keys
    return None


def _is_agreed(each: Conjunct, keys: frozenset[str]) -> bool:
    """Whether a conjunct says nothing beyond that values by which all are found are equal."""
    pair = pair_of(each)
    return pair is not None and keys.issuperset(pair)

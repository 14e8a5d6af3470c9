"""Patterns whose selection makes runs, as they are matched for many queries at once.

They are lists of blocks and of groups of one block, without OR, NOT and AFTER, whose matches are
all kept. Which documents a run may not skip is asked of those of all queries at once, as it does
not depend on their constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.instances import Filled
from broker.pattern.plan import Conjunct, Group, Item, Leaf, Ordered, Plan, Tree, Unit, Window


@dataclass(frozen=True, slots=True)
class Place:
    """An item of a list: one document of a block, or with a `group` `least` to `most` of them. With
    a document taken here a run lasts at most `limit` microseconds; `alone` are the conjuncts that
    each such document decides by itself."""

    leaf: Leaf
    group: Group | None
    least: int
    most: float
    limit: int
    alone: tuple[Conjunct, ...]


@dataclass(frozen=True, slots=True)
class Timed:
    """A conjunct that is asked when a run takes a document for the item `ready` or for one behind
    it, or at its end."""

    conjunct: Conjunct
    ready: int


@dataclass(frozen=True, slots=True)
class Running:
    """A list that runs take. `whole` are the conjuncts about runs, `each` those about the elements
    of a group, by its item, and `first` those about its first element. `contiguous` are the taps of
    the documents that a run may not skip."""

    selection: str
    unit: Unit
    places: tuple[Place, ...]
    whole: tuple[Timed, ...]
    each: tuple[tuple[Timed, ...], ...]
    first: tuple[tuple[Timed, ...], ...]
    contiguous: tuple[int, ...]
    partitioned: bool

    @property
    def name(self) -> str:
        return self.selection

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return tuple([place.leaf for place in self.places])


def running_of(plan: Plan, selection: str) -> Running | None:
    """The form of a plan whose selection makes runs; None if these are made by each query."""
    unit = plan.unit
    items: Sequence[Tree] = [unit.tree]
    windows: Sequence[tuple[Window, bool]] = [(None, False)]
    if isinstance(unit.tree, Ordered):
        items, windows = unit.tree.items, unit.tree.windows
    if unit.absences or any(after for window, after in windows if window is not None):
        return None
    conjuncts = [*unit.conjuncts, *[c for g in unit.groups for c in (*g.conjuncts, *g.first)]]
    if any(each.lasts for each in conjuncts):
        return None
    leaves = [_leaf(item) for item in items]
    known = [leaf for leaf in leaves if leaf is not None]
    if len(known) < len(leaves):
        return None
    groups = [item if isinstance(item, Group) else None for item in items]
    limits = [
        min([FOR_EVER, *[window for window in _behind(unit, windows, n) if window is not None]])
        for n in range(len(items))
    ]
    ready = _Ready(known, groups)
    places, each, first = [], [], []
    for number, (leaf, group) in enumerate(zip(known, groups, strict=True)):
        asked = unit.conjuncts if group is None else group.conjuncts
        alone = tuple([c for c in asked if c.names and c.names <= leaf.variables and c.of_nodes])
        least, most = (1, 1.0) if group is None else (group.least, group.most or float("inf"))
        places.append(Place(leaf, group, least, most, limits[number], alone))
        others = () if group is None else [c for c in group.conjuncts if c not in alone]
        each.append(tuple([ready.timed(c, leaf.variables) for c in others]))
        firsts = () if group is None else group.first
        first.append(tuple([ready.timed(c, leaf.variables) for c in firsts]))
    taken = {id(c) for place in places if place.group is None for c in place.alone}
    whole = tuple([ready.timed(c) for c in unit.conjuncts if id(c) not in taken])
    return Running(
        *(selection, unit, tuple(places), whole, tuple(each), tuple(first)),
        *(tuple(plan.contiguous), bool(plan.query.partition)),
    )


def _leaf(item: Item | Tree) -> Leaf | None:
    """The one block of an item; None for anything else."""
    if isinstance(item, Leaf):
        return item
    found = block_of(item) if isinstance(item, Group) else None
    return None if found is None or found.conjuncts else found


def slots_of(places: Sequence[Place]) -> list[Filled]:
    """What is filled by the documents of items."""
    found: list[Filled] = []
    for place in places:
        leaf, group = place.leaf, place.group
        slots = (leaf.slot, -1) if group is None else (group.slot, leaf.slot)
        found.append((*slots, leaf.variables))
    return found


def block_of(group: Group) -> Leaf | None:
    """The block whose documents are the elements of a group; None for anything else."""
    unit = group.unit
    if not group.simple or unit.conjuncts or unit.within is not None:
        return None
    return unit.tree if isinstance(unit.tree, Leaf) else None


def _behind(unit: Unit, windows: Sequence[tuple[Window, bool]], number: int) -> list[Window]:
    """The windows that hold for what there is up to an item."""
    return [unit.within, *[window for window, _ in windows[number:]]]


class _Ready:
    """At which item a conjunct can be asked: of a single document with it, of a group when it is
    left, which is with the next document for another item."""

    def __init__(self, leaves: Sequence[Leaf], groups: Sequence[Group | None]) -> None:
        self._of: dict[str, int] = {}
        for number, (leaf, group) in enumerate(zip(leaves, groups, strict=True)):
            for name in leaf.variables:
                self._of[name] = number if group is None else number + 1

    def timed(self, each: Conjunct, own: frozenset[str] = frozenset()) -> Timed:
        """A conjunct, about elements with `own` variables if there are any."""
        return Timed(each, max([self._of[name] for name in each.names - own], default=0))

"""The variants of a unit, with one branch of each OR, and how long a match of each may last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from broker.pattern.plan import (
    Absence,
    Choice,
    Group,
    Item,
    Judged,
    Leaf,
    Next,
    Ordered,
    Together,
    Tree,
    Unit,
    Variant,
    Window,
    leaves,
    slots_of,
)


def with_variants(unit: Unit) -> Unit:
    unit.variants = [_variant(unit, tree) for tree in _branches(unit.tree)]
    unit.extent = _least(_widest([_extent(each.tree) for each in unit.variants]), unit.within)
    unit.kept = _least(_widest([_kept(each.tree) for each in unit.variants]), unit.within)
    return unit


def _widest(bounds: Sequence[Window]) -> Window:
    return None if None in bounds else max([bound for bound in bounds if bound is not None])


def _branches(tree: Tree) -> Iterator[Tree]:
    """The tree with one branch of each OR, in every way."""
    match tree:
        case Choice():
            for branch in tree.branches:
                yield from _branches(branch)
        case Ordered():
            for items in product(*(list(_branches(item)) for item in tree.items)):
                yield Ordered([*items], tree.windows)
        case Together():
            for items in product(*(list(_branches(item)) for item in tree.items)):
                yield Together([*items], tree.windows)
        case _:
            yield tree


def _variant(unit: Unit, tree: Tree) -> Variant:
    here = leaves(tree)
    own = [item for item in unit.order if any(item is each for each in here)]
    singles = [item for item in own if not isinstance(item, Group)]
    absent = [s for item in unit.order if item not in own for s in slots_of(item)]
    places = {id(item): place for place, item in enumerate(singles)}
    before = {
        (places[id(a)], places[id(b)])
        for a, b in _in_order(tree)
        if id(a) in places and id(b) in places
    }
    return Variant(
        tree,
        singles,
        [item for item in own if isinstance(item, Group)],
        [each for each in unit.absences if any(each is one for one in here)],
        tuple(absent),
        frozenset(before),
    )


def _in_order(tree: Tree) -> Iterator[tuple[Item, Item]]:
    if not isinstance(tree, Ordered | Together):
        return
    for number, item in enumerate(tree.items):
        yield from _in_order(item)
        if isinstance(tree, Ordered):
            for other in tree.items[number + 1 :]:
                yield from product(leaves(item), leaves(other))


# -- how long a match may last -----------------------------------------------------------------


def _extent(tree: Tree) -> Window:
    """How long what a tree matches may last, its documents and those of absences."""
    match tree:
        case Judged():
            return tree.unit.extent
        case Next():
            return None if tree.after else tree.window
        case Ordered():
            extent = _extent(tree.items[0])
            for window, after in tree.windows[1:]:
                extent = None if after else window
            return extent
        case Together():
            extent = _extent(tree.items[0])
            for window in tree.windows[1:]:
                extent = window
            return extent
    return None  # also of a document, which may be a result that lasts


def _kept(tree: Tree) -> Window:
    """How long before the end of what a tree matches any of its documents may end."""
    match tree:
        case Leaf():
            return 0
        case Judged() | Absence():
            return tree.unit.kept
        case Next():
            return _sum(tree.left.kept, tree.window) if tree.after else tree.window
        case Ordered():
            kept = _kept(tree.items[0])
            for window, after in tree.windows[1:]:
                kept = _sum(kept, window) if after else window
            return kept
        case Together():
            kept = _kept(tree.items[0])
            for window in tree.windows[1:]:
                kept = window
            return kept
    return None


def _sum(*parts: Window) -> Window:
    return None if None in parts else sum([part for part in parts if part is not None])


def _least(*bounds: Window) -> Window:
    return min([bound for bound in bounds if bound is not None], default=None)

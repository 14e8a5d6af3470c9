"""Chains of NEXT, of any length: `((A NEXT {..} B) NEXT {..} C) …`, in which each operand at the
right is a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.pattern.in_order.asking import Asked, Bound, Number, split
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.instances import Row
from broker.pattern.plan import Conjunct, Leaf, Next, Unit, Window, only_block


@dataclass(frozen=True, slots=True)
class Link:
    """`NEXT {asked, window} right` behind the documents so far. `tied` is the place among them of
    the one that has the value of the tie, `places` are those of the ones that `asked.held` are read
    of. A match that lasts longer than `extent` satisfies a window behind no more."""

    right: Leaf
    asked: Asked
    tied: int
    places: tuple[int, ...]
    window: Window
    after: bool
    extent: Window

    def last(self, rows: Sequence[Row]) -> int:
        """The latest end of what may follow documents."""
        last = FOR_EVER if self.extent is None else rows[0].start + self.extent
        if self.after and self.window is not None:
            last = min(last, rows[-1].end + self.window)
        return last


@dataclass(frozen=True, slots=True)
class Following:
    """A block, and what is NEXT: `links`, one or more."""

    first: Leaf
    links: Sequence[Link]
    where: Sequence[Conjunct]
    partitioned: bool

    @property
    def name(self) -> str:
        return "NEXT" if len(self.links) == 1 else f"a chain of {len(self.links)} NEXT"

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return (self.first, *[link.right for link in self.links])


def following_of(unit: Unit, item: Next, partitioned: bool) -> Following | None:
    """The form of a pattern that is a NEXT, if its operands allow it."""
    chain = [item]
    while isinstance(inner := _only_next(chain[0].left), Next):
        chain.insert(0, inner)
    first = only_block(chain[0].left)
    rights = [only_block(each.right) for each in chain]
    leaves = [leaf for leaf in (first, *rights) if leaf is not None]
    if first is None or len(leaves) <= len(chain):
        return None
    links: list[Link] = []
    extent = unit.within
    for place, each in reversed([*enumerate(chain, 1)]):
        if each.window is not None and not each.after:
            extent = each.window if extent is None else min(extent, each.window)
        links.insert(0, _link(leaves[:place], leaves[place], each, extent))
    return Following(first, tuple(links), unit.conjuncts, partitioned)


def _only_next(unit: Unit) -> Next | None:
    """The NEXT that a unit is, and asks nothing more of."""
    if len(unit.variants) != 1 or unit.conjuncts or unit.within is not None:
        return None
    tree = unit.variants[0].tree
    return tree if isinstance(tree, Next) else None


def _link(lefts: Sequence[Leaf], right: Leaf, item: Next, extent: Window) -> Link:
    """A link, whose conjuncts are split by the one document before that they compare with."""
    tied, tie = 0, None
    bounds: list[Bound] = []
    held: list[Number] = []
    places: list[int] = []
    rest: list[Conjunct] = []
    for each in item.conjuncts:
        for place, left in enumerate(lefts):
            own = split([each], left.variables, right.variables)
            if own.tie is not None and tie is None:
                tied, tie = place, own.tie
                break
            if own.bounds:
                bounds += own.bounds
                held += own.held
                places.append(place)
                break
        else:
            rest.append(each)
    asked = Asked(tie, tuple(bounds), tuple(held), tuple(rest))
    return Link(right, asked, tied, tuple(places), item.window, item.after, extent)

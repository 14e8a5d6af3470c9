"""The choices of nodes for positions whose values are equal, in regular documents that agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

Alternative = dict[int, tuple[int | None, tuple[int, ...]]]
"""By position, the node that is chosen, if one is, and all nodes if they are compared."""

ByCode = dict[int, list[int]]
"""The nodes of a position by the code of their value."""


def common_codes(nodes: Sequence[ByCode]) -> set[int]:
    """The values that all positions have; 0 is none."""
    first, *others = nodes
    return {code for code in first if code and all(code in side for side in others)}


def how_many(positions: Sequence[int], nodes: Sequence[ByCode], selected: frozenset[int]) -> int:
    """The number of choices that `joined` gives."""
    if selected.isdisjoint(positions):
        return 1
    own = [side for p, side in zip(positions, nodes, strict=True) if p in selected]
    return sum([prod([len(side[code]) for side in own]) for code in common_codes(nodes)])


def joined(
    positions: Sequence[int], nodes: Sequence[ByCode], selected: frozenset[int]
) -> Iterator[Alternative]:
    """The choices of nodes at positions with one value: one for each selected node, nodes that are
    not selected together."""
    common = common_codes(nodes)
    if selected.isdisjoint(positions):
        ends = [tuple({n: None for code in common for n in side[code]}) for side in nodes]
        yield {p: (None, own) for p, own in zip(positions, ends, strict=True)}
        return
    for code in common:
        choices: list[list[tuple[int | None, tuple[int, ...]]]] = [
            [(node, (node,)) for node in side[code]]
            if p in selected
            else [(None, tuple(side[code]))]
            for p, side in zip(positions, nodes, strict=True)
        ]
        for chosen in product(*choices):
            yield dict(zip(positions, chosen, strict=True))

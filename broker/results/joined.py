"""Groups of variables of a query whose values are equal in each match."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=10_000)
def joined(
    variables: tuple[tuple[str, int], ...],
    positions: tuple[int, ...],
    joins: tuple[tuple[int, int], ...],
) -> tuple[tuple[str, ...], ...]:
    """The names of variables in groups that value joins connect, a group of two or more each.

    `variables` are names with the nodes of the join graph that they stand for, `positions` the
    template's positions of those nodes, `joins` pairs of positions.
    """
    group: dict[int, set[int]] = {}
    for a, b in joins:
        whole = group.get(a, {a}) | group.get(b, {b})
        group.update(dict.fromkeys(whole, whole))
    found: dict[int, list[str]] = {}
    for name, index in variables:
        together = group.get(positions[index])
        if together:
            found.setdefault(min(together), []).append(name)
    return _several(found.values())


def _several(groups: Iterable[list[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(names) for names in groups if len(names) > 1)

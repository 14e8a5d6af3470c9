"""Equalities of variables, and the classes of variables that they make equal."""

from __future__ import annotations

from collections.abc import Iterable

from broker.pattern.plan import Conjunct

Class = frozenset[str]
"""Variables whose values are equal."""


def pair_of(each: Conjunct) -> tuple[str, str] | None:
    """The two variables that a conjunct says to be equal; None if it says anything else."""
    if each.equal is None or any(path.steps or path.variable is None for path in each.equal):
        return None
    one, other = each.equal
    assert one.variable is not None
    assert other.variable is not None
    return one.variable, other.variable


def pairs_of(conjuncts: Iterable[Conjunct]) -> list[tuple[str, str]]:
    """The pairs of variables that conjuncts say to be equal."""
    return [pair for each in conjuncts if (pair := pair_of(each)) is not None]


def classes(pairs: Iterable[tuple[str, str]]) -> list[Class]:
    """The classes that pairs of equal variables make, each of at least two, in a fixed order."""
    found: list[Class] = []
    for one, other in pairs:
        apart = [each for each in found if one not in each and other not in each]
        whole = frozenset((one, other)).union(*[each for each in found if each not in apart])
        found = [*apart, whole]
    return sorted(found, key=sorted)

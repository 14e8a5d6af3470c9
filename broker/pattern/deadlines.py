"""Before which time no filling of a candidate's groups is decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.pattern.candidates import Candidate
from broker.pattern.instances import AT_ONCE, Instance, due_beyond, due_from
from broker.pattern.plan import Group, Item, Ordered, Together, Tree, Variant, leaves


def earliest(candidate: Candidate) -> int:
    """A time before which no filling of a candidate's groups is decided."""
    variant = candidate.variant
    if not _in_join(variant.tree):
        return due_from(max([each.start for each in candidate.chosen.values()]))
    if any(group.most is not None for group in variant.groups):
        return AT_ONCE
    return min(_earliest_joined(variant.tree, candidate.chosen))


def _earliest_joined(tree: Tree, chosen: Mapping[Item, Instance]) -> Iterator[int]:
    """For each group in a JOIN a time before its deadline, which is not before the end of anything
    up to it in its JOIN."""
    if not isinstance(tree, Ordered | Together):
        return
    for place, item in enumerate(tree.items):
        yield from _earliest_joined(item, chosen)
        if isinstance(tree, Together) and _has_group(item):
            inside = [leaf for each in tree.items[:place] for leaf in leaves(each)]
            ends = [chosen[leaf].last for leaf in inside if leaf in chosen]
            yield due_beyond(max(ends)) if ends else AT_ONCE


def decided_any_time(variant: Variant) -> bool:
    """Whether a candidate may become a match at any time before its deadline."""
    return _in_join(variant.tree) or any(group.most is not None for group in variant.groups)


def _in_join(tree: Tree) -> bool:
    """Whether a group stands in a JOIN."""
    if isinstance(tree, Together):
        return any(_has_group(item) for item in tree.items)
    return isinstance(tree, Ordered) and any(map(_in_join, tree.items))


def _has_group(tree: Tree) -> bool:
    if isinstance(tree, Ordered | Together):
        return any(map(_has_group, tree.items))
    return isinstance(tree, Group)

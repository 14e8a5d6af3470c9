"""The join operators of a pattern: a tree whose leaves are numbers of blocks.

Each operator is a class of its own. Windows are not part of the tree, as they differ between
subscriptions; they are kept in the order of `operators_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Join:
    """Both sides, in any order or at the same time."""

    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class FollowedBy:
    """The left side ends strictly before the right one starts."""

    left: Tree
    right: Tree


Operator = Join | FollowedBy
Tree = Operator | int


def operators_of(tree: Tree) -> Iterator[Operator]:
    """The operators of a pattern, each after its sides."""
    if not isinstance(tree, int):
        yield from operators_of(tree.left)
        yield from operators_of(tree.right)
        yield tree


def blocks_of(tree: Tree) -> list[int]:
    """The numbers of the blocks below an operator, in pattern order."""
    if isinstance(tree, int):
        return [tree]
    return blocks_of(tree.left) + blocks_of(tree.right)

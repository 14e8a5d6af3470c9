"""Candidates, the output of the search, and the check whether one is a subscriber's match.

A candidate is a combination of documents and nodes that a canonical query finds. The search looks
for the widest window of any subscriber, so each subscriber's own windows are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import le
from typing import Protocol

from broker.query.canonical import Canonical, Subscription
from xscl.normal.operators import Tree, blocks_of, operators_of
from xscl.normal.template import Template


class Chosen:
    """The nodes of a candidate by position: `nodes` where one is selected, else None, and in
    `lists` all of those that are compared. Most candidates of a query have it in common, so what
    is derived of it is derived once."""

    __slots__ = ("_compared", "_is_known", "lists", "nodes")

    def __init__(self, nodes: tuple[int | None, ...], lists: dict[int, tuple[int, ...]]) -> None:
        self.nodes = nodes
        self.lists = lists
        self._compared: Compared | None = None
        self._is_known = False

    def at(self, position: int) -> tuple[int, ...]:
        """All nodes at a position in this match."""
        node = self.nodes[position]
        return self.lists.get(position, ()) if node is None else (node,)

    def compared(self, canonical: Canonical, shape: Template) -> Compared | None:
        """The nodes whose texts the joins of its canonical query compare; None if there are several
        on a side, or something is computed of them."""
        if not self._is_known:
            self._is_known = True
            blocks, values = shape.nodes, canonical.values
            found = [(blocks[a][0], self.at(a), blocks[b][0], self.at(b)) for a, b in shape.joins]
            plain = all(values[p] is None for pair in shape.joins for p in pair)
            if plain and all(len(left) == len(right) == 1 for _, left, _, right in found):
                self._compared = tuple([(a, left[0], b, right[0]) for a, left, b, right in found])
        return self._compared


Compared = tuple[tuple[int, int, int, int], ...]
"""For each value join its two nodes, each behind the block that it is in."""


class Candidate:
    """A combination that satisfies a canonical query: documents by block, and their nodes."""

    __slots__ = ("chosen", "docs")

    def __init__(self, docs: tuple[int, ...], chosen: Chosen) -> None:
        self.docs = docs
        self.chosen = chosen


Found = tuple[Canonical, Candidate]


class Timed(Protocol):
    """Anything with an interval."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def lengths(shape: Template, documents: Sequence[Timed]) -> list[int]:
    """The durations that windows bound, in microseconds: of each operator, then of the whole."""
    if shape.blocks == 2:
        one, other = documents
        end = one.end if one.end > other.end else other.end
        whole = end - (one.start if one.start < other.start else other.start)
        return [whole, whole]
    found = [
        max([documents[b].end for b in blocks]) - min([documents[b].start for b in blocks])
        for blocks in _below_each(shape.operators)
    ]
    # The last operator has all blocks below it, and where there is none there is one block.
    return [*found, found[-1]] if shape.blocks > 1 else found


@lru_cache(maxsize=1_000)
def _below_each(tree: Tree) -> list[list[int]]:
    """The blocks below each operator of a pattern; for a pattern of one block, that block."""
    return [blocks_of(operator) for operator in operators_of(tree)] or [blocks_of(tree)]


def admitted(
    canonical: Canonical, base: int, lasting: list[int]
) -> Sequence[Sequence[Subscription]]:
    """The subscribers whose match a candidate is, in groups that share it; see `admits`."""
    alone = canonical.alone
    if alone is not None:
        return ((alone,),) if admits(alone, base, lasting) else ()
    found = []
    for audience in canonical.audiences():
        if all(map(le, lasting, audience.windows)):
            group = audience.since(base)
            if group:
                found.append(group)
    return found


def admits(subscription: Subscription, base: int, lasting: list[int]) -> bool:
    """Whether a candidate is within this subscriber's own windows and after its registration. The
    search only checks the widest window and the earliest registration of all subscribers."""
    if base < subscription.first_doc:
        return False
    windows = subscription.windows
    if len(windows) == 2 == len(lasting):
        return lasting[0] <= windows[0] and lasting[1] <= windows[1]
    return all(map(le, lasting, windows))

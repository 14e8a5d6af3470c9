"""Candidates, the output of the search, and the check whether one is a subscriber's match.

A candidate is a combination of documents and nodes that a canonical query finds. The search looks
for the widest window of any subscriber, so each subscriber's own windows are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import le
from typing import NamedTuple, Protocol

from broker.query.canonical import Canonical, Subscription
from xscl.normal.operators import Tree, blocks_of, operators_of
from xscl.normal.template import Template


class Candidate(NamedTuple):
    """A combination that satisfies a canonical query: documents by block, nodes by position."""

    docs: tuple[int, ...]
    nodes: tuple[int | None, ...]
    lists: dict[int, tuple[int, ...]]

    def at(self, position: int) -> tuple[int, ...]:
        """All nodes at a position in this match."""
        node = self.nodes[position]
        return self.lists.get(position, ()) if node is None else (node,)


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
        whole = max(one.end, other.end) - min(one.start, other.start)
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
    return base >= subscription.first_doc and all(map(le, lasting, subscription.windows))

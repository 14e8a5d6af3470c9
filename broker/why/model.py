"""What is told about a query, as plain data: a box for each block, an edge for each pair of blocks.

Times are in microseconds. Blocks are numbered from 0, in the order of the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Failing = Literal["join", "order", "window", "predicate"]


@dataclass(frozen=True, slots=True)
class Fell:
    """How many documents passed all conditions before this one and not this one, some of their
    ids, and what to write instead, if that is known. `place` is its index among the conditions."""

    place: int
    condition: str
    documents: int
    examples: tuple[str, ...]
    hint: str | None


@dataclass(frozen=True, slots=True)
class BlockCount:
    """A block: how many stored documents flow through its stream, how many passed, and at which
    conditions the others failed. `conditions` are all of them, in order."""

    number: int
    block: str
    stream: str
    conditions: tuple[str, ...]
    documents: int
    passed: int
    fell: tuple[Fell, ...]
    hint: str | None


@dataclass(frozen=True, slots=True)
class Equality:
    """A value join, and how many pairs of documents agree on it alone; at least, if not `exact`."""

    text: str
    pairs: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A pair of documents that came far: what failed first, and what there is instead."""

    left: str
    right: str
    failed: Failing
    values: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class JoinCount:
    """The edge between two blocks: of the pairs of different documents that pass the blocks, how
    many `agree` in all equalities, are then in `ordered`, then `within` the window, and then
    `passed` the other predicates between the two. `window` is the narrowest that both are in; None
    for none. `exact` is false if the bound on pairs was reached: then these are the least."""

    left: int
    right: int
    operator: Literal["JOIN", "FOLLOWED BY"]
    equalities: tuple[Equality, ...]
    predicates: tuple[str, ...]
    window: int | None
    agree: int
    ordered: int
    within: int
    passed: int
    near: tuple[NearMiss, ...]
    hint: str | None
    exact: bool = True


@dataclass(frozen=True, slots=True)
class WholeCount:
    """Combinations of a document for each block: `joined` satisfy all predicates, `ordered` also
    the order, `matched` also the windows; `counted` of these came after the registration, outside
    of gaps; None if the query is not registered."""

    joined: int
    ordered: int
    matched: int
    counted: int | None
    examples: tuple[tuple[str, ...], ...]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is told of a query. `sentence` says the most important thing, `lines` all of it in
    words. `documents` were looked at, of `stored`."""

    query: str
    text: str
    sentence: str
    lines: tuple[str, ...]
    blocks: tuple[BlockCount, ...]
    joins: tuple[JoinCount, ...]
    whole: WholeCount
    documents: int
    stored: int
    status: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many documents are looked at, the newest; and at most so many pairs of rows for
    each join."""

    documents: int = 50_000
    pairs: int = 500_000

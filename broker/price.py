"""The price of a query: how many candidates its joins are expected to make in a day.

In: a compiled query, and what is known of the streams that it reads. Out: an estimate, by the rates
of streams, the shares of documents that have the paths, windows, and how many values differ at what
joins. Filters that compare are not counted, so it is an upper estimate of what is searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from broker.model import UNBOUNDED
from broker.query.prepared import Compiled
from broker.statistics.model import PathSeen, StreamSeen
from xscl.normal.operators import FollowedBy, operators_of
from xscl.normal.treepattern import PatternNode, TreePattern

MANY = 1_000_000
"""Candidates a day from which on a query is dear."""

_DAY = 86_400 * 1_000_000

Find = Callable[[str], StreamSeen | None]
"""What is known of a stream, with its most frequent values."""


@dataclass(frozen=True, slots=True)
class Price:
    """`candidates` a day are expected of a query. `documents` a day have the paths of each block.
    `grows`: without a window there are more each day; the candidates are those of a day in which as
    many documents are stored as now. `unjoined`: no value join connects some block."""

    candidates: float
    documents: tuple[float, ...]
    grows: bool
    unjoined: bool


def price(query: Compiled, find: Find) -> Price | None:
    """The price of a query; None if it is an event pattern, whose growth the plan tells, or reads a
    stream of which nothing is known."""
    if query.own_pattern is not None:
        return None
    normal = query.passes().normal
    streams = [find(block.stream) for block in normal.blocks]
    windows = query.shape.windows(query.literals)
    operators = [*operators_of(normal.operators)]
    rates: list[float] = []
    candidates = 0.0
    grows = unjoined = False
    for place, (block, seen) in enumerate(zip(normal.blocks, streams, strict=True)):
        if seen is None:
            return None
        share = _share(block, seen)
        rates.append(seen.per_day * share)
        if not place:
            candidates = rates[0]
            continue
        window = min(windows[place - 1], windows[-1])
        grows = grows or window >= UNBOUNDED
        stored = seen.documents * share
        around = stored if window >= UNBOUNDED else rates[-1] * window / _DAY
        sides = 1 if isinstance(operators[place - 1], FollowedBy) else 2
        candidates *= min(sides * around, stored)
        joins = [(a, b) for a, b in normal.joins if (_in(a, block)) != (_in(b, block))]
        unjoined = unjoined or not joins
        for a, b in joins:
            candidates *= _selectivity(*(_seen(n, normal.blocks, streams) for n in (a, b)))
    return Price(candidates, (*rates,), grows, unjoined)


def _in(node: PatternNode, block: TreePattern) -> bool:
    return any(node is each for each in block.nodes)


def _share(block: TreePattern, seen: StreamSeen) -> float:
    """The share of a stream's documents that have all paths of a block, at most."""
    counts = [sum(p.documents for p in _paths(node, seen)) for node in block.nodes]
    return min([1.0, *(count / seen.documents for count in counts)])


def _seen(
    node: PatternNode, blocks: list[TreePattern], streams: list[StreamSeen | None]
) -> PathSeen | None:
    """The most frequent label path of a node."""
    for block, seen in zip(blocks, streams, strict=True):
        if seen is not None and _in(node, block):
            return max(_paths(node, seen), key=lambda each: each.documents, default=None)
    return None


def _paths(node: PatternNode, seen: StreamSeen) -> list[PathSeen]:
    """The label paths that a node of a pattern may have."""
    expression = ""
    at: PatternNode | None = node
    while at is not None:
        if at.step is not None and at.step.test.kind in ("element", "attribute"):
            mark = "@" if at.step.test.kind == "attribute" else ""
            name = re.escape(at.step.test.name) if at.step.test.name else "[^/@]+"
            between = "/" if at.step.axis == "/" else "/(?:[^/]+/)*"
            expression = f"{between}{mark}{name}{expression}"
        at = at.parent
    known = re.compile(expression)
    return [each for each in seen.paths if known.fullmatch(each.path)]


def _selectivity(left: PathSeen | None, right: PathSeen | None) -> float:
    """The share of pairs of documents that have a value in common, if values are independent."""
    if left is None or right is None:
        return 1.0
    sides = [dict(path.values) for path in (left, right)]
    sizes = [max(1, path.sampled) for path in (left, right)]
    common = sides[0].keys() & sides[1].keys()
    frequent = sum(sides[0][v] / sizes[0] * sides[1][v] / sizes[1] for v in common)
    rest = [
        1 - sum(side[v] for v in common) / size for side, size in zip(sides, sizes, strict=True)
    ]
    others = max(_distinct(left), _distinct(right)) - len(common)
    return min(1.0, frequent + max(0.0, rest[0]) * max(0.0, rest[1]) / max(1.0, others))


def _distinct(path: PathSeen) -> float:
    """About how many values differ among all documents: as many more as there are documents, the
    more so the rarer values are repeated in the sample."""
    sampled = max(1, path.sampled)
    more: float = max(1.0, path.documents / sampled) ** min(1.0, path.distinct / sampled)
    return path.distinct * more

"""Where the documents of a query go, and which shard makes a match of them.

Each canonical query has a route. Its *pivot* is a value join: of the blocks that the pivot reaches,
a document goes to the shards of its pivot values; of all other blocks it goes to every shard. So
all documents of a match meet in the shard of each value that they have in common, and the smallest
of these says whose the match is. Where no value joins blocks, the documents of one block are
divided by their numbers, and those of the others go everywhere.

Values are codes of 64 bits that are hashes already. They fall into buckets, and buckets to shards,
so that the number of shards may change while the buckets stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from broker.join.pair_query import decider
from broker.query.canonical import Canonical
from broker.query.catalog import Catalog
from broker.query.patterns import TAP
from xscl.normal.template import Template

BITS = 12
BUCKETS = 1 << BITS
"""Buckets of values, and the most shards that there may be."""

_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

Rarity = Callable[[int], float]
"""Of a variable, how many documents share a value with a new one, about; unknown ones are 0."""


def shard_of_value(code: int, shards: int) -> int:
    """The shard of a value, given by its code."""
    return (code >> (64 - BITS)) % shards


def shard_of_document(doc: int, shards: int) -> int:
    """The shard of a document that is divided by its number."""
    return ((doc * _MIX & _MASK) >> (64 - BITS)) % shards


class Part(NamedTuple):
    """Documents of a block: those that have the variable `trigger`, and which edges of the query
    they bring along. They go by the `value` of the trigger, by their `document` number, or to
    `every` shard."""

    block: int
    by: Literal["value", "document", "every"]
    trigger: int
    edges: tuple[int, ...]


class Route(NamedTuple):
    """The parts of a query, one for each block."""

    parts: tuple[Part, ...]

    @property
    def pivots(self) -> tuple[Part, ...]:
        """The parts that decide who owns a match."""
        return tuple([part for part in self.parts if part.by != "every"])


def route(canonical: Canonical, shape: Template, rarity: Rarity) -> Route | None:
    """The route of a query; None if a block has nothing that its documents are known by.

    The pivot reaches as many blocks as possible, and of several such, that whose values are
    rarest is taken.
    """
    # Documents of blocks that no value joins connect may be in the relations only, so who owns a
    # match is told by their numbers.
    pivot = {} if decider(shape) == "scan" else _pivot(canonical, shape, rarity)
    parts: list[Part] = []
    for block in range(shape.blocks):
        edges = _edges(canonical, shape, block)
        trigger = _trigger(canonical, shape, block)
        if trigger is None:
            return None
        if block in pivot:
            parts.append(Part(block, "value", pivot[block], edges))
        elif not pivot and block == 0:
            parts.append(Part(block, "document", trigger, edges))
        else:
            parts.append(Part(block, "every", trigger, edges))
    return Route(tuple(parts))


def _pivot(canonical: Canonical, shape: Template, rarity: Rarity) -> dict[int, int]:
    """The pivot's variable in each block that it reaches, none if there is no value join."""
    best: tuple[tuple[float, ...], dict[int, int]] | None = None
    for positions in _classes(shape):
        of_block: dict[int, int] = {}
        for position in sorted(positions):
            of_block.setdefault(shape.nodes[position][0], canonical.variables[position])
        shared = 1.0
        for variable in of_block.values():
            shared *= rarity(variable)
        order = (-len(of_block), shared, *sorted(of_block.values()))
        if best is None or order < best[0]:
            best = (order, of_block)
    return {} if best is None else best[1]


def _classes(shape: Template) -> list[set[int]]:
    """Positions whose values are equal in each match, of several blocks."""
    joins = [(a, b) for a, b in shape.joins if shape.nodes[a][0] != shape.nodes[b][0]]
    found: list[set[int]] = []
    for a, b in joins:
        apart = [each for each in found if a not in each and b not in each]
        whole = {a, b}.union(*[each for each in found if a in each or b in each])
        found = [*apart, whole]
    return found


def _block(shape: Template, tie: tuple[int, int | None, bool, bool]) -> int | None:
    """The block of an edge; None for one of a quantified path that has no parent."""
    position, above, _, _ = tie
    size = len(shape.nodes)
    if position < size:
        return shape.nodes[position][0]
    return None if above is None or above >= size else shape.nodes[above][0]


def _edges(canonical: Canonical, shape: Template, block: int) -> tuple[int, ...]:
    pairs = zip(canonical.ties, canonical.edges, strict=True)
    return tuple([edge for tie, edge in pairs if _block(shape, tie) in (block, None)])


def _trigger(canonical: Canonical, shape: Template, block: int) -> int | None:
    """A variable that each document of a block has a row of."""
    for position, *_ in canonical.ties:
        if position < len(shape.nodes) and shape.nodes[position][0] == block:
            return canonical.variables[position]
    return None


def reason_to_stay(
    canonical: Canonical, catalog: Catalog, limited: Callable[[int], bool]
) -> str | None:
    """Why a query has to be matched in one place, by the coordinator; None if it need not be.
    `limited` says of a subscription's number whether it has a limit."""
    if canonical.number in catalog.taps:
        return "it is a block of an event pattern"
    for number, each in canonical.subscribers.items():
        if each.pattern is not None:
            return "an event pattern waits in one place"
        if number < 0:
            return "it stands in the FROM of a query" if TAP not in each.id else "a pattern's block"
        if each.publish is not None and catalog.read[each.publish]:
            return f"other queries read its results, {each.publish}"
        if not catalog.published.keys().isdisjoint(each.delivery.streams):
            return "it reads the results of other queries"
        if limited(number):
            return "its matches are counted, as it has a limit"
    return None

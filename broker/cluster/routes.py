"""Where the documents of a query go, and which shard makes a match of them.

Each canonical query has a route. Its *pivot* is a value join: of the blocks that the pivot reaches,
a document goes to the shards of its pivot values; of all other blocks it goes to every shard. So
all documents of a match meet in the shard of each value that they have in common, and the smallest
of these says whose the match is. Where no value joins blocks, the documents of one block are
divided by their numbers, and those of the others go everywhere.

Where two joins reach more blocks than one, as in A.a = B.a and B.b = C.b, the shards form a *grid*:
a value of the first join is a row of it, one of the second a column. A goes to the row of its a, C
to the column of its c, and B to the cell of both, which is where the match is made.

A *hot* value is one of very many documents, which would all go to one shard. It has a square of
several shards, and its documents go by their numbers: those of the pivot's first block to a row of
the square, those of the second to a column, and those of further blocks to all of it. The side of
the square goes with how many they are.

Values are codes of 64 bits that are hashes already. They fall into buckets, and buckets to shards,
so that the number of shards may change while the buckets stay.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import permutations
from math import isqrt, prod
from typing import Literal, NamedTuple

from broker.join.pair_query import decider
from broker.query.canonical import Canonical
from broker.query.catalog import Catalog
from broker.query.patterns import TAP
from broker.standing.live import tap_names
from xscl.normal.template import Template

BITS = 12
"""Bits of the number of a bucket: values fall into 4,096 of them, and there may be as many
shards."""

MIX = 0x9E3779B97F4A7C15
HALF = 32
"""Bits of a document's mixed number that do not count where it goes to a row or column."""
_MASK = (1 << 64) - 1

Rarity = Callable[[int], float]
"""Of a variable, how many documents share a value with a new one, about; unknown ones are 0."""


Way = Literal["value", "row", "column", "cell", "document", "key", "home", "every"]


class Grid(NamedTuple):
    """All shards in rows and columns, as square as can be; a few may be left over."""

    rows: int
    columns: int

    @classmethod
    def of(cls, shards: int) -> Grid:
        rows = isqrt(shards)
        return cls(rows, shards // rows)

    def cell(self, row: int, column: int) -> int:
        """The shard of the values, given by their codes, that are its row and its column."""
        return bucket(row) % self.rows * self.columns + bucket(column) % self.columns


def bucket(code: int) -> int:
    return code >> (64 - BITS)


def shard_of_value(code: int, shards: int) -> int:
    """The shard of a value, given by its code."""
    return bucket(code) % shards


def shard_of_document(doc: int, shards: int) -> int:
    """The shard of a document that is divided by its number."""
    return (_mixed(doc) >> (64 - BITS)) % shards


def shard_of_hot(code: int, side: int, first: int, second: int, shards: int) -> int:
    """The shard of a hot value where the documents of the pivot's first two blocks meet."""
    row, column = (_mixed(first) >> HALF) % side, (_mixed(second) >> HALF) % side
    return (bucket(code) + row * side + column) % shards


def side_of(documents: int, share: float, shards: int) -> int:
    """The side of the square of a value that is in so many documents, where `share` is what a
    shard would get of all; 1 if it is not hot."""
    side = 1
    while 4 * side * side <= shards and documents > share * side / 2:
        side *= 2
    return side


def _mixed(doc: int) -> int:
    return doc * MIX & _MASK


class Part(NamedTuple):
    """Documents of a block: those that have the variable `trigger`, and which edges of the query
    they bring along.

    By `value` they go to the shards of the values of the trigger, if one is hot to a row of its
    square, a column, or every shard of it, as `hot` says. By `row` or `column` they go to those of
    the trigger's values, by `cell` to the cells of these and of the values of `second`. Those of
    event patterns go by their `key`, to the shards of the trigger's values though one be hot, or to
    the `home` of the pattern, which is the bucket `second`. Others go by the `document` number, or
    to `every` shard.
    """

    block: int
    by: Way
    trigger: int
    edges: tuple[int, ...]
    second: int = 0
    hot: Literal["row", "column", "every"] = "every"


class Route(NamedTuple):
    """The parts of a query, one for each block."""

    parts: tuple[Part, ...]

    @property
    def pivots(self) -> tuple[Part, ...]:
        """The parts that decide who owns a match, in order of their blocks."""
        return tuple([part for part in self.parts if part.by != "every"])


def route(canonical: Canonical, shape: Template, rarity: Rarity, shards: int) -> Route | None:
    """The route of a query; None if a block has nothing that its documents are known by.

    The pivot, or the two of a grid, send documents to as few shards as possible, and of several
    such, those whose values are rarest are taken.
    """
    # Documents of blocks that no value joins connect may be in the relations only, so who owns a
    # match is told by their numbers.
    pivots = [] if decider(shape) == "scan" else _pivots(canonical, shape, rarity, shards)
    parts: list[Part] = []
    for block in range(shape.blocks):
        edges = edges_of_block(canonical, shape, block)
        trigger = trigger_of(canonical, shape, block)
        if trigger is None:
            return None
        reached = [of_block.get(block) for of_block in pivots]
        if not pivots and block == 0:
            parts.append(Part(block, "document", trigger, edges))
            continue
        match reached:
            case [int(variable)]:
                nth = sum(part.by == "value" for part in parts)
                parts.append(Part(block, "value", variable, edges, hot=_HOT[min(nth, 2)]))
            case [int(first), int(second)]:
                parts.append(Part(block, "cell", first, edges, second))
            case [int(first), None]:
                parts.append(Part(block, "row", first, edges))
            case [None, int(second)]:
                parts.append(Part(block, "column", second, edges))
            case _:
                parts.append(Part(block, "every", trigger, edges))
    return Route(tuple(parts))


_HOT: tuple[Literal["row", "column", "every"], ...] = ("row", "column", "every")


def _pivots(
    canonical: Canonical, shape: Template, rarity: Rarity, shards: int
) -> list[dict[int, int]]:
    """The variables of the pivot by block, or those of a grid's rows and columns; empty if there
    is no value join."""
    classes: list[dict[int, int]] = []
    for positions in _classes(shape):
        of_block: dict[int, int] = {}
        for position in sorted(positions):
            of_block.setdefault(shape.nodes[position][0], canonical.variables[position])
        classes.append(of_block)
    ways = [[each] for each in classes]
    if all(len(each) < shape.blocks for each in classes):
        ways += [list(pair) for pair in permutations(classes, 2)]

    def order(way: list[dict[int, int]]) -> tuple[float, ...]:
        shared = prod(rarity(variable) for of_block in way for variable in of_block.values())
        variables = [variable for of_block in way for variable in sorted(of_block.values())]
        return _sent(way, shape.blocks, shards), len(way), shared, *variables

    return min(ways, key=order, default=[])


def _sent(way: list[dict[int, int]], blocks: int, shards: int) -> int:
    """To how many shards a document of each block goes, added up."""
    grid = Grid.of(shards)
    total = 0
    for block in range(blocks):
        match [block in of_block for of_block in way]:
            case [True] | [True, True]:
                total += 1
            case [True, False]:
                total += grid.columns
            case [False, True]:
                total += grid.rows
            case _:
                total += shards
    return total


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


def edges_of_block(canonical: Canonical, shape: Template, block: int) -> tuple[int, ...]:
    pairs = zip(canonical.ties, canonical.edges, strict=True)
    return tuple([edge for tie, edge in pairs if _block(shape, tie) in (block, None)])


def trigger_of(canonical: Canonical, shape: Template, block: int) -> int | None:
    """A variable that each document of a block has a row of."""
    for position, *_ in canonical.ties:
        if position < len(shape.nodes) and shape.nodes[position][0] == block:
            return canonical.variables[position]
    return None


def reason_to_stay(
    canonical: Canonical, catalog: Catalog, surroundings: Surroundings
) -> str | None:
    """Why a query has to be matched in one place, by the coordinator; None if it need not be."""
    if not surroundings.staying.isdisjoint(catalog.taps.get(canonical.number, ())):
        return "it is a block of an event pattern that stays"
    for number, each in canonical.subscribers.items():
        if each.id.startswith(TAP):
            continue
        if number < 0:
            return "it stands in the FROM of a query"
        made = not catalog.published.keys().isdisjoint(each.delivery.streams)
        if each.pattern is not None and made:
            return "an event pattern waits for results of other queries"
        if not surroundings.decided.isdisjoint(each.delivery.streams):
            return "it reads what an event pattern finds that stays"
        flows = each.publish is not None and catalog.read[each.publish] > 0
        if flows and each.publish in surroundings.awaited:
            return f"an event pattern waits for its results, {each.publish}"
        if (flows or made) and surroundings.limited:
            return "results become documents one after the other where there are limits"
    return None


class Surroundings(NamedTuple):
    """What else decides where a query is matched: of the event patterns that stay with the
    coordinator the taps, the streams that they are made of, and those that are made of what they
    find; and whether any subscription has a limit."""

    staying: frozenset[str]
    awaited: frozenset[str]
    decided: frozenset[str]
    limited: bool

    @classmethod
    def of(cls, catalog: Catalog, stays: Container[int] = (), *, limited: bool) -> Surroundings:
        """`stays`: the canonical queries that stay whatever is said of them now."""
        nothing = cls(frozenset(), frozenset(), frozenset(), limited)
        if not catalog.patterns:
            return nothing
        queries = [
            (canonical, each)
            for canonical in catalog.canonical.values()
            for each in canonical.subscribers.values()
        ]
        taps: set[str] = set()
        awaited: set[str] = set()
        decided: set[str] = set()
        found, size = nothing, -1
        while size < len(taps) + len(awaited) + len(decided):
            size = len(taps) + len(awaited) + len(decided)
            for canonical, each in queries:
                pattern = each.pattern is not None and (
                    canonical.number in stays
                    or reason_to_stay(canonical, catalog, found) is not None
                )
                if pattern:
                    taps.update(tap_names(each))
                if pattern or each.id in taps or each.publish in awaited:
                    awaited.update(each.delivery.streams)
                made = pattern or not decided.isdisjoint(each.delivery.streams)
                if made and each.publish is not None:
                    decided.add(each.publish)
            found = cls(frozenset(taps), frozenset(awaited), frozenset(decided), limited)
        return found

"""Queries of three blocks and more that are decided in memory: how they are searched, and their
candidates made of the records of their blocks.

As with two blocks, nothing may be left to decide but that values are equal. Positions that joins
compare are put into *classes*, the positions that have one value in a match: so a leaf may join two
others (`t = u AND u = v`), and of several nodes that it has one has to have the value of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from operator import le
from typing import NamedTuple

from broker.join.alternatives import Alternative, ByCode, common_codes, how_many, joined
from broker.join.candidates import Candidate, Chosen, lengths
from broker.join.pair_query import Plan
from broker.join.records import Record
from broker.query.canonical import Canonical
from broker.query.join_order import before_of
from xscl.normal.operators import blocks_of, operators_of
from xscl.normal.template import Template

BEFORE, AFTER, ANY = 0, 1, 2
"""Whether a block ends before another one begins, begins after it, or neither is said."""


class Extension(NamedTuple):
    """How a block comes to those that have documents already, given by their places in the order in
    which they got them: the joins as place, position there and position here, and the order in time
    with each place."""

    block: int
    joins: tuple[tuple[int, int, int], ...]
    relations: tuple[int, ...]


@lru_cache(maxsize=4_096)
def orders_of(shape: Template) -> tuple[tuple[int, tuple[Extension, ...]], ...]:
    """For each block, the others in the order in which they are looked for if a document is new
    there.

    First come those that are later in time: mostly nothing came after the new document, and then
    nothing else is looked at. Then those of more joins, as they have fewer documents.
    """
    between: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for a, b in shape.joins:
        one, other = shape.nodes[a][0], shape.nodes[b][0]
        between.setdefault((one, other), []).append((a, b))
        between.setdefault((other, one), []).append((b, a))
    before = before_of(shape)
    return tuple([(b, _order(shape.blocks, b, between, before)) for b in range(shape.blocks)])


def _order(
    blocks: int,
    first: int,
    between: dict[tuple[int, int], list[tuple[int, int]]],
    before: set[tuple[int, int]],
) -> tuple[Extension, ...]:
    placed = [first]
    found: list[Extension] = []
    while len(placed) < blocks:
        ready = [
            (
                (placed[0], block) not in before,
                -sum([len(between.get((other, block), ())) for other in placed]),
                abs(block - first),
                block,
            )
            for block in range(blocks)
            if block not in placed and any((other, block) in between for other in placed)
        ]
        block = min(ready)[-1]
        joins = [
            (place, a, b)
            for place, other in enumerate(placed)
            for a, b in between.get((other, block), ())
        ]
        relations = [
            BEFORE if (block, other) in before else AFTER if (other, block) in before else ANY
            for other in placed
        ]
        found.append(Extension(block, tuple(joins), tuple(relations)))
        placed.append(block)
    return tuple(found)


@lru_cache(maxsize=4_096)
def _classes(shape: Template) -> tuple[tuple[int, ...], ...]:
    """The positions that have one value in a match."""
    groups: list[set[int]] = []
    for pair in shape.joins:
        touched = [group for group in groups if not group.isdisjoint(pair)]
        groups = [group for group in groups if group not in touched]
        groups.append({*pair}.union(*touched))
    return tuple([tuple(sorted(group)) for group in groups])


@lru_cache(maxsize=4_096)
def _windows_over(shape: Template) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For each two blocks, which of a query's windows bound both."""
    below = [{*blocks_of(operator)} for operator in operators_of(shape.operators)]
    every = range(shape.blocks)
    return tuple(
        [
            tuple(
                [
                    (*[i for i, own in enumerate(below) if {one, other} <= own], shape.windows - 1)
                    for other in every
                ]
            )
            for one in every
        ]
    )


class LongPlan(Plan):
    """One canonical query of three blocks or more. `windows` are the widest of its subscribers, by
    operator and for the whole."""

    __slots__ = ("windows",)

    def __init__(self, canonical: Canonical, shape: Template) -> None:
        super().__init__(canonical, shape)
        self.windows = canonical.windows()

    def renew(self) -> None:
        super().renew()
        if self.canonical.subscribed:
            self.windows = self.canonical.windows()

    def widths(self) -> list[list[int]]:
        """For each two blocks the narrowest window that bounds both, in microseconds."""
        windows = self.windows
        return [
            [min([windows[i] for i in over]) for over in of_one]
            for of_one in _windows_over(self.shape)
        ]

    def is_within(self, records: Sequence[Record]) -> bool:
        """Whether documents, given by block, are within the windows, and new enough for at least
        one subscriber. Their order was looked at when they were found."""
        first_doc = self.first_doc
        for record in records:
            if record.base < first_doc:
                return False
        return all(map(le, lengths(self.shape, records), self.windows))

    def matches(
        self, records: Sequence[Record], docs: tuple[int, ...], most: int
    ) -> Iterator[tuple[Candidate, int]]:
        """The matches of regular documents that agree, each with the combinations of nodes that it
        stands for, as the template's query counts them. Where these are more than `most`, there is
        one for all of them, so that they are too many for whoever adds them up."""
        chosen = self.only(tuple([record.layout for record in records]))
        if chosen is not None:
            yield Candidate(docs, chosen), 1
            return
        nodes = self._nodes(records)
        if nodes is None:
            return
        combinations, choices = self._count(nodes)
        if combinations > most:
            yield Candidate(docs, Chosen((None,) * len(nodes), {})), combinations
        elif choices:
            # Which of them stands for how many does not matter to a sum.
            rest = combinations - choices + 1
            for choice in product(*self._choices(nodes)):
                yield Candidate(docs, self._chosen(choice)), rest
                rest = 1

    def _nodes(self, records: Sequence[Record]) -> list[ByCode] | None:
        """The nodes of each position by the codes of their values; None if some has none."""
        found: list[ByCode] = []
        for (block, _), variable in zip(self.shape.nodes, self.canonical.variables, strict=True):
            record = records[block]
            by_code: ByCode = {}
            for node, rows in record.layout.nodes.get(variable, ()):
                by_code.setdefault(record.code(rows), []).append(node)
            if not by_code:
                return None
            found.append(by_code)
        return found

    def _count(self, nodes: list[ByCode]) -> tuple[int, int]:
        """The combinations of nodes, and the distinct choices of those that are selected."""
        selected = self.canonical.selected
        combinations = choices = 1
        free = {*range(len(nodes))}
        for positions in _classes(self.shape):
            own = [nodes[p] for p in positions]
            common = common_codes(own)
            if not common:
                return 0, 0
            combinations *= sum([prod([len(side[code]) for side in own]) for code in common])
            choices *= how_many(positions, own, selected)
            free.difference_update(positions)
        for p in free:
            count = sum(map(len, nodes[p].values()))
            combinations *= count
            choices *= count if p in selected else 1
        return combinations, choices

    def _choices(self, nodes: list[ByCode]) -> list[list[Alternative]]:
        selected = self.canonical.selected
        classes = _classes(self.shape)
        compared = {p for positions in classes for p in positions}
        found: list[list[Alternative]] = [
            [{p: (node, ())} for own in nodes[p].values() for node in own]
            for p in sorted(selected - compared)
        ]
        for positions in classes:
            found.append(list(joined(positions, [nodes[p] for p in positions], selected)))
        return found

"""Combinations of a document for each block: how many satisfy everything.

In: the rows of the documents that pass each block, and which rows of two blocks go together. Out:
the combinations of documents, and at what those fail whose predicates hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from broker.pattern.conditions import Condition
from broker.pattern.instances import Row
from broker.pattern.values import Scope
from broker.why.joins import RESTS, Pairs
from xscl.normal.operators import FollowedBy, Tree, blocks_of, operators_of

Chosen = tuple[Row, ...]


@dataclass(slots=True)
class Combinations:
    """Combinations of documents, by their numbers, with rows that satisfy all predicates."""

    joined: dict[tuple[int, ...], Chosen] = field(default_factory=dict)
    ordered: set[tuple[int, ...]] = field(default_factory=set)
    matched: set[tuple[int, ...]] = field(default_factory=set)
    exact: bool = True


def combine(
    operators: Tree,
    windows: Sequence[int | None],
    rows: Sequence[Sequence[Row]],
    pairs: Mapping[tuple[int, int], Pairs],
    several: Sequence[Condition],
    most: int,
    rest: Callable[[], object] = lambda: None,
) -> Combinations:
    """The combinations whose documents differ and for whose rows all predicates hold. `several` are
    those that read more than two blocks, or none; `most` choices of rows are tried, and `rest` is
    called after each few hundred."""
    found = Combinations()
    looked = 0
    for chosen in _Search(rows, pairs).choices():
        looked += 1
        if not looked % RESTS:
            rest()
        if looked > most:
            found.exact = False
            break
        docs = tuple([row.doc for row in chosen])
        if docs in found.joined or len({row.key for row in chosen}) < len(chosen):
            continue
        scope = Scope({name: row for row in chosen for name in row.nodes})
        if not all(holds(scope) for holds in several):
            continue
        found.joined[docs] = chosen
        if in_order(operators, chosen):
            found.ordered.add(docs)
            if within(operators, windows, chosen):
                found.matched.add(docs)
    return found


class _Search:
    """Finds a row for each block, of which each two go together. `near` are the rows of a block
    that go with one of another, `allowed` the pairs that do, both by identity."""

    def __init__(
        self, rows: Sequence[Sequence[Row]], pairs: Mapping[tuple[int, int], Pairs]
    ) -> None:
        self._rows = rows
        self._order = _order(len(rows), pairs)
        self._near: dict[tuple[int, int], Mapping[int, Sequence[Row]]] = {}
        self._allowed: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for (a, b), found in pairs.items():
            forward, backward = found.passing, _backward(found.passing, rows[a])
            self._near[a, b], self._near[b, a] = forward, backward
            self._allowed[a, b] = {(one, id(row)) for one, to in forward.items() for row in to}
            self._allowed[b, a] = {(one, id(row)) for one, to in backward.items() for row in to}

    def choices(self, chosen: Mapping[int, Row] | None = None) -> Iterator[Chosen]:
        chosen = chosen or {}
        if len(chosen) == len(self._rows):
            yield tuple([chosen[block] for block in range(len(self._rows))])
            return
        block = self._order[len(chosen)]
        for row in self._candidates(block, chosen):
            if all(self._fits(other, there, block, row) for other, there in chosen.items()):
                yield from self.choices({**chosen, block: row})

    def _candidates(self, block: int, chosen: Mapping[int, Row]) -> Sequence[Row]:
        for other, row in chosen.items():
            if (other, block) in self._near:
                return self._near[other, block].get(id(row), ())
        return self._rows[block]

    def _fits(self, other: int, there: Row, block: int, row: Row) -> bool:
        allowed = self._allowed.get((other, block))
        return allowed is None or (id(there), id(row)) in allowed


def _backward(passing: Mapping[int, Sequence[Row]], left: Sequence[Row]) -> dict[int, list[Row]]:
    by_id = {id(row): row for row in left}
    found: dict[int, list[Row]] = {}
    for one, others in passing.items():
        for other in others:
            found.setdefault(id(other), []).append(by_id[one])
    return found


def _order(count: int, pairs: Mapping[tuple[int, int], Pairs]) -> list[int]:
    """The blocks so that each is joined to one before it, where that is possible."""
    order = [0]
    while len(order) < count:
        rest = [block for block in range(count) if block not in order]
        joined = [b for b in rest if any({a, b} == {*pair} for a in order for pair in pairs)]
        order.append((joined or rest)[0])
    return order


def in_order(operators: Tree, chosen: Sequence[Row]) -> bool:
    """Whether documents come in the order that FOLLOWED BY asks for."""
    return all(
        max([chosen[b].end for b in blocks_of(each.left)])
        < min([chosen[b].start for b in blocks_of(each.right)])
        for each in operators_of(operators)
        if isinstance(each, FollowedBy)
    )


def within(operators: Tree, windows: Sequence[int | None], chosen: Sequence[Row]) -> bool:
    """Whether documents are within the window of each operator, and of the whole."""
    every = [blocks_of(each) for each in operators_of(operators)] + [[*range(len(chosen))]]
    return all(
        window is None
        or max([chosen[b].end for b in blocks]) - min([chosen[b].start for b in blocks]) <= window
        for blocks, window in zip(every, windows, strict=True)
    )

"""Pairs of documents between two blocks: how many agree, and what the rest leaves of them.

In: the rows of the documents that pass either block, and the predicates between the two. Out: a
`JoinCount` without words, and which rows go together, for combinations of more documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from broker.pattern.conditions import Condition, compile_condition
from broker.pattern.instances import Row
from broker.pattern.values import Scope, compile_each, names
from xscl import ast
from xscl.functions.table import FUNCTIONS, to_number, to_string
from xscl.normal.operators import FollowedBy, Tree, blocks_of, operators_of
from xscl.syntax.printer import format_expression

Key = tuple[Any, ...]


RESTS = 500
"""Pairs of rows, or combinations, after which who works beside may go on."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a value join: its expression, which reads one block."""

    expr: ast.Expr
    each: Callable[[Scope], list[Any]]
    numeric: bool

    def keys(self, row: Row) -> set[Any]:
        """The values that may be equal to those of the other side; NaN is equal to nothing."""
        found = self.each(Scope(dict.fromkeys(row.nodes, row)))
        if self.numeric:
            return {n for n in map(to_number, found) if not math.isnan(n)}
        return {*map(to_string, found)}


@dataclass(frozen=True, slots=True)
class ValueJoin:
    """An equality between two blocks; `left` is the side of the block that comes first."""

    predicate: ast.Expr
    left: Side
    right: Side

    @property
    def text(self) -> str:
        return format_expression(self.predicate)


def value_join(predicate: ast.Expr, left: int, home: dict[str, int]) -> ValueJoin | None:
    """A predicate between two blocks as a value join; None if it is none."""
    if not isinstance(predicate, ast.Comparison) or predicate.op != "=":
        return None
    sides = [predicate.left, predicate.right]
    places = [{home[name] for name in names(side)} for side in sides]
    if any(len(place) != 1 for place in places) or places[0] == places[1]:
        return None
    if any(_gives(side) == "boolean" for side in sides):
        return None
    numeric = any(_gives(side) == "number" for side in sides)
    made = [Side(side, compile_each(side), numeric) for side in sides]
    if places[0] != {left}:
        made.reverse()
    return ValueJoin(predicate, *made)


def _gives(expr: ast.Expr) -> str:
    match expr:
        case ast.Number() | ast.Arithmetic():
            return "number"
        case ast.Call(name=name):
            return FUNCTIONS[name].result
        case ast.Path() | ast.String():
            return "string"
    return "boolean"


@dataclass(slots=True)
class Between:
    """What the query asks between two blocks, `left` before `right` in the pattern. `order`: the
    left one must end before the right one starts."""

    left: int
    right: int
    order: bool
    window: int | None
    equalities: list[ValueJoin]
    residuals: list[ast.Expr]


@dataclass(slots=True)
class Pairs:
    """What became of the pairs.

    `passing` are, for a row of the left block by identity, the rows of the right one that satisfy
    all predicates with it, whatever their times. `agree` are the pairs of documents that agree, by
    number, with the rows that do. `each` are how many agree on one equality alone, and whether
    these are all."""

    between: Between
    agree: dict[tuple[int, int], list[tuple[Row, Row]]] = field(default_factory=dict)
    each: list[tuple[int, bool]] = field(default_factory=list)
    ordered: set[tuple[int, int]] = field(default_factory=set)
    within: set[tuple[int, int]] = field(default_factory=set)
    passed: set[tuple[int, int]] = field(default_factory=set)
    passing: dict[int, list[Row]] = field(default_factory=dict)
    exact: bool = True


def betweens(
    operators: Tree,
    windows: Sequence[int | None],
    predicates: Sequence[ast.Expr],
    home: dict[str, int],
) -> tuple[list[Between], list[ast.Expr]]:
    """What is asked between pairs of blocks, and the predicates that read more than two, or none.
    `windows` are those of the operators, and that of the whole."""
    found: dict[tuple[int, int], Between] = {}
    several: list[ast.Expr] = []

    def between(a: int, b: int) -> Between:
        pair = (min(a, b), max(a, b))
        if pair not in found:
            found[pair] = Between(*pair, *_time(operators, windows, pair), [], [])
        return found[pair]

    for predicate in predicates:
        blocks = sorted({home[name] for name in names(predicate)})
        if len(blocks) != 2:
            several.append(predicate)
            continue
        own = between(*blocks)
        join = value_join(predicate, blocks[0], home)
        if join is None:
            own.residuals.append(predicate)
        else:
            own.equalities.append(join)
    for operator in operators_of(operators):
        left, right = blocks_of(operator.left), blocks_of(operator.right)
        if not any((a, b) in found for a in left for b in right):
            between(left[-1], right[0])
    return [found[pair] for pair in sorted(found)], several


def _time(
    operators: Tree, windows: Sequence[int | None], pair: tuple[int, int]
) -> tuple[bool, int | None]:
    """Whether the first of two blocks must end before the second starts, and the narrowest window
    that both are in."""
    order = False
    bounds = [windows[-1]]
    for operator, window in zip(operators_of(operators), windows, strict=False):
        left, right = blocks_of(operator.left), blocks_of(operator.right)
        if pair[0] in [*left, *right] and pair[1] in [*left, *right]:
            bounds.append(window)
            order |= isinstance(operator, FollowedBy) and pair[0] in left and pair[1] in right
    known = [bound for bound in bounds if bound is not None]
    return order, min(known, default=None)


def satisfied(holds: Condition, one: Row, other: Row) -> bool:
    """Whether two rows satisfy a predicate."""
    return holds(Scope(dict.fromkeys(one.nodes, one) | dict.fromkeys(other.nodes, other)))


def span(rows: Sequence[Row]) -> int:
    """How long documents last together."""
    return max([row.end for row in rows]) - min([row.start for row in rows])


def count(
    between: Between,
    left: Sequence[Row],
    right: Sequence[Row],
    most: int,
    rest: Callable[[], object] = lambda: None,
) -> Pairs:
    """What becomes of the pairs of rows; `most` of them are looked at for each question. `rest` is
    called after each few hundred."""
    found = Pairs(between)
    agreeing = _Agreeing(left, right, most, rest)
    for one, other in agreeing.pairs(between.equalities):
        found.agree.setdefault((one.doc, other.doc), []).append((one, other))
    found.exact = agreeing.exact
    if len(between.equalities) == 1:
        found.each.append((len(found.agree), found.exact))
    for join in between.equalities if len(between.equalities) > 1 else ():
        agreeing = _Agreeing(left, right, most, rest)
        alone = {(one.doc, other.doc) for one, other in agreeing.pairs([join])}
        found.each.append((len(alone), agreeing.exact))
    holds = [compile_condition(each) for each in between.residuals]
    for number, (pair, rows) in enumerate(found.agree.items()):
        if not number % RESTS:
            rest()
        one, other = rows[0]
        passes = [(a, b) for a, b in rows if all(satisfied(each, a, b) for each in holds)]
        for a, b in passes:
            found.passing.setdefault(id(a), []).append(b)
        if not between.order or one.end < other.start:
            found.ordered.add(pair)
            if between.window is None or span((one, other)) <= between.window:
                found.within.add(pair)
                if passes:
                    found.passed.add(pair)
    return found


class _Agreeing:
    """The pairs of rows of different documents that satisfy value joins; `exact` is false once more
    than `most` were looked at."""

    def __init__(
        self, left: Sequence[Row], right: Sequence[Row], most: int, rest: Callable[[], object]
    ) -> None:
        self._left = left
        self._right = right
        self._most = most
        self._rest = rest
        self.exact = True

    def pairs(self, joins: Sequence[ValueJoin]) -> Iterator[tuple[Row, Row]]:
        by_key: dict[Key, list[Row]] = {}
        for row, key in self._keyed(self._right, [join.right for join in joins]):
            by_key.setdefault(key, []).append(row)
        looked = 0
        for number, one in enumerate(self._left):
            if not number % RESTS:
                self._rest()
            others: dict[int, Row] = {}
            for _, key in self._keyed([one], [join.left for join in joins]):
                for other in by_key.get(key, ()):
                    looked += 1
                    if not looked % RESTS:
                        self._rest()
                    if looked > self._most:
                        self.exact = False
                        return
                    if other.key != one.key:
                        others[id(other)] = other
            for other in others.values():
                yield one, other

    def _keyed(self, rows: Sequence[Row], sides: Sequence[Side]) -> Iterator[tuple[Row, Key]]:
        """Rows with each combination of their values, as many as may be looked at."""
        number = 0
        for row in rows:
            for key in product(*[side.keys(row) for side in sides]):
                if not number % RESTS:
                    self._rest()
                if number == self._most:
                    self.exact = False
                    return
                number += 1
                yield row, key

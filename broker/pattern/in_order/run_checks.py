"""What runs ask, compiled: conjuncts about a document that is taken, beside what was taken before.

Most compare a number of the document with one of an earlier document, or with one of the elements
before it, of which sums are kept. Everything else is asked of a scope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, isinf, nan
from typing import Any

from broker.pattern.equalities import pair_of
from broker.pattern.in_order.asking import number_of, relational
from broker.pattern.in_order.run_forms import Place
from broker.pattern.instances import Row
from broker.pattern.plan import Conjunct
from broker.pattern.values import Scope, path_text
from xscl import ast
from xscl.functions.table import arithmetic

Filled = tuple[Any, ...]
"""The documents of items as far as they are taken: one of each, and of a group those of its
elements."""

Sum = tuple[int, "int | Fraction | float", float, float]
"""The numbers of elements: how many, their exact sum, the least and the greatest one."""

NOTHING: Sum = (0, 0, inf, -inf)


def plus(known: Sum, number: float) -> Sum:
    """With another number; what is none is left out."""
    if number != number:
        return known
    size, exact, least, greatest = known
    if isinf(number):
        exact = float(exact) + number if isinstance(exact, float) else number
    elif number.is_integer():
        exact += int(number)
    elif not isinstance(exact, float):
        exact += Fraction(number)
    return (
        size + 1,
        exact,
        number if number < least else least,
        number if number > greatest else greatest,
    )


def total_of(known: Sum) -> float:
    """The sum, rounded once."""
    try:
        return float(known[1])
    except OverflowError:
        return inf if known[1] > 0 else -inf


Sums = tuple[Sum, ...]
"""Of the elements of a group, for each path of which a number is asked."""


def added(sums: Sums, texts: Sequence[str], row: Row) -> Sums:
    """The same with another element."""
    if len(texts) == 1:
        return (plus(sums[0], number_of(row.values[texts[0]][0])),)
    numbers = [number_of(row.values[text][0]) for text in texts]
    return tuple(map(plus, sums, numbers))


Whole = Callable[[Filled], bool]
"""Whether a conjunct about a run holds."""

Check = Callable[[Filled, Sums, Any], bool]
"""Whether a conjunct about an element holds, given with those before it, for which there is a place
in what is filled."""

_Side = Callable[[Filled, Sums, Any], float | None]
"""A number; None: what has none is not asked. A document that is only taken now comes last."""


class Checks:
    """Compiles the conjuncts of a list of items. `texts` are the paths of which sums are kept, by
    item."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._place: dict[str, int] = {
            name: n for n, place in enumerate(places) for name in place.leaf.variables
        }
        self.texts: list[list[str]] = [[] for _ in places]

    # -- about runs ------------------------------------------------------------------------------

    def whole(self, each: Conjunct) -> Whole:
        """A conjunct about a run, with its last document."""
        equal = self._equal(each)
        if equal is not None:
            return equal
        for op, one, other in relational(each.expr):
            left, right = self._single(one), self._single(other)
            if left is not None and right is not None:
                compared = _compared(left, op, right)
                return lambda filled: compared(filled, (), None)
        holds = each.holds
        return lambda filled: holds(self._scope(filled))

    def _equal(self, each: Conjunct) -> Whole | None:
        """An equality of two variables of single documents."""
        pair = pair_of(each)
        if pair is None:
            return None
        (a, b), (one, other) = pair, [self._place[name] for name in pair]
        if any(self._places[at].group is not None for at in (one, other)):
            return None

        def equal(filled: Filled) -> bool:
            return bool(filled[one].values[a][0] == filled[other].values[b][0])

        return equal

    def _single(self, expr: ast.Expr) -> _Side | None:
        """A number of single documents that are taken."""
        match expr:
            case ast.Number(value=value):
                return lambda filled, sums, row: value
            case ast.Path(variable=name, steps=()) if name in self._place:
                at, text = self._place[name], path_text(expr)
                if self._places[at].group is not None:
                    return None
                return lambda filled, sums, row: number_of(filled[at].values[text][0])
            case ast.Arithmetic():
                return _arithmetic(expr, self._single(expr.left), self._single(expr.right))
        return None

    def _scope(self, filled: Filled) -> Scope:
        single: dict[str, Row] = {}
        several: dict[str, Sequence[Row | None]] = {}
        for at, place in enumerate(self._places):
            if place.group is not None:
                own: Sequence[Row] = filled[at] if at < len(filled) else ()
                several.update(dict.fromkeys(place.leaf.variables, own))
            elif at < len(filled):
                row: Row = filled[at]
                single.update(dict.fromkeys(place.leaf.variables, row))
        return Scope(single, several)

    # -- about elements --------------------------------------------------------------------------

    def element(self, at: int, each: Conjunct) -> Check:
        """A conjunct about an element of the group at an item, when it is taken."""
        place = self._places[at]
        for one, other in _both_ways(pair_of(each)):
            there = self._place[other]
            if one in place.leaf.variables and self._places[there].group is None:
                return _tied(one, there, other)
        for op, low, high in relational(each.expr):
            left, right = self._side(at, low), self._side(at, high)
            if left is not None and right is not None:
                return _compared(left, op, right)
        return self.late(at, each)

    def late(self, at: int, each: Conjunct) -> Check:
        """The same where sums are not known."""
        own, holds = self._places[at].leaf.variables, each.holds

        def check(filled: Filled, _: Sums, row: Row) -> bool:
            scope = self._scope(filled)
            scope.current = dict.fromkeys(own, row)
            return holds(scope)

        return check

    def first(self, each: Conjunct) -> Check:
        """A conjunct about the first element of a group, which is the only one there."""
        holds = each.holds
        return lambda filled, sums, row: holds(self._scope(filled))

    def _side(self, at: int, expr: ast.Expr) -> _Side | None:
        """A number of an element, of those before it, or of earlier single documents."""
        own = self._places[at].leaf.variables
        match expr:
            case ast.Path(variable=name, steps=()) if name in own:
                text = path_text(expr)
                return lambda filled, sums, row: number_of(row.values[text][0])
            case ast.Arithmetic():
                return _arithmetic(expr, self._side(at, expr.left), self._side(at, expr.right))
            case ast.Call(args=(ast.Path(variable=name, steps=()) as path,)) if name in own:
                return self._before(at, expr.name, path_text(path))
        return self._single(expr)

    def _before(self, at: int, function: str, text: str) -> _Side | None:
        match function:
            case "count":
                return lambda filled, sums, row: float(len(filled[at]))
            case "prev" | "first":
                place = 0 if function == "first" else -1

                def node(filled: Filled, *_: object) -> float | None:
                    before = filled[at]
                    return number_of(before[place].values[text][0]) if before else None

                return node
            case "last":

                def last(filled: Filled, *_: object) -> float:
                    before = filled[at]
                    return number_of(before[-1].values[text][0]) if before else nan

                return last
            case "sum" | "avg" | "min" | "max":
                return self._summed(at, function, text)
        return None

    def _summed(self, at: int, function: str, text: str) -> _Side:
        texts = self.texts[at]
        if text not in texts:
            texts.append(text)
        own = texts.index(text)
        if function == "sum":
            return lambda filled, sums, row: total_of(sums[own])
        if function == "avg":
            return lambda filled, sums, row: _average(sums[own])
        place = 2 if function == "min" else 3

        def extreme(_: Filled, sums: Sums, __: Any) -> float | None:
            found = sums[own]
            return float(found[place]) if found[0] else None

        return extreme


def _average(known: Sum) -> float | None:
    size = known[0]
    if not size:
        return None
    try:
        return float(known[1]) / size
    except OverflowError:
        return total_of(known)


def _both_ways(pair: tuple[str, str] | None) -> Sequence[tuple[str, str]]:
    return () if pair is None else (pair, pair[::-1])


def _tied(text: str, at: int, other: str) -> Check:
    def tied(filled: Filled, _: Sums, row: Row) -> bool:
        return bool(row.values[text][0] == filled[at].values[other][0])

    return tied


def _arithmetic(expr: ast.Arithmetic, left: _Side | None, right: _Side | None) -> _Side | None:
    if left is None or right is None:
        return None

    def side(filled: Filled, sums: Sums, row: Any) -> float | None:
        a, b = left(filled, sums, row), right(filled, sums, row)
        return None if a is None or b is None else arithmetic(expr.op, a, b)

    return side


def _compared(left: _Side, op: str, right: _Side) -> Check:
    if op in ("<", "<="):
        left, right = right, left
    inclusive = op in ("<=", ">=")

    def check(filled: Filled, sums: Sums, row: Any) -> bool:
        a, b = left(filled, sums, row), right(filled, sums, row)
        if a is None or b is None:
            return True
        return a > b or (inclusive and a == b)

    return check

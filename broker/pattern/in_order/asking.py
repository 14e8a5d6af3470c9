"""Conjuncts about a pair: what waits, and what comes.

Of a conjunct that compares one side with the other, each side is computed once for its document. An
equality of two variables is a *tie*, by whose value what waits is found; an inequality is a
*bound*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from broker.pattern.equalities import pair_of
from broker.pattern.instances import Row
from broker.pattern.plan import Conjunct
from broker.pattern.values import Scope, path_text
from xscl import ast
from xscl.functions.comparing import TURNED
from xscl.functions.table import arithmetic, to_number

Number = Callable[[Row], float]
"""The number that an expression is for a document; NaN for none."""

number_of = lru_cache(maxsize=1 << 14)(to_number)
"""What XPath's number() makes of a text."""

Test = Callable[[Row], bool]
"""Whether what is asked of one document alone holds."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What comes must be greater than what waits, by these numbers, or `inclusive` as great."""

    comes: Number
    inclusive: bool


class Compared(Protocol):
    """An inequality that may hold with equal numbers."""

    @property
    def inclusive(self) -> bool: ...


def beyond(
    compared: Sequence[Compared], numbers: Sequence[float], held: Sequence[float | None]
) -> bool:
    """Whether the numbers of what comes are beyond those of what waits; None: it is not asked."""
    for each, number, own in zip(compared, numbers, held, strict=True):
        if own is not None and not (number >= own if each.inclusive else number > own):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Tie:
    """Two variables with equal texts: of what waits, and of what comes."""

    waits: str
    comes: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Conjuncts, split. `held` gives the number of what waits for each of the `bounds`. What is
    negated on both sides turns an inequality around."""

    tie: Tie | None
    bounds: tuple[Bound, ...]
    held: tuple[Number, ...]
    rest: tuple[Conjunct, ...]


def split(conjuncts: Sequence[Conjunct], waits: frozenset[str], comes: frozenset[str]) -> Asked:
    """Split the conjuncts about what waits and what comes, which bind these variables."""
    tie: Tie | None = None
    bounds: list[Bound] = []
    held: list[Number] = []
    rest: list[Conjunct] = []
    for each in conjuncts:
        found = _tie(each, waits, comes)
        if found is not None and tie is None:
            tie = found
            continue
        pair = _bound(each, waits, comes)
        if pair is None:
            rest.append(each)
        else:
            bounds.append(pair[0])
            held.append(pair[1])
    return Asked(tie, tuple(bounds), tuple(held), tuple(rest))


def test_of(each: Conjunct, variables: frozenset[str]) -> Test:
    """The test that a conjunct about one document is."""
    for op, one, other in relational(each.expr):
        own = number(one, variables)
        if own is not None and isinstance(other, ast.Number):
            return _compared(own, op, other.value)
    holds = each.holds

    def test(row: Row) -> bool:
        return holds(Scope(dict.fromkeys(row.nodes, row), length=row.end - row.start))

    return test


def _compared(own: Number, op: str, bound: float) -> Test:
    match op:
        case "<":
            return lambda row: own(row) < bound
        case "<=":
            return lambda row: own(row) <= bound
        case ">":
            return lambda row: own(row) > bound
    return lambda row: own(row) >= bound


def _tie(each: Conjunct, waits: frozenset[str], comes: frozenset[str]) -> Tie | None:
    pair = pair_of(each)
    if pair is not None:
        for one, other in (pair, pair[::-1]):
            if one in waits and other in comes:
                return Tie(one, other)
    return None


def _bound(
    each: Conjunct, waits: frozenset[str], comes: frozenset[str]
) -> tuple[Bound, Number] | None:
    for op, left, right in relational(each.expr):
        ours, theirs = number(left, comes), number(right, waits)
        if ours is None or theirs is None:
            continue
        if op in ("<", "<="):
            ours, theirs = negated(ours), negated(theirs)
        return Bound(ours, op in ("<=", ">=")), theirs
    return None


def relational(expr: ast.Expr) -> Iterator[tuple[str, ast.Expr, ast.Expr]]:
    """An inequality either way round; nothing for anything else."""
    if isinstance(expr, ast.Comparison) and expr.op in TURNED:
        yield expr.op, expr.left, expr.right
        yield TURNED[expr.op], expr.right, expr.left


def number(expr: ast.Expr, variables: frozenset[str]) -> Number | None:
    """The number that an expression over bare variables of one document is; None for what asks more
    than that, or of no document."""
    if isinstance(expr, ast.Path) and not expr.steps and expr.variable in variables:
        text = path_text(expr)
        return lambda row: number_of(row.values[text][0])
    if isinstance(expr, ast.Arithmetic):
        sides = [number(side, variables) for side in (expr.left, expr.right)]
        known = [
            side.value if isinstance(side, ast.Number) else None for side in (expr.left, expr.right)
        ]
        a, b = (_constant(k) if k is not None else s for s, k in zip(sides, known, strict=True))
        if a is None or b is None or not any(sides):
            return None
        return _computed(expr.op, a, b)
    return None


def _constant(value: float) -> Number:
    return lambda row: value


def _computed(op: str, a: Number, b: Number) -> Number:
    return lambda row: arithmetic(op, a(row), b(row))


def negated(of: Number) -> Number:
    """What turns an inequality around, on both sides."""
    return lambda row: -of(row)


def all_hold(conjuncts: Sequence[Conjunct], scope: Scope) -> bool:
    return all(each.holds(scope) for each in conjuncts)

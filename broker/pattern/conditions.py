"""Conjuncts of a pattern, compiled: from a condition to a function of a scope that says whether it
holds for some choice of nodes, as in Part 1.

A conjunct that names what is absent is not asked, and so holds (Part 2, "Where a conjunct is
asked"). Nearly all compare a path that has one text with another one or with a constant, which
takes no choice at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.pattern.comparing import COMPARE, some_compare
from broker.pattern.trying import choices
from broker.pattern.values import Compiler, Given, NotAsked, Scope
from xscl import ast
from xscl.functions.table import to_number, to_string
from xscl.functions.texts import TextTooLong

Condition = Callable[[Scope], bool]


def compile_condition(expr: ast.Expr) -> Condition:
    """A function from a scope to whether a conjunct holds; one that is not asked does. Raises
    TooMuch."""
    compiler = Compiler()
    holds = _truth(expr, compiler)
    leaves = compiler.leaves

    def condition(scope: Scope) -> bool:
        try:
            given = [leaf.read(scope) for leaf in leaves]
        except NotAsked:
            return True
        try:
            return holds(given)
        except TextTooLong:
            return False

    return condition


def _truth(expr: ast.Expr, compiler: Compiler) -> Callable[[Given], bool]:
    """Whether a condition holds for some choice among the values of its leaves."""
    match expr:
        case ast.And(parts=parts):
            every = [_truth(part, compiler) for part in parts]
            return lambda given: all(part(given) for part in every)
        case ast.Or(parts=parts):
            some = [_truth(part, compiler) for part in parts]
            return lambda given: any(part(given) for part in some)
        case ast.Not(part=part):
            inner = _truth(part, compiler)
            return lambda given: not inner(given)
    begin = len(compiler.leaves)
    value = compiler.value(expr)
    end = len(compiler.leaves)
    if isinstance(expr, ast.Path):
        return lambda given: bool(given[begin])

    def some_choice(given: Given) -> bool:
        before, own = given[:begin], given[begin:end]
        if [*map(len, own)].count(1) == len(own):
            return bool(value([*before, *[each[0] for each in own]]))
        return any(bool(value([*before, *choice])) for choice in choices(*own))

    if isinstance(expr, ast.Comparison):
        plain = (ast.Path, ast.String, ast.Number)
        if isinstance(expr.left, plain) and isinstance(expr.right, plain):
            return _compared(expr, begin, some_choice)
    return some_choice


def _compared(
    expr: ast.Comparison, begin: int, some_choice: Callable[[Given], bool]
) -> Callable[[Given], bool]:
    """Whether paths and constants compare, of which the paths are leaves from a place on. What FOLD
    computes may be numbers, as which both sides of an equality are compared then."""
    op, compare = expr.op, COMPARE[expr.op]
    sides = (expr.left, expr.right)
    numbers = op not in ("=", "!=") or any(isinstance(side, ast.Number) for side in sides)
    plain: Callable[[Any], Any] = to_number if numbers else to_string
    one, other = [
        (plain(side.value),) if isinstance(side, ast.String | ast.Number) else None
        for side in sides
    ]
    first, second = begin, begin + (one is None)

    def holds(given: Given) -> bool:
        left = given[first] if one is None else one
        right = given[second] if other is None else other
        if len(left) == len(right) == 1:
            x, y = left[0], right[0]
            if numbers:
                return compare(to_number(x), to_number(y))
            if isinstance(x, str) and isinstance(y, str):
                return compare(x, y)
        if numbers or all(isinstance(each, str) for own in (left, right) for each in own):
            return some_compare(op, [*map(plain, left)], [*map(plain, right)])
        return some_choice(given)

    return holds

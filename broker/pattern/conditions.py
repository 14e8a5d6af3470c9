"""Conjuncts of a pattern, compiled: from a condition to a function of a scope that says whether it
holds for some choice of nodes, as in Part 1.

A conjunct that names what is absent is not asked, and so holds (Part 2, "Where a conjunct is
asked"). Nearly all compare a path that has one text with another one or with a constant, which
takes no choice at all.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.pattern.trying import choices
from broker.pattern.values import Compiler, Given, NotAsked, Scope
from xscl import ast
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

    paths_only = isinstance(expr, ast.Comparison) and all(
        isinstance(side, ast.Path | ast.String | ast.Number) for side in (expr.left, expr.right)
    )

    def some_choice(given: Given) -> bool:
        before, own = given[:begin], given[begin:end]
        if [*map(len, own)].count(1) == len(own):
            return bool(value([*before, *[each[0] for each in own]]))
        if paths_only and all(isinstance(each, str) for texts in own for each in texts):
            return bool(value(given))
        return any(bool(value([*before, *choice])) for choice in choices(*own))

    return some_choice

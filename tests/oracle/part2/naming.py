"""Which variables the patterns bind and the expressions name, and which blocks there are."""

from __future__ import annotations

from collections.abc import Iterator

from tests.oracle import queries
from xscl import ast

ELEMENT = ("prev", "first", "last", "count", "sum", "avg", "min", "max")
"""The functions of a variable of a group."""


def reads(expr: ast.Expr) -> Iterator[tuple[str, str]]:
    """The variables that an expression names, and how: "bare", or the function around it."""
    match expr:
        case ast.Path(variable=str(name)):
            yield name, "bare"
        case ast.Call(name=name, args=(ast.Path(variable=str(variable)), *others)) if (
            name in ELEMENT
        ):
            yield variable, name
            for other in others:
                yield from reads(other)
        case ast.Call(args=parts) | ast.And(parts=parts) | ast.Or(parts=parts):
            for part in parts:
                yield from reads(part)
        case ast.Not(part=part):
            yield from reads(part)
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            yield from reads(left)
            yield from reads(right)


def named(expr: ast.Expr) -> set[str]:
    return {name for name, _ in reads(expr)}


def of_elements(expr: ast.Expr, variables: frozenset[str]) -> bool:
    """Whether a conjunct is asked of each element of the group with these variables."""
    return any(name in variables and how in ("bare", "prev") for name, how in reads(expr))


def of_first(expr: ast.Expr, variables: frozenset[str]) -> bool:
    """Whether it names the group by first() only, so that it is asked of the first element."""
    hows = {how for name, how in reads(expr) if name in variables}
    return hows == {"first"}


def variables(pattern: ast.Pattern) -> Iterator[str]:
    """What a pattern binds."""
    match pattern:
        case ast.Block() | ast.Nested():
            yield from queries.bound_in(pattern.steps)
        case ast.Join() | ast.Fold():
            yield from variables(pattern.left)
            yield from variables(pattern.right)
            if isinstance(pattern, ast.Fold):
                yield from (each.variable for each in pattern.iterations)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from variables(branch)
        case ast.Negation() | ast.Group() | ast.Parenthesis():
            yield from variables(pattern.pattern)


def terms(pattern: ast.Pattern) -> Iterator[ast.Block | ast.Nested]:
    """The blocks and the paths into nested queries, those of NOTs included."""
    match pattern:
        case ast.Block() | ast.Nested():
            yield pattern
        case ast.Join() | ast.Fold():
            yield from terms(pattern.left)
            yield from terms(pattern.right)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from terms(branch)
        case ast.Negation() | ast.Group() | ast.Parenthesis():
            yield from terms(pattern.pattern)

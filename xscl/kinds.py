"""The kind of value that an expression of a filter gives, and which evaluator it needs.

XPath 1.0 tells by the form of an expression whether it gives nodes, a string, a number or a
boolean, and so whether a filter asks for a position. Most of the language is decided by the
automaton, the index of constants and plain steps downwards; what goes *beyond* these needs the
numbered nodes of the document (`xscl/stage1/tree.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from xscl import ast
from xscl.functions.nodes import NODE_FUNCTIONS, Kind
from xscl.functions.table import FUNCTIONS

DESCENTS = 2
"""With more nested `//` in filters, a filter is evaluated once per node and not for each way that
leads to it."""

_CONTEXT = ("position", "last")

_PLAIN = ("element", "attribute", "text", "self")


def kind_of(expr: ast.Expr) -> Kind:
    """The kind of an expression's value; a function that does not exist counts as a boolean one."""
    match expr:
        case ast.String():
            return "string"
        case ast.Number() | ast.Arithmetic():
            return "number"
        case ast.Path() | ast.Union() | ast.Filtered():
            return "nodes"
        case ast.Call(name=name):
            function = FUNCTIONS.get(name) or NODE_FUNCTIONS.get(name)
            return "boolean" if function is None else function.result
    return "boolean"


def parts(expr: ast.Expr) -> Iterable[ast.Expr]:
    """The expressions that an expression is directly made of, without the filters of its steps."""
    match expr:
        case ast.Call(args=found) | ast.And(parts=found) | ast.Or(parts=found):
            return found
        case ast.Union(parts=found):
            return found
        case ast.Comparison(left=left, right=right) | ast.Arithmetic(left=left, right=right):
            return (left, right)
        case ast.Not(part=part) | ast.Filtered(part=part):
            return (part,)
    return ()


def _steps(expr: ast.Expr) -> tuple[ast.Step, ...]:
    if isinstance(expr, ast.Path | ast.Filtered):
        return expr.steps
    return ()


def asks_position(expr: ast.Expr) -> bool:
    """Whether the value depends on where the node stands among those that the step selects."""
    if isinstance(expr, ast.Call) and expr.name in _CONTEXT:
        return True
    return any(asks_position(part) for part in parts(expr))


def positional(part: ast.Expr) -> bool:
    """Whether a filter asks for a position: it is a number, or holds position() or last()."""
    return kind_of(part) == "number" or asks_position(part)


def is_costly(part: ast.Expr) -> bool:
    """Whether a filter is worked out on the numbered nodes, for each node that reaches it."""
    if _is_simple(part):
        return False
    return positional(part) or goes_beyond(part) or _descents(part) > DESCENTS


def _is_simple(part: ast.Expr) -> bool:
    """A quick yes for what nearly all filters are: a path without filters, one that is compared
    with a literal, or a function of the language that says whether such values are so."""
    match part:
        case ast.Path(steps=steps):
            return _are_simple(steps)
        case ast.Comparison(left=left, right=right):
            return _is_operand(left) and _is_operand(right)
        case ast.Call(name=name, args=args) if kind_of(part) == "boolean":
            return name not in NODE_FUNCTIONS and all(map(_is_operand, args))
    return False


def _is_operand(part: ast.Expr) -> bool:
    if isinstance(part, ast.String | ast.Number):
        return True
    return isinstance(part, ast.Path) and _are_simple(part.steps)


def _are_simple(steps: tuple[ast.Step, ...]) -> bool:
    for step in steps:
        test = step.test
        if step.filters or test.axis is not None or test.kind not in _PLAIN:
            return False
    return True


def goes_beyond(expr: ast.Expr) -> bool:
    """Whether plain steps downwards cannot say what an expression of a filter does."""
    if _is_simple(expr):
        return False
    match expr:
        case ast.Union() | ast.Filtered() | ast.Selected():
            return True
        case ast.Call(name=name) if name in NODE_FUNCTIONS:
            return True
        case ast.Call() | ast.Comparison() | ast.Arithmetic():
            if any(kind_of(part) == "boolean" for part in parts(expr)):
                return True
        case ast.And() | ast.Or() | ast.Not():
            if any(kind_of(part) == "number" for part in parts(expr)):
                return True
    return _lead_beyond(_steps(expr)) or any(goes_beyond(part) for part in parts(expr))


def _lead_beyond(steps: Iterable[ast.Step]) -> bool:
    return any(
        step.test.axis is not None
        or step.test.kind not in _PLAIN
        or any(positional(part) or goes_beyond(part) for part in step.filters)
        for step in steps
    )


def _descents(expr: ast.Expr) -> int:
    """How many `//` stand in filters of each other."""
    inner = max(map(_descents, parts(expr)), default=0)
    return max(inner, _descents_of(_steps(expr)))


def _descents_of(steps: Iterable[ast.Step]) -> int:
    return max(
        ((step.axis == "//") + max(map(_descents, step.filters), default=0) for step in steps),
        default=0,
    )

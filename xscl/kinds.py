"""The kind of value that an expression of a filter gives, and which evaluator it needs.

In XPath 1.0 the form of an expression determines whether its value is nodes, a string, a number or
a boolean, and so whether a filter selects by position. The automaton, the index of constants and
plain steps downwards evaluate most filters; those *beyond* them are evaluated on the numbered nodes
of the document (`xscl/stage1/tree.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from xscl import ast
from xscl.functions.nodes import NODE_FUNCTIONS, Kind
from xscl.functions.table import FUNCTIONS

DESCENTS = 2
"""If more `//` are nested in filters of each other, a filter is evaluated once per node and not for
each path that leads to it."""

_CONTEXT = ("position", "last")

_PLAIN = ("element", "attribute", "text", "self")


def kind_of(expr: ast.Expr) -> Kind:
    """The kind of an expression's value; an unknown function counts as a boolean one."""
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
    """The direct operands of an expression, without the filters of its steps."""
    match expr:
        case (
            ast.Call(args=found)
            | ast.And(parts=found)
            | ast.Or(parts=found)
            | ast.Union(parts=found)
        ):
            return found
        case ast.Comparison(left=left, right=right) | ast.Arithmetic(left=left, right=right):
            return (left, right)
        case ast.Not(part=part) | ast.Filtered(part=part):
            return (part,)
    return ()


def nested(expr: ast.Expr) -> Iterator[ast.Expr]:
    """The expression and its operands at every depth, without the filters of their steps."""
    yield expr
    for part in parts(expr):
        yield from nested(part)


def asks_position(expr: ast.Expr) -> bool:
    """Whether the value depends on the position of the context node."""
    return any(isinstance(part, ast.Call) and part.name in _CONTEXT for part in nested(expr))


def positional(filter_: ast.Expr) -> bool:
    """Whether a filter selects by position: it is a number, or holds position() or last()."""
    return kind_of(filter_) == "number" or asks_position(filter_)


def is_costly(filter_: ast.Expr) -> bool:
    """Whether a filter is evaluated on the numbered nodes, for each node that reaches it."""
    return not _is_simple(filter_) and _filter_descents(filter_) > DESCENTS


def goes_beyond(expr: ast.Expr) -> bool:
    """Whether an expression of a filter cannot be evaluated by plain steps downwards."""
    return not _is_simple(expr) and _descents(expr) == math.inf


def _is_simple(filter_: ast.Expr) -> bool:
    """A quick test that nearly all filters pass: a path without filters, such a path compared with
    a literal, or a boolean function of the language applied to them."""
    match filter_:
        case ast.Path(steps=steps):
            return _are_simple(steps)
        case ast.Comparison(left=left, right=right):
            return _is_operand(left) and _is_operand(right)
        case ast.Call(name=name, args=args) if kind_of(filter_) == "boolean":
            return name not in NODE_FUNCTIONS and all(map(_is_operand, args))
    return False


def _is_operand(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.String | ast.Number):
        return True
    return isinstance(expr, ast.Path) and _are_simple(expr.steps)


def _are_simple(steps: tuple[ast.Step, ...]) -> bool:
    return not any(step.filters or _is_beyond_step(step) for step in steps)


def _descents(expr: ast.Expr) -> float:
    """The number of `//` nested in filters of each other, infinite beyond plain steps downwards."""
    return max(map(_own_descents, nested(expr)))


def _own_descents(expr: ast.Expr) -> float:
    """`_descents` without the operands."""
    if _is_beyond(expr):
        return math.inf
    steps = expr.steps if isinstance(expr, ast.Path) else ()
    return max(map(_step_descents, steps), default=0)


def _step_descents(step: ast.Step) -> float:
    if _is_beyond_step(step):
        return math.inf
    return (step.axis == "//") + max(map(_filter_descents, step.filters), default=0)


def _filter_descents(filter_: ast.Expr) -> float:
    """`_descents`; a number as a filter is a position, which plain steps cannot count."""
    return math.inf if kind_of(filter_) == "number" else _descents(filter_)


def _is_beyond(expr: ast.Expr) -> bool:
    match expr:
        case ast.Union() | ast.Filtered() | ast.Selected():
            return True
        case ast.Call(name=name) if name in NODE_FUNCTIONS:
            return True
        case ast.Call() | ast.Comparison() | ast.Arithmetic():
            return any(kind_of(part) == "boolean" for part in parts(expr))
        case ast.And() | ast.Or() | ast.Not():
            return any(kind_of(part) == "number" for part in parts(expr))
    return False


def _is_beyond_step(step: ast.Step) -> bool:
    return step.test.axis is not None or step.test.kind not in _PLAIN

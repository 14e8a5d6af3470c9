"""Filters beyond plain steps, evaluated by libxml2: positions, other axes, unions, XPath's
functions.

In goes a filter that `values.truth` has no plain answer for, a node, and where the node stands among
those that the step selects; out comes whether it passes. The filter is written as XPath 1.0 by the
reader of the conformance suites, so neither the language's parser nor its evaluator is asked.
Functions that XPath 1.0 lacks are those of `values`, as extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from lxml import etree

from tests.conformance import xpath
from tests.oracle.trees import TEXT, Node
from tests.oracle.values import FUNCTIONS, NodeSet, Value
from xscl import ast
from xscl.syntax.printer import format_expression

OF_XPATH = frozenset(
    [
        *("contains", "starts-with", "string-length", "normalize-space", "concat", "substring"),
        *("substring-before", "substring-after", "translate", "string", "number", "round"),
        *("floor", "ceiling"),
    ]
)
CONDITIONS = frozenset(["contains", "starts-with", "ends-with", "matches"])
KINDS = ("element", "attribute", "text", "self")


def plain(expr: ast.Expr) -> bool:
    """Whether `values.truth` can say if a filter holds."""
    match expr:
        case ast.And(parts=parts) | ast.Or(parts=parts):
            return all(map(plain, parts))
        case ast.Not(part=part):
            return plain(part)
        case ast.Path():
            return _leads_down(expr)
        case ast.Comparison(left=left, right=right):
            return _plain_value(left) and _plain_value(right)
        case ast.Call(name=name, args=args):
            return name in CONDITIONS and all(map(_plain_value, args))
    return False


def _plain_value(expr: ast.Expr) -> bool:
    match expr:
        case ast.String() | ast.Number():
            return True
        case ast.Path():
            return _leads_down(expr)
        case ast.Arithmetic(left=left, right=right):
            return _plain_value(left) and _plain_value(right)
        case ast.Call(name=name, args=args):
            return name in FUNCTIONS and name not in CONDITIONS and all(map(_plain_value, args))
    return False


def _leads_down(path: ast.Path) -> bool:
    return all(
        step.test.axis is None and step.test.kind in KINDS and all(map(plain, step.filters))
        for step in path.steps
    )


def holds(
    node: Node, expr: ast.Expr, namespaces: Mapping[str, str], position: int, size: int
) -> bool:
    """Whether a node passes a filter, as the one at `position` of `size` nodes."""
    text = _written(expr)
    known = tuple(sorted(namespaces.items()))
    given = {"position": float(position), "last": float(size)}
    result = _compiled(text, known)(node.owner, **given)
    numeric = isinstance(result, float) and not isinstance(result, bool)
    if node.kind in ("element", "aside"):
        return bool(result == position if numeric else result)
    # An attribute or a text is reached from its element; the kind of the result is the same there.
    ordinal = node.number >> 32
    step = f"attribute::*[{ordinal}]"
    if node.kind == "text":
        step = f"child::text()[{ordinal - TEXT}]"
    asked = f"{text} = $position" if numeric else text
    return bool(_compiled(f"boolean({step}[{asked}])", known)(node.owner, **given))


@cache
def _written(expr: ast.Expr) -> str:
    """The filter as XPath 1.0 without abbreviations, $position and $last for what it asks."""
    tree = xpath.parse(format_expression(expr, in_filter=True))
    return xpath.spelt(_given(tree), any_namespace=True)


def _given(expr: xpath.Expr) -> xpath.Expr:
    """With variables for the position; what stands in filters of steps has a position of its
    own."""
    match expr:
        case xpath.Call(name="position" | "last" as name):
            return xpath.Variable(name)
        case xpath.Call(args=args):
            return replace(expr, args=tuple(map(_given, args)))
        case xpath.Binary(left=left, right=right):
            return replace(expr, left=_given(left), right=_given(right))
        case xpath.Negative(part=part) | xpath.Filtered(part=part):
            return replace(expr, part=_given(part))
    return expr


@cache
def _compiled(text: str, namespaces: tuple[tuple[str, str], ...]) -> Any:
    extensions = {
        (None, name): _extension(function)
        for name, function in FUNCTIONS.items()
        if name not in OF_XPATH
    }
    return etree.XPath(text, namespaces=dict(namespaces), extensions=extensions)


def _extension(function: Callable[..., Value]) -> Callable[..., Any]:
    def call(_context: Any, *args: Any) -> Any:
        found = function(*map(_taken, args))
        return list(found.texts) if isinstance(found, NodeSet) else found

    return call


def _taken(argument: Any) -> Value:
    """An argument as libxml2 hands it over."""
    if not isinstance(argument, list):
        value: Value = argument
        return value
    texts = [
        str(node.xpath("string()")) if isinstance(node, etree._Element) else str(node)
        for node in argument
    ]
    return NodeSet(tuple(texts))

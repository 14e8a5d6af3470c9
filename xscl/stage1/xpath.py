"""Expressions of filters over a numbered document: all of XPath 1.0.

In: an expression. Out: a function of a `Tree`, a node, its context position and the context size
(XPath 1.0, section 1). Expressions of plain steps downwards are compiled by
`xscl/stage1/filters.py` instead.

The time is polynomial in the document: a part that does not depend on the position is evaluated
once per node (the context-value tables of Gottlob, Koch and Pichler, VLDB 2002), and an axis of
many nodes is evaluated in time linear in the document.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, cast

from xscl import ast
from xscl.functions.table import FUNCTIONS, arithmetic, to_number
from xscl.interruption import PENDING, check
from xscl.kinds import asks_position, kind_of, positional
from xscl.stage1.tree import ATTRIBUTE, COMMENT, ELEMENT, INSTRUCTION, TEXT, Tree
from xscl.stage1.xpath_values import (
    OF_NODES,
    Value,
    as_number,
    as_text,
    as_text_or_number,
    as_truth,
    in_language,
    items,
)

Evaluator = Callable[[Tree, int, int, int], Any]
"""A function of the document, a node, its position and the context size that gives a `Value`."""
Truth = Callable[[Tree, int, int, int], bool]
Nodes = Callable[[Tree, int, int, int], list[int]]

_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_truth(expr: ast.Expr) -> Truth:
    """An expression as a condition."""
    match expr:
        case ast.And(parts=parts):
            every = [compile_truth(part) for part in parts]
            return lambda t, n, p, s: all(test(t, n, p, s) for test in every)
        case ast.Or(parts=parts):
            some = [compile_truth(part) for part in parts]
            return lambda t, n, p, s: any(test(t, n, p, s) for test in some)
        case ast.Not(part=part):
            inner = compile_truth(part)
            return lambda t, n, p, s: not inner(t, n, p, s)
        case ast.Comparison():
            return _once(expr, _comparison(expr))
        case ast.Selected(step=step):
            return _selected(step)
    value = compile_value(expr)
    return lambda t, n, p, s: as_truth(value(t, n, p, s))


def compile_value(expr: ast.Expr) -> Evaluator:
    """An expression that gives a string, number, boolean, or nodes in document order."""
    match expr:
        case ast.String(value=constant) | ast.Number(value=constant):
            return lambda t, n, p, s: constant
        case ast.Path() | ast.Union() | ast.Filtered():
            return compile_nodes(expr)
        case ast.Arithmetic(op=op, left=left, right=right):
            a, b = _as(left, as_number), _as(right, as_number)
            return _once(expr, lambda t, n, p, s: arithmetic(op, a(t, n, p, s), b(t, n, p, s)))
        case ast.Call():
            return _once(expr, _call(expr))
    return compile_truth(expr)


def compile_nodes(expr: ast.Expr) -> Nodes:
    """An expression that gives nodes."""
    match expr:
        case ast.Path(steps=(ast.Step(test=ast.Test(kind="root")), *rest)):
            return _from_document(rest)
        case ast.Path(steps=steps):
            moves = [_move(step) for step in steps]
            return lambda t, n, p, s: _follow(t, moves, [n])
        case ast.Union(parts=parts):
            each = [compile_nodes(part) for part in parts]
            return lambda t, n, p, s: sorted({i for nodes in each for i in nodes(t, n, p, s)})
        case ast.Filtered(part=part, filters=filters, steps=steps):
            first, keep = compile_nodes(part), _filters(filters)
            moves = [_move(step) for step in steps]
            return lambda t, n, p, s: _follow(t, moves, keep(t, first(t, n, p, s)))
    assert isinstance(expr, ast.Call)  # id()
    return _call(expr)


def _once(expr: ast.Expr, evaluate: Evaluator) -> Evaluator:
    """The function with a cache per node, unless the value depends on the position."""
    if asks_position(expr):
        return evaluate
    key = object()

    def known(tree: Tree, node: int, position: int, size: int) -> Any:
        table = tree.known.setdefault(key, {})
        found = table.get(node)
        if found is None:
            if PENDING:
                check()
            found = table[node] = evaluate(tree, node, position, size)
        return found

    return known


def _as(expr: ast.Expr, convert: Callable[[Tree, Value], Any]) -> Evaluator:
    value = compile_value(expr)
    return lambda t, n, p, s: convert(t, value(t, n, p, s))


# -- comparisons (section 3.4) -----------------------------------------------------------------


def _comparison(expr: ast.Comparison) -> Truth:
    op, kinds = expr.op, {kind_of(expr.left), kind_of(expr.right)}
    a, b = compile_value(expr.left), compile_value(expr.right)
    order = _ORDER.get(op)
    if "boolean" in kinds:
        return _truths(op, a, b)
    numeric = order is not None or "number" in kinds

    def holds(tree: Tree, node: int, position: int, size: int) -> bool:
        x = items(tree, a(tree, node, position, size), numeric)
        y = items(tree, b(tree, node, position, size), numeric)
        if op == "=":
            return any(value == value and value in y for value in x)
        if op == "!=":
            nan = any(value != value for value in (*x, *y))
            return bool(x and y) and (nan or len(x | y) > 1)
        low = {value for value in x if value == value}
        high = {value for value in y if value == value}
        if not (low and high):
            return False
        first, second = (min(low), max(high)) if op[0] == "<" else (max(low), min(high))
        assert order is not None
        return order(first, second)  # type: ignore[arg-type]

    return holds


def _truths(op: str, a: Evaluator, b: Evaluator) -> Truth:
    """A comparison with a boolean: nodes are converted to whether there are any."""
    order = _ORDER.get(op)

    def holds(tree: Tree, node: int, position: int, size: int) -> bool:
        x, y = a(tree, node, position, size), b(tree, node, position, size)
        if order is None:
            return (as_truth(x) == as_truth(y)) == (op == "=")
        x, y = (bool(value) if isinstance(value, list | tuple) else value for value in (x, y))
        return order(to_number(x), to_number(y))

    return holds


# -- functions ---------------------------------------------------------------------------------


def _call(expr: ast.Call) -> Evaluator:
    name, args = expr.name, expr.args
    function = FUNCTIONS.get(name)
    if function is not None:
        convert = {"string": as_text, "number": as_number, "any": as_text_or_number}
        arguments = [_as(arg, convert[function.parameter(i)]) for i, arg in enumerate(args)]
        call = function.call
        if function.several:
            return lambda t, n, p, s: tuple(call(*[each(t, n, p, s) for each in arguments]))
        return lambda t, n, p, s: call(*[argument(t, n, p, s) for argument in arguments])
    if name == "position":
        return lambda t, n, p, s: float(p)
    if name == "last":
        return lambda t, n, p, s: float(s)
    if name in ("true", "false"):
        return lambda t, n, p, s: name == "true"
    if name == "boolean":
        return compile_truth(args[0])
    value = compile_value(args[0])
    if name == "lang":
        return lambda t, n, p, s: in_language(t, n, value(t, n, p, s))
    of_nodes = OF_NODES[name]
    return lambda t, n, p, s: of_nodes(t, value(t, n, p, s))


# -- paths (section 2) -------------------------------------------------------------------------

_Move = Callable[[Tree, list[int]], list[int]]


def _follow(tree: Tree, moves: Sequence[_Move], nodes: list[int]) -> list[int]:
    for move in moves:
        if not nodes:
            break
        nodes = move(tree, nodes)
    return nodes


def _from_document(steps: Sequence[ast.Step]) -> Nodes:
    """A path from the document, which selects the same nodes for every context node."""
    moves, key = [_move(step) for step in steps], object()

    def nodes(tree: Tree, _node: int, _position: int, _size: int) -> list[int]:
        known = tree.known.setdefault(key, {})
        if not known:
            known[0] = _follow(tree, moves, [0])
        return cast(list[int], known[0])

    return nodes


def _axis(test: ast.Test) -> ast.Axis:
    if test.axis is not None:
        return test.axis
    return "attribute" if test.kind == "attribute" else "self" if test.kind == "self" else "child"


def _move(step: ast.Step) -> _Move:
    """A step as a function from nodes to the nodes it selects, both in document order."""
    axis, matches, deep = _axis(step.test), _matches(step.test), step.axis == "//"
    if any(positional(part) for part in step.filters):
        each = _each(step)

        def counted(tree: Tree, nodes: list[int]) -> list[int]:
            if deep:
                nodes = tree.reach_all("descendant-or-self", nodes)
            return sorted({found for node in nodes for found in each(tree, node)})

        return counted
    keep = _filters(step.filters)

    def move(tree: Tree, nodes: list[int]) -> list[int]:
        if deep:
            nodes = tree.reach_all("descendant-or-self", nodes)
        return keep(tree, [node for node in tree.reach_all(axis, nodes) if matches(tree, node)])

    return move


def _each(step: ast.Step) -> Callable[[Tree, int], list[int]]:
    """The nodes that a step selects from one node, without the `//` before it."""
    axis, matches = _axis(step.test), _matches(step.test)
    first, rest = step.filters[0], step.filters[1:]
    if isinstance(first, ast.Number):
        # Most positional filters are a number, and need no search behind that position.
        at, after = first.value, _filters(rest)

        def one(tree: Tree, node: int) -> list[int]:
            if not (1 <= at <= len(tree.kinds) and at.is_integer()):
                return []
            found = (n for n in tree.reach(axis, node) if matches(tree, n))
            return after(tree, [*islice(found, int(at) - 1, int(at))])

        return one
    keep = _filters(step.filters)
    return lambda tree, node: keep(tree, [n for n in tree.reach(axis, node) if matches(tree, n)])


def _filters(filters: Sequence[ast.Expr]) -> Callable[[Tree, list[int]], list[int]]:
    """A function from nodes, in the order of their positions, to those that pass all filters."""
    tests = [_passes(part) for part in filters]

    def keep(tree: Tree, nodes: list[int]) -> list[int]:
        for test in tests:
            size = len(nodes)
            nodes = [node for at, node in enumerate(nodes, 1) if test(tree, node, at, size)]
        return nodes

    return keep


def _passes(part: ast.Expr) -> Truth:
    if kind_of(part) == "number":
        value = compile_value(part)
        return lambda t, n, p, s: bool(value(t, n, p, s) == p)
    return _once(part, compile_truth(part))


def _selected(step: ast.Step) -> Truth:
    """Whether a node is among those that a step selects from its parent."""
    each, key, itself = _each(step), object(), step.test.kind == "self"

    def among(tree: Tree, node: int, _position: int, _size: int) -> bool:
        known = tree.known.setdefault(key, {})
        parent = node if itself else tree.parents[node]
        found = known.get(parent)
        if found is None:
            found = known[parent] = frozenset(each(tree, parent))
        return node in found

    return among


def _matches(test: ast.Test) -> Callable[[Tree, int], bool]:
    """Whether a node passes a node test (section 2.3)."""
    match test.kind:
        case "node" | "self" | "root":
            return lambda tree, node: True
        case "text":
            return lambda tree, node: tree.kinds[node] == TEXT
        case "comment":
            return lambda tree, node: tree.kinds[node] == COMMENT
        case "processing-instruction":
            target = test.name
            return lambda tree, node: (
                tree.kinds[node] == INSTRUCTION
                and (target is None or cast(Any, tree.values[node]).target == target)
            )
    kind = ATTRIBUTE if test.kind == "attribute" else ELEMENT
    name, uri = test.name, test.prefix
    if name is None:
        start = "" if uri is None else f"{{{uri}}}"
        return lambda tree, node: tree.kinds[node] == kind and tree.names[node].startswith(start)
    if uri is not None:
        full = f"{{{uri}}}{name}"
        return lambda tree, node: tree.kinds[node] == kind and tree.names[node] == full
    end = f"}}{name}"
    return lambda tree, node: (
        tree.kinds[node] == kind and (tree.names[node] == name or tree.names[node].endswith(end))
    )

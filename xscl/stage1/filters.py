"""Filters of tree patterns, compiled: from an expression over `.` to a Python function of a node.

An expression over variables, as in SELECT, becomes a function of a mapping from each variable to
its node. A node is an lxml element, or the plain string of an attribute or text node. The semantics
are XPath 1.0's: a comparison holds if it holds for some node, a function takes the first node in
document order. Unlike in XPath, a name without prefix matches in any namespace.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar

from lxml import etree

from xscl import ast
from xscl.functions.table import FUNCTIONS, arithmetic, convert, to_number, to_string
from xscl.functions.texts import LONGEST, TextTooLong
from xscl.normal import ir
from xscl.normal.lower import NOWHERE, complete_steps
from xscl.stage1 import xpath
from xscl.stage1.document import attributes, string_value, text_children
from xscl.stage1.tree import Node, tree_of

Value = str | float | bool | list[Node]
Context = Any
"""A node, for a filter; a mapping from variable to node, for an expression over variables."""
Evaluator = Callable[[Context], Value]
Kind = Literal["string", "number", "any"]

_COMPARE: dict[ir.Comparator, Callable[[Any, Any], bool]] = {
    ir.Comparator.EQUAL: operator.eq,
    ir.Comparator.UNEQUAL: operator.ne,
    ir.Comparator.LESS: operator.lt,
    ir.Comparator.AT_MOST: operator.le,
    ir.Comparator.GREATER: operator.gt,
    ir.Comparator.AT_LEAST: operator.ge,
}


def compile_filter(expr: ir.Expr) -> Callable[[Node], bool]:
    """A function from a node to whether it passes a filter of plain steps downwards. It raises
    nothing but TextTooLong (`bounded`).

    Other filters are compiled by `xscl/stage1/xpath.py`.
    """
    match expr:
        case ir.And(parts=parts):
            every = [compile_filter(p) for p in parts]
            return lambda node: all(test(node) for test in every)
        case ir.Or(parts=parts):
            some = [compile_filter(p) for p in parts]
            return lambda node: any(test(node) for test in some)
        case ir.Not(part=part):
            inner = compile_filter(part)
            return lambda node: not inner(node)
        case ir.Comparison():
            return _comparison(expr)
        case ir.Path(steps=steps):
            found = compile_path(steps)
            return lambda node: bool(found(node))
        case _:
            value = compile_value(expr)
            return lambda node: bool(value(node))


_Result = TypeVar("_Result")


def bounded(
    expr: ir.Expr, compiled: Callable[..., _Result], otherwise: _Result
) -> Callable[..., _Result]:
    """What an expression compiled to, with another result where a text would be too long: a
    document is parsed for all queries, and none may fail it."""
    if not _calls(expr, "concat"):
        return compiled

    def evaluate(*args: object) -> _Result:
        try:
            return compiled(*args)
        except TextTooLong:
            return otherwise

    return evaluate


def _calls(part: object, name: str) -> bool:
    if isinstance(part, tuple):
        return any(_calls(each, name) for each in part)
    if isinstance(part, ir.Call | ast.Call) and part.name == name:
        return True
    return is_dataclass(part) and any(_calls(getattr(part, f.name), name) for f in fields(part))


def compile_value(expr: ir.Expr) -> Evaluator:
    """A function from a node to the expression's value: a string, number, boolean or node list."""
    match expr:
        case ir.String(value=text):
            return lambda node: text
        case ir.Number(value=number):
            return lambda node: number
        case ir.VariablePath(variable=variable, steps=()):
            return lambda env: [env[variable]]
        case ir.VariablePath(variable=variable, steps=steps) if ir.looks_around(expr):
            around = _around(steps)
            return lambda env: around(env[variable])
        case ir.VariablePath(variable=variable, steps=steps):
            from_variable = compile_path(steps)
            return lambda env: from_variable(env[variable])
        case ir.Path(steps=()):
            return lambda node: [node]
        case ir.Path(steps=steps):
            return compile_path(steps)
        case ir.Call(name=name, args=args):
            function = FUNCTIONS[name]
            arguments = [_argument(arg, function.parameter(i)) for i, arg in enumerate(args)]
            if name == "concat":
                return lambda node: "".join(_at_most(argument(node) for argument in arguments))
            call = function.call
            return lambda node: call(*[argument(node) for argument in arguments])
        case ir.Arithmetic(calculation=calculation, left=left, right=right):
            a, b = _numeric(left), _numeric(right)
            return lambda node: arithmetic(calculation.value, a(node), b(node))
        case ir.Parameter() | ir.NodeValue() | ir.SomeNode() | ir.Beyond():
            raise TypeError(f"{type(expr).__name__} has no value at a node")
        case _:
            return compile_filter(expr)


def _at_most(texts: Iterable[Any]) -> Iterator[str]:
    """The texts, one after the other. Raises TextTooLong before there are too many of them."""
    length = 0
    for text in texts:
        length += len(text)
        if length > LONGEST:
            raise TextTooLong
        yield text


def _around(steps: tuple[ir.Step, ...]) -> Callable[[Node], list[Node]]:
    """A path beyond plain steps downwards, from an element: the checks refuse such filters of
    attributes and texts, and other paths from these select nothing."""
    nodes = xpath.compile_nodes(ast.Path(None, complete_steps(steps), span=NOWHERE))

    def reach(node: Node) -> list[Node]:
        if isinstance(node, str):
            return []
        tree = tree_of(node)
        return [tree.node(found) for found in nodes(tree, tree.index(node), 1, 1)]

    return reach


def text_of(node: Node) -> str:
    return node if isinstance(node, str) else string_value(node)


def as_text(value: Value) -> str:
    """XPath 1.0 `string()`."""
    if isinstance(value, list):
        return text_of(value[0]) if value else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return to_string(value)


def _argument(expr: ir.Expr, kind: Kind) -> Callable[[Context], str | float]:
    value = compile_value(expr)

    def converted(node: Context) -> str | float:
        result = value(node)
        if not isinstance(result, float):
            result = as_text(result)
        return convert(result, kind)

    return converted


def _numeric(expr: ir.Expr) -> Callable[[Context], float]:
    value = compile_value(expr)

    def number(node: Context) -> float:
        result = value(node)
        return result if isinstance(result, float) else to_number(as_text(result))

    return number


def _comparison(expr: ir.Comparison) -> Callable[[Node], bool]:
    compare = _COMPARE[expr.comparator]
    a, b = compile_value(expr.left), compile_value(expr.right)
    relational = expr.comparator.relational

    def holds(node: Node) -> bool:
        x, y = a(node), b(node)
        if relational or isinstance(x, float) or isinstance(y, float):
            numbers = [to_number(t) if isinstance(t, str) else t for t in _items(y)]
            return any(
                compare(to_number(s) if isinstance(s, str) else s, n)
                for s in _items(x)
                for n in numbers
            )
        texts = list(_items(y))
        return any(compare(s, t) for s in _items(x) for t in texts)

    return holds


def _items(value: Value) -> Iterable[str | float]:
    if isinstance(value, list):
        return (text_of(node) for node in value)
    return (value,)


# -- paths -----------------------------------------------------------------------------------


def compile_path(steps: tuple[ir.Step, ...]) -> Callable[[Node], list[Node]]:
    """A function from a node to the nodes that its relative path selects, in document order,
    without duplicates."""
    moves = [(step, _step(step)) for step in steps]
    if len(moves) == 1:
        return moves[0][1]
    # One `//` at the start keeps document order; a step after it may not.
    ordered = all(step.axis == "/" for step in steps[1:]) and (
        len(steps) < 2 or steps[0].axis == "/"
    )

    def reach(node: Node) -> list[Node]:
        here = [node]
        for step, move in moves:
            if not ordered and len(here) > 1:
                here = _in_document_order(here)
                if step.axis == "//":
                    here = _topmost(here)
                elif step.test.kind == "text":
                    tests = [compile_filter(f) for f in step.filters]
                    here = [t for t in _texts(here) if all(test(t) for test in tests)]
                    continue
            here = [found for context in here for found in move(context)]
            if not here:
                break
        return here if ordered or len(here) < 2 else _in_document_order(here)

    return reach


def _in_document_order(nodes: list[Node]) -> list[Node]:
    """Elements in document order without duplicates; attributes and texts already are."""
    elements = {node for node in nodes if not isinstance(node, str)}
    if not elements or (len(elements) < len(nodes) and any(isinstance(n, str) for n in nodes)):
        return nodes
    root = next(iter(elements)).getroottree().getroot()
    return [e for e in root.iter() if e in elements]


def _topmost(nodes: list[Node]) -> list[Node]:
    """The elements that are not descendants of others among them."""
    kept: set[etree._Element] = set()
    found: list[Node] = []
    for node in nodes:
        if not isinstance(node, str) and kept.isdisjoint(node.iterancestors()):
            kept.add(node)
            found.append(node)
    return found or nodes


def _texts(nodes: list[Node]) -> list[Node]:
    """The text children of elements, in document order, also if the elements are nested."""
    wanted = set(nodes)
    found: list[Node] = []
    for top in _topmost(nodes):
        if isinstance(top, str):
            continue
        for event, element in etree.iterwalk(top, events=("start", "end", "comment", "pi")):
            if event == "start":
                if element in wanted and element.text:
                    found.append(element.text)
            elif element is not top and element.tail and element.getparent() in wanted:
                found.append(element.tail)
    return found


def _step(step: ir.Step) -> Callable[[Node], list[Node]]:
    reach = _reach(step)
    tests = [compile_filter(f) for f in step.filters]
    if not tests:
        return reach
    return lambda node: [n for n in reach(node) if all(test(n) for test in tests)]


def _reach(step: ir.Step) -> Callable[[Node], list[Node]]:
    test, below = step.test, step.axis == "//"
    if test.kind == "self":
        if not below:
            return lambda node: [node]
        return _self_and_below
    if test.kind == "element":
        tag = element_tag(test)
        if below:
            return lambda node: [] if isinstance(node, str) else [*node.iterdescendants(tag)]
        return lambda node: [] if isinstance(node, str) else [*node.iterchildren(tag)]
    if test.kind == "text" and below:
        # Texts must be in document order, in which those of nested elements are interleaved.
        return lambda node: (
            [] if isinstance(node, str) else [str(text) for text in node.itertext() if text]
        )
    own: Callable[[etree._Element], list[str]]
    own = text_children if test.kind == "text" else _attributes(test)
    if below:
        return lambda node: (
            []
            if isinstance(node, str)
            else [value for element in node.iter("*") for value in own(element)]
        )
    return lambda node: [] if isinstance(node, str) else [*own(node)]


def element_tag(test: ir.Test) -> str:
    """The tag filter of lxml for a name test; `{*}` also matches names in no namespace."""
    namespace = "*" if test.namespace is None else test.namespace
    return f"{{{namespace}}}{test.name or '*'}" if test.name or test.namespace else "*"


def _attributes(test: ir.Test) -> Callable[[etree._Element], list[str]]:
    name, namespace = test.name, test.namespace
    if name is None and namespace is None:
        return lambda element: [value for _, value in attributes(element)]

    def values(element: etree._Element) -> list[str]:
        return [value for name, value in attributes(element) if name_matches(name, test)]

    return values


def name_matches(label: str, test: ir.Test) -> bool:
    """Whether a name in Clark notation (`{uri}local`) passes a name test."""
    uri, _, local = label.rpartition("}")
    return (test.name is None or test.name == local) and (
        test.namespace is None or test.namespace == uri[1:]
    )


def _self_and_below(node: Node) -> list[Node]:
    if isinstance(node, str):
        return [node]
    found: list[Node] = []

    def visit(element: etree._Element) -> None:
        stack: list[Iterator[Node]] = [iter([element])]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
                continue
            found.append(item)
            if not isinstance(item, str) and isinstance(item.tag, str):
                stack.append(iter(_children(item)))

    visit(node)
    return found


def _children(element: etree._Element) -> list[Node]:
    nodes: list[Node] = [element.text] if element.text else []
    for child in element:
        nodes.append(child)
        if child.tail:
            nodes.append(child.tail)
    return nodes

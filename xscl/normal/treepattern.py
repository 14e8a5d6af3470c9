"""Tree patterns: what a block asks of one document, as a tree of nodes with canonical definitions.

In comes a `Block` of the syntax tree; out comes a list of `PatternNode`s, each below its parent.
Bindings become nodes of their own. Everything that only filters (comparisons, existence, and
bindings that nobody names) is folded into the filters of the step that it constrains, so that a
node's `Definition` says exactly which document nodes can stand for it. Two nodes of equal
definition, in whatever queries, are one variable of the match relations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xscl import ast
from xscl.errors import Source, Span
from xscl.syntax.printer import format_expression

NOWHERE = Span(Source("", ""), 0, 0)
"""The place of everything in normal form: errors are told of before, and a place would keep the
whole text in memory for as long as the query is registered."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A variable's definition: stream, path with filters, and what is computed of the node.

    Steps carry no variables; the prefix of a test is the namespace URI, None for any namespace.
    `value` is an expression over `.`, or None for the node's string value. An empty path is the
    document node.
    """

    stream: str
    steps: tuple[ast.Step, ...]
    value: ast.Expr | None = None

    def text(self) -> str:
        """Canonical text, equal for equal definitions only."""
        path = self.stream + format_steps(self.steps)
        return path if self.value is None else f"{path} : {format_expression(self.value, True)}"


@dataclass(slots=True)
class PatternNode:
    """A node of a tree pattern. `step` holds only the filters that belong to the definition.

    A node with a `value` stands for a computed value of its parent and has no step of its own.
    """

    parent: PatternNode | None
    step: ast.Step | None
    value: ast.Expr | None = None
    names: list[str] = field(default_factory=list)
    filters: list[ast.Expr] = field(default_factory=list)

    def text(self) -> str:
        return format_steps((self.own_step(),))

    def own_step(self) -> ast.Step:
        assert self.step is not None
        if not self.filters:
            return self.step
        filters = canonical_filters(self.filters)
        return ast.Step(self.step.axis, self.step.test, None, filters, span=NOWHERE)


@dataclass(slots=True)
class TreePattern:
    """A block as a tree. `nodes` lists parents before children; `selected` is what `*` selects."""

    stream: str
    nodes: list[PatternNode]
    selected: PatternNode

    def named(self, variable: str) -> PatternNode | None:
        return next((n for n in self.nodes if variable in n.names), None)


def format_steps(steps: tuple[ast.Step, ...]) -> str:
    return format_expression(ast.Path(None, steps, span=NOWHERE), True).removeprefix(".")


def conjuncts(expr: ast.Expr | None) -> list[ast.Expr]:
    if expr is None:
        return []
    if isinstance(expr, ast.And):
        return [part for whole in expr.parts for part in conjuncts(whole)]
    return [expr]


def canonical_filters(filters: Iterable[ast.Expr]) -> tuple[ast.Expr, ...]:
    """A conjunction has no order and no repetition."""
    distinct = set(filters)
    return tuple(distinct) if len(distinct) < 2 else tuple(sorted(distinct, key=repr))


def tree_pattern(
    stream: str, steps: Sequence[ast.Step], namespaces: Mapping[str, str]
) -> TreePattern:
    """The tree of a block's path, which the checks made sure does not select the document."""
    nodes: list[PatternNode] = []
    selected = _extend(nodes, None, steps, namespaces)
    assert selected is not None
    return TreePattern(stream, nodes, selected)


def add_path(
    pattern: TreePattern,
    origin: PatternNode,
    steps: Sequence[ast.Step],
    namespaces: Mapping[str, str],
) -> PatternNode:
    """Hang a relative path below a node, as a predicate's `x1/author` does; the path's last node."""
    node = _extend(pattern.nodes, origin, steps, namespaces)
    assert node is not None
    return node


def _extend(
    nodes: list[PatternNode],
    origin: PatternNode | None,
    steps: Sequence[ast.Step],
    namespaces: Mapping[str, str],
) -> PatternNode | None:
    node = origin
    for step in steps:
        if step.test.kind == "self" and step.axis == "/":
            assert node is not None
        else:
            bare = ast.Step(step.axis, resolve_test(step.test, namespaces), span=NOWHERE)
            node = PatternNode(node, bare)
            nodes.append(node)
        if step.variable is not None:
            node.names.append(step.variable)
        for part in step.filters:
            for conjunct in conjuncts(part):
                _add_filter(nodes, node, conjunct, namespaces)
    return node


def _add_filter(
    nodes: list[PatternNode],
    node: PatternNode,
    part: ast.Expr,
    namespaces: Mapping[str, str],
) -> None:
    if isinstance(part, ast.Path) and binds(part):
        _extend(nodes, node, part.steps, namespaces)
        return
    node.filters.append(resolve_names(part, namespaces))


def paths(expr: ast.Expr) -> Iterable[ast.Path]:
    """The paths of an expression, outermost first, not those inside filters of their steps."""
    match expr:
        case ast.Path():
            yield expr
        case ast.Call(args=parts) | ast.And(parts=parts) | ast.Or(parts=parts):
            for part in parts:
                yield from paths(part)
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            yield from paths(left)
            yield from paths(right)
        case ast.Not(part=part):
            yield from paths(part)


def binds(expr: ast.Expr) -> bool:
    """Whether an expression of a filter binds a variable anywhere."""
    return any(
        step.variable is not None or any(binds(f) for f in step.filters)
        for path in paths(expr)
        for step in path.steps
    )


def resolve_test(test: ast.Test, namespaces: Mapping[str, str]) -> ast.Test:
    if test.prefix is None:
        return test
    return replace(test, prefix=namespaces[test.prefix])


def resolve_names(expr: ast.Expr, namespaces: Mapping[str, str]) -> ast.Expr:
    """The expression with namespace URIs for prefixes, and without places."""

    def resolved(path: ast.Path) -> ast.Path:
        return ast.Path(path.variable, resolved_steps(path.steps, namespaces), span=NOWHERE)

    return map_paths(expr, resolved)


def resolved_steps(
    steps: Sequence[ast.Step], namespaces: Mapping[str, str]
) -> tuple[ast.Step, ...]:
    return tuple(
        ast.Step(
            step.axis,
            resolve_test(step.test, namespaces),
            step.variable,
            tuple([resolve_names(f, namespaces) for f in step.filters]),
            span=NOWHERE,
        )
        for step in steps
    )


def without_self(
    steps: Sequence[ast.Step],
) -> tuple[tuple[ast.Expr, ...], tuple[ast.Step, ...]]:
    """A relative path without its `/.` steps: the filters that these put on the path's origin, and
    the other steps, with the filters that they put on them."""
    origin: tuple[ast.Expr, ...] = ()
    kept: list[ast.Step] = []
    for step in steps:
        if step.test.kind != "self" or step.axis == "//":
            kept.append(step)
        elif kept:
            kept[-1] = replace(kept[-1], filters=(*kept[-1].filters, *step.filters))
        else:
            origin += step.filters
    return origin, tuple(kept)


def map_paths(expr: ast.Expr, change: Callable[[ast.Path], ast.Expr]) -> ast.Expr:
    """The expression with every outermost path replaced, and without places."""

    def leaf(part: ast.Expr) -> ast.Expr:
        match part:
            case ast.Path():
                return change(part)
            case ast.String():
                return ast.String(part.value, span=NOWHERE)
            case ast.Number():
                return ast.Number(part.value, span=NOWHERE)
            case _:
                return part

    return map_leaves(expr, leaf)


def map_leaves(expr: ast.Expr, change: Callable[[ast.Expr], ast.Expr]) -> ast.Expr:
    """The expression with every path and constant replaced, and without places."""
    match expr:
        case ast.Call():
            arguments = tuple([map_leaves(a, change) for a in expr.args])
            return ast.Call(expr.name, arguments, span=NOWHERE)
        case ast.Comparison():
            left, right = map_leaves(expr.left, change), map_leaves(expr.right, change)
            return ast.Comparison(expr.op, left, right, span=NOWHERE)
        case ast.And():
            return ast.And(tuple([map_leaves(p, change) for p in expr.parts]), span=NOWHERE)
        case ast.Or():
            return ast.Or(tuple([map_leaves(p, change) for p in expr.parts]), span=NOWHERE)
        case ast.Arithmetic():
            left, right = map_leaves(expr.left, change), map_leaves(expr.right, change)
            return ast.Arithmetic(expr.op, left, right, span=NOWHERE)
        case ast.Not():
            return ast.Not(map_leaves(expr.part, change), span=NOWHERE)
        case _:
            return change(expr)


def children(nodes: Sequence[PatternNode], node: PatternNode | None) -> list[PatternNode]:
    return [n for n in nodes if n.parent is node]


def fold(pattern: TreePattern, kept: Sequence[PatternNode]) -> None:
    """Turn every subtree without a kept node into an existence filter of the node it hangs from.

    A binding that nobody names asks for existence only. Afterwards each remaining node leads to a
    kept one, and its definition holds all that the block asks of it apart from other kept nodes.
    """
    needed = set()
    for keep in kept:
        node: PatternNode | None = keep
        while node is not None and id(node) not in needed:
            needed.add(id(node))
            node = node.parent
    folded = [n for n in pattern.nodes if id(n) not in needed]
    for node in reversed(folded):  # children before their parents
        if node.parent is not None and node.value is None:
            step = node.own_step()
            below = node.parent.filters
            below.append(ast.Path(None, (step,), span=NOWHERE))
    pattern.nodes = [n for n in pattern.nodes if id(n) in needed]


def definition(stream: str, node: PatternNode) -> Definition:
    """The canonical definition of a node; call `fold` first."""
    value = node.value
    steps: list[ast.Step] = []
    current: PatternNode | None = node
    while current is not None:
        if current.step is not None:
            steps.append(current.own_step())
        current = current.parent
    return Definition(stream, tuple(reversed(steps)), value)

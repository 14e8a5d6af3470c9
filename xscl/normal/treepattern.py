"""Tree patterns: the condition of a block on one document, as a tree of nodes with canonical
definitions.

In: a `Block` of the syntax tree. Out: a list of `PatternNode`s, each below its parent.
Bindings become nodes of their own. Everything that only filters (comparisons, existence, and
bindings that nobody names) is folded into the filters of the step that it constrains, so that a
node's `Definition` says exactly which document nodes can stand for it. Two nodes of equal
definition, in whatever queries, are one variable of the match relations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from xscl import ast
from xscl.normal import ir
from xscl.normal.canonical import canonical_filters
from xscl.normal.lower import Lowering, standing_filters
from xscl.normal.text import joined, plain, written, written_steps


@dataclass(frozen=True, slots=True)
class Definition:
    """A variable's definition: stream, path with filters, and the value computed from the node.

    `value` is an expression over the node, or None for its string value. An empty path is the
    document node.
    """

    stream: str
    steps: tuple[ir.Step, ...]
    value: ir.Expr | None = None

    def written(self) -> ir.Written:
        """Canonical text, with parameters."""
        path = (self.stream, *written_steps(self.steps))
        return joined(path if self.value is None else (*path, " : ", *written(self.value)))

    def text(self) -> str:
        """Canonical text, equal for equal definitions only."""
        return plain(self.written())


@dataclass(slots=True)
class PatternNode:
    """A node of a tree pattern. `step` holds only the filters that belong to the definition.

    A node with a `value` stands for a computed value of its parent and has no step of its own.
    """

    parent: PatternNode | None
    step: ir.Step | None
    value: ir.Expr | None = None
    names: list[str] = field(default_factory=list)
    filters: list[ir.Expr] = field(default_factory=list)

    def own_step(self) -> ir.Step:
        assert self.step is not None
        if not self.filters:
            return self.step
        return ir.Step(self.step.axis, self.step.test, canonical_filters(self.filters))


@dataclass(slots=True)
class TreePattern:
    """A block as a tree. `nodes` lists parents before children; `selected` is what `*` selects."""

    stream: str
    nodes: list[PatternNode]
    selected: PatternNode

    def named(self, variable: str) -> PatternNode | None:
        return next((n for n in self.nodes if variable in n.names), None)


def tree_pattern(stream: str, steps: Sequence[ast.Step], lowering: Lowering) -> TreePattern:
    """The tree of a block's path. The checks have excluded paths that select the document."""
    nodes: list[PatternNode] = []
    selected = _extend(nodes, None, steps, lowering)
    assert selected is not None
    return TreePattern(stream, nodes, selected)


def add_path(pattern: TreePattern, origin: PatternNode, steps: Sequence[ir.Step]) -> PatternNode:
    """Add a relative path below a node, such as `x1/author` in a predicate; returns its end."""
    node = origin
    for step in steps:
        if step.test.kind != "self" or step.axis == "//":
            node = PatternNode(node, ir.Step(step.axis, step.test))
            pattern.nodes.append(node)
        for part in step.filters:
            node.filters += ir.conjuncts(part)
    return node


def _extend(
    nodes: list[PatternNode],
    origin: PatternNode | None,
    steps: Sequence[ast.Step],
    lowering: Lowering,
) -> PatternNode | None:
    node = origin
    for step in steps:
        if step.test.kind == "self" and step.axis == "/":
            assert node is not None
        else:
            node = PatternNode(node, ir.Step(step.axis, lowering.test(step.test)))
            nodes.append(node)
        if step.variable is not None:
            node.names.append(step.variable)
        for part in standing_filters(step):
            for conjunct in _conjuncts(part):
                if isinstance(conjunct, ast.Path) and _binds(conjunct):
                    _extend(nodes, node, conjunct.steps, lowering)
                else:
                    node.filters.append(lowering.filter(conjunct))
    return node


def _conjuncts(expr: ast.Expr) -> Iterator[ast.Expr]:
    if isinstance(expr, ast.And):
        for part in expr.parts:
            yield from _conjuncts(part)
    else:
        yield expr


def _binds(path: ast.Path) -> bool:
    """Whether a path used as a filter binds a variable; no other expression can."""
    return any(
        step.variable is not None
        or any(isinstance(c, ast.Path) and _binds(c) for f in step.filters for c in _conjuncts(f))
        for step in path.steps
    )


def without_self(
    steps: Sequence[ir.Step],
) -> tuple[tuple[ir.Expr, ...], tuple[ir.Step, ...]]:
    """A relative path without its `/.` steps: their filters on the path's origin, and the other
    steps, to whose filters those of following `/.` steps are added."""
    origin: tuple[ir.Expr, ...] = ()
    kept: list[ir.Step] = []
    for step in steps:
        if step.test.kind != "self" or step.axis == "//":
            kept.append(step)
        elif kept:
            filters = canonical_filters((*kept[-1].filters, *step.filters))
            kept[-1] = replace(kept[-1], filters=filters)
        else:
            origin += step.filters
    return origin, tuple(kept)


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
            node.parent.filters.append(ir.Path((node.own_step(),)))
    pattern.nodes = [n for n in pattern.nodes if id(n) in needed]


def definition(stream: str, node: PatternNode) -> Definition:
    """The canonical definition of a node; call `fold` first."""
    value = node.value
    steps: list[ir.Step] = []
    current: PatternNode | None = node
    while current is not None:
        if current.step is not None:
            steps.append(current.own_step())
        current = current.parent
    return Definition(stream, tuple(reversed(steps)), value)

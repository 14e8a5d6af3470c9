"""Value-join normal form (dissertation, section 6.3): a query as tree patterns and value joins.

In: a checked query. Out: a `NormalQuery`, in which each predicate has one of three places:

- a predicate over one node only is pushed into the filters of that node;
- an equality between values of two nodes is a value join;
- a path in a predicate (`x1/author`) has become a binding of its block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from xscl import ast
from xscl.check.program import ResolvedQuery
from xscl.normal import ir
from xscl.normal.canonical import canonical_filters
from xscl.normal.lower import Lowering
from xscl.normal.operators import FollowedBy, Join, Tree
from xscl.normal.treepattern import (
    PatternNode,
    TreePattern,
    add_path,
    tree_pattern,
    without_self,
)
from xscl.syntax.printer import format_query, split_query


@dataclass(frozen=True, slots=True)
class Quantified:
    """A path under NOT or OR: from a node that passes `filters`, by `steps`, computing `value`."""

    base: PatternNode
    filters: tuple[ir.Expr, ...]
    steps: tuple[ir.Step, ...]
    value: ir.Expr | None


@dataclass(slots=True)
class NormalQuery:
    """A query in normal form. `joins` are pairs of pattern nodes with equal values. `windows` bound
    the duration of the composite of each operator, in the order of `operators_of`, and the last one
    that of the whole match: indexes of literals, None for no bound.

    `joined` names the nodes of value joins as the query writes them (`x2`, `x1/author`).
    `residuals` are the other predicates over several nodes: a `NodeValue` is one of `operands`, a
    `SomeNode` one of `quantified`.
    `nested` are the queries in FROM, whose results this one reads.
    """

    id: str
    resolved: ResolvedQuery
    blocks: list[TreePattern]
    operators: Tree
    windows: tuple[int | None, ...]
    select: ir.Select
    joins: list[tuple[PatternNode, PatternNode]]
    variables: dict[str, PatternNode]
    joined: list[tuple[ir.Written, PatternNode]]
    residuals: list[ir.Expr] = field(default_factory=list)
    operands: list[PatternNode] = field(default_factory=list)
    quantified: list[Quantified] = field(default_factory=list)
    nested: list[ResolvedQuery] = field(default_factory=list)

    @property
    def named(self) -> list[str]:
        """The variables that SELECT names, in order; none for `*`."""
        if self.select is None:
            return []
        exprs = (
            _expressions(self.select)
            if isinstance(self.select, ir.Element)
            else (item.expr for item in self.select)
        )
        found = (path.variable for expr in exprs for path in ir.variable_paths(expr))
        return list(dict.fromkeys(found))

    def block_of(self, node: PatternNode) -> int:
        return next(i for i, block in enumerate(self.blocks) if any(n is node for n in block.nodes))


def _expressions(element: ir.Element) -> Iterator[ir.Expr]:
    for part in [*(p for _, parts in element.attributes for p in parts), *element.content]:
        if isinstance(part, ir.Element):
            yield from _expressions(part)
        elif not isinstance(part, str):
            yield part


def normalize(resolved: ResolvedQuery, lowering: Lowering | None = None) -> NormalQuery:
    """The normal form of a query that passed all checks, with parameters for its literals unless
    another lowering is given."""
    query = resolved.query
    blocks: list[TreePattern] = []
    predicates: list[ast.Expr | None] = []
    nested: list[ResolvedQuery] = []
    lowering = lowering or Lowering(resolved.namespaces, query)
    windows: list[ast.Duration | None] = []
    operators = _flatten(
        query.pattern, lowering, resolved.namespaces, blocks, predicates, windows, nested
    )
    windows.append(query.within)
    predicates.append(query.where)
    variables = {name: node for block in blocks for node in block.nodes for name in node.names}
    normal = NormalQuery(
        id=resolved.id,
        resolved=resolved,
        blocks=blocks,
        operators=operators,
        windows=tuple([lowering.window(window) for window in windows]),
        select=lowering.select(query.select),
        joins=[],
        variables=variables,
        joined=[],
        nested=nested,
    )
    for predicate in predicates:
        if predicate is not None:
            for part in ir.conjuncts(lowering.expression(predicate)):
                _place(normal, part)
    return normal


_OPERATORS: Mapping[str, type[Join] | type[FollowedBy]] = {
    "JOIN": Join,
    "FOLLOWED BY": FollowedBy,
}
"""The operators, by keyword."""


def _flatten(
    pattern: ast.Pattern,
    lowering: Lowering,
    namespaces: Mapping[str, str],
    blocks: list[TreePattern],
    predicates: list[ast.Expr | None],
    windows: list[ast.Duration | None],
    nested: list[ResolvedQuery],
) -> Tree:
    match pattern:
        case ast.Block():
            blocks.append(tree_pattern(pattern.stream, pattern.steps, lowering))
            return len(blocks) - 1
        case ast.Nested():
            inner = nested_query(pattern, namespaces)
            nested.append(inner)
            blocks.append(tree_pattern(inner.id, pattern.steps, lowering))
            return len(blocks) - 1
        case ast.Join():
            left, right = (
                _flatten(side, lowering, namespaces, blocks, predicates, windows, nested)
                for side in (pattern.left, pattern.right)
            )
            predicates.append(pattern.predicate)
            windows.append(pattern.window)
            return _OPERATORS[pattern.kind](left, right)
        case _:
            raise TypeError("event patterns have no value-join normal form")


def _place(normal: NormalQuery, part: ir.Expr) -> None:
    used = ir.variable_paths(part)
    if len({path.variable for path in used}) == 1:
        local = _local(part)
        if local is not None:
            normal.variables[used[0].variable].filters.append(local)
            return
    if isinstance(part, ir.Comparison) and part.comparator is ir.Comparator.EQUAL:
        left, right = ir.variable_paths(part.left), ir.variable_paths(part.right)
        numeric = ir.is_number(part.left) or ir.is_number(part.right)
        # The computed value of a node is a single one, so several strings are left to the residual.
        several = ir.is_several(part.left) or ir.is_several(part.right)
        if len(left) == len(right) == 1 and not (numeric and several):
            a = _value_node(normal, part.left, left[0], numeric)
            b = _value_node(normal, part.right, right[0], numeric)
            normal.joins.append((a, b))
            return
    normal.residuals.append(_Residual(normal).place(part, True))


class _Residual:
    """Replaces the paths of a residual predicate by operands, or by quantified paths."""

    def __init__(self, normal: NormalQuery) -> None:
        self.normal = normal

    def place(self, part: ir.Expr, positive: bool) -> ir.Expr:
        match part:
            case ir.And():
                return ir.And(tuple([self.place(p, positive) for p in part.parts]))
            case ir.Or():
                return ir.Or(tuple([self.place(p, False) for p in part.parts]))
            case ir.Not():
                return ir.Not(self.place(part.part, False))
            case ir.Comparison():
                left, right = self.value(part.left, positive), self.value(part.right, positive)
                return ir.Comparison(part.comparator, left, right)
            case _:
                return self.value(part, positive)

    def value(self, expr: ir.Expr, positive: bool) -> ir.Expr:
        """A value, of which each part that depends on one node only becomes a value of that node,
        computed in stage 1."""
        used = ir.variable_paths(expr)
        if len(used) == 1 and not ir.is_condition(expr):
            return self.operand(expr, used[0], positive)
        match expr:
            case ir.Call():
                return ir.Call(expr.name, tuple([self.value(a, positive) for a in expr.args]))
            case ir.Arithmetic():
                left, right = self.value(expr.left, positive), self.value(expr.right, positive)
                return ir.Arithmetic(expr.calculation, left, right)
            case _:
                return expr

    def operand(self, expr: ir.Expr, path: ir.VariablePath, positive: bool) -> ir.Expr:
        normal, numeric = self.normal, ir.is_number(expr)
        # Several strings are quantified existentially too, also under NOT.
        if positive or not (path.steps or ir.is_several(expr)):
            normal.operands.append(_value_node(normal, expr, path, False))
            return ir.NodeValue(len(normal.operands) - 1, numeric)
        filters, steps = without_self(path.steps)
        value = _at_the_node(expr)
        computed = None if value == ir.HERE else value
        base = normal.variables[path.variable]
        normal.quantified.append(Quantified(base, filters, steps, computed))
        return ir.SomeNode(len(normal.quantified) - 1, numeric)


def _at_the_node(expr: ir.Expr) -> ir.Expr:
    """An expression over variables as one over the node that the variables stand for."""
    return ir.map_leaves(expr, lambda leaf: ir.HERE if isinstance(leaf, ir.VariablePath) else leaf)


def _local(part: ir.Expr) -> ir.Expr | None:
    """A predicate over one variable as a filter of its node; None if there is no such filter.

    A path is quantified existentially: `contains(x/a, 'b')` is `./a[contains(., 'b')]`, although
    XPath would take the first `a` only.
    """
    match part:
        case ir.And() | ir.Or():
            parts = [_local(p) for p in part.parts]
            known = tuple([p for p in parts if p is not None])
            if len(known) < len(parts):
                return None
            return ir.And(known) if isinstance(part, ir.And) else ir.Or(known)
        case ir.Not():
            inner = _local(part.part)
            return None if inner is None else ir.Not(inner)
        case ir.VariablePath():
            return ir.Path(part.steps)
    used = ir.variable_paths(part)
    bare = _at_the_node(part)
    if not any(path.steps for path in used):
        return bare
    if len(used) > 1:
        return None
    *above, last = used[0].steps
    return ir.Path((*above, replace(last, filters=canonical_filters((*last.filters, bare)))))


def _value_node(
    normal: NormalQuery, expr: ir.Expr, path: ir.VariablePath, numeric: bool
) -> PatternNode:
    """The node for one side of a value join; for a computed value, a node of its own."""
    node = _bound(normal, path)
    normal.joined.append((path.written, node))
    value = _at_the_node(expr)
    if numeric and not ir.is_number(value):
        value = ir.Call("number", (value,))
    if value == ir.HERE:
        return node
    block = normal.blocks[normal.block_of(node)]
    computed = PatternNode(node, None, value)
    block.nodes.append(computed)
    return computed


def _bound(normal: NormalQuery, path: ir.VariablePath) -> PatternNode:
    node = normal.variables[path.variable]
    if not path.steps:
        return node
    return add_path(normal.blocks[normal.block_of(node)], node, path.steps)


def nested_query(pattern: ast.Nested, namespaces: Mapping[str, str]) -> ResolvedQuery:
    """The nested query as a query of its own. The name of the stream that it publishes is derived
    from its text, so that equal queries share it; users cannot write such a name."""
    text = format_query(pattern.query)
    _, form, literals = split_query(pattern.query)
    used = sorted((p, u) for p, u in namespaces.items() if f"{p}:" in text)
    digest = hashlib.blake2b(repr((text, used)).encode("utf-8", "surrogatepass"), digest_size=8)
    name = f"~{digest.hexdigest()}"
    query = replace(pattern.query, label=None, publish=name)
    return ResolvedQuery(name, query, namespaces, text, f"{used}{form}", literals)

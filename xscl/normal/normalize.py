"""Value-join normal form (dissertation, section 6.3): a query as tree patterns and value joins.

In comes a checked query; out comes a `NormalQuery`, in which every predicate has found its place:

- what speaks of one node only is pushed into the filters of that node;
- an equality between values of two nodes is a value join;
- a path in a predicate (`x1/author`) has become a binding of its block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xscl import ast
from xscl.check.program import ResolvedQuery
from xscl.functions.table import FUNCTIONS
from xscl.normal.operators import FollowedBy, Join, Tree
from xscl.normal.treepattern import (
    NOWHERE,
    PatternNode,
    TreePattern,
    add_path,
    conjuncts,
    map_paths,
    paths,
    resolve_names,
    resolved_steps,
    tree_pattern,
    without_self,
)
from xscl.syntax.printer import format_expression, format_query


@dataclass(frozen=True, slots=True)
class Quantified:
    """A path under NOT or OR: from a node that passes `filters`, by `steps`, computing `value`."""

    base: PatternNode
    filters: tuple[ast.Expr, ...]
    steps: tuple[ast.Step, ...]
    value: ast.Expr | None


@dataclass(slots=True)
class NormalQuery:
    """`joins` are pairs of pattern nodes with equal values. `windows` bound how long the composite of
    each of `operators_of` the tree lasts, and the last one the whole match, in microseconds; None: no
    bound.

    `joined` names the nodes whose values are compared as the query writes them (`x2`, `x1/author`).
    `residuals` are the other predicates over several nodes, as expressions over `operands` and
    `quantified`.
    `nested` are the queries in FROM, whose results this one reads.
    """

    id: str
    resolved: ResolvedQuery
    blocks: list[TreePattern]
    operators: Tree
    windows: tuple[int | None, ...]
    joins: list[tuple[PatternNode, PatternNode]]
    variables: dict[str, PatternNode]
    joined: list[tuple[str, PatternNode]]
    residuals: list[ast.Expr] = field(default_factory=list)
    operands: list[PatternNode] = field(default_factory=list)
    quantified: list[Quantified] = field(default_factory=list)
    nested: list[ResolvedQuery] = field(default_factory=list)

    def block_of(self, node: PatternNode) -> int:
        return next(i for i, block in enumerate(self.blocks) if any(n is node for n in block.nodes))


def normalize(resolved: ResolvedQuery) -> NormalQuery:
    """The normal form of a query that passed all checks."""
    query = resolved.query
    blocks: list[TreePattern] = []
    predicates: list[ast.Expr] = []
    nested: list[ResolvedQuery] = []
    windows: list[ast.Duration | None] = []
    operators = _flatten(query.pattern, resolved.namespaces, blocks, predicates, windows, nested)
    windows.append(query.within)
    variables = {name: node for block in blocks for node in block.nodes for name in node.names}
    normal = NormalQuery(
        id=resolved.id,
        resolved=resolved,
        blocks=blocks,
        operators=operators,
        windows=tuple([window.microseconds if window else None for window in windows]),
        joins=[],
        variables=variables,
        joined=[],
        nested=nested,
    )
    for predicate in [*predicates, *conjuncts(query.where)]:
        _place(normal, predicate)
    return normal


_OPERATORS: Mapping[str, type[Join] | type[FollowedBy]] = {
    "JOIN": Join,
    "FOLLOWED BY": FollowedBy,
}
"""By the word of the language."""


def _flatten(
    pattern: ast.Pattern,
    namespaces: Mapping[str, str],
    blocks: list[TreePattern],
    predicates: list[ast.Expr],
    windows: list[ast.Duration | None],
    nested: list[ResolvedQuery],
) -> Tree:
    match pattern:
        case ast.Block():
            blocks.append(tree_pattern(pattern.stream, pattern.steps, namespaces))
            return len(blocks) - 1
        case ast.Nested():
            inner = nested_query(pattern, namespaces)
            nested.append(inner)
            return _flatten(
                ast.Block(inner.id, pattern.steps, span=pattern.span),
                namespaces,
                blocks,
                predicates,
                windows,
                nested,
            )
        case ast.Join():
            left = _flatten(pattern.left, namespaces, blocks, predicates, windows, nested)
            right = _flatten(pattern.right, namespaces, blocks, predicates, windows, nested)
            predicates.extend(conjuncts(pattern.predicate))
            windows.append(pattern.window)
            return _OPERATORS[pattern.kind](left, right)


def _place(normal: NormalQuery, part: ast.Expr) -> None:
    used = list(paths(part))
    if len({path.variable for path in used}) == 1:
        local = _local(part)
        if local is not None:
            assert used[0].variable is not None
            normal.variables[used[0].variable].filters.append(
                resolve_names(local, normal.resolved.namespaces)
            )
            return
    if isinstance(part, ast.Comparison) and part.op == "=" and len(used) == 2:
        left, right = list(paths(part.left)), list(paths(part.right))
        if len(left) == len(right) == 1:
            numeric = is_number(part.left) or is_number(part.right)
            a = _value_node(normal, part.left, left[0], numeric)
            b = _value_node(normal, part.right, right[0], numeric)
            normal.joins.append((a, b))
            return
    normal.residuals.append(_Residual(normal).place(part, True))


class _Residual:
    """Gives the paths of a residual predicate their nodes.

    Afterwards the predicate is an expression over references: `#i` is the value of the i-th of
    `normal.operands`, `?i` that of the i-th of `normal.quantified`, some node of which there has to
    be for the comparison to hold.
    """

    def __init__(self, normal: NormalQuery) -> None:
        self.normal = normal

    def place(self, part: ast.Expr, positive: bool) -> ast.Expr:
        match part:
            case ast.And() | ast.Or():
                positive = positive and isinstance(part, ast.And)
                return replace(part, parts=tuple(self.place(p, positive) for p in part.parts))
            case ast.Not():
                return ast.Not(self.place(part.part, False), span=part.span)
            case ast.Comparison():
                left, right = (self.value(side, positive) for side in (part.left, part.right))
                return replace(part, left=left, right=right)
            case _:
                return self.value(part, positive)

    def value(self, expr: ast.Expr, positive: bool) -> ast.Expr:
        """What depends on one node alone is computed where the node is witnessed."""
        used = list(paths(expr))
        if len(used) == 1 and not _is_condition(expr):
            return self.operand(expr, used[0], positive)
        match expr:
            case ast.Call():
                return replace(expr, args=tuple(self.value(a, positive) for a in expr.args))
            case ast.Arithmetic():
                left, right = self.value(expr.left, positive), self.value(expr.right, positive)
                return replace(expr, left=left, right=right)
            case _:
                return expr

    def operand(self, expr: ast.Expr, path: ast.Path, positive: bool) -> ast.Expr:
        normal = self.normal
        if path.steps and not positive:
            assert path.variable is not None
            base = normal.variables[path.variable]
            steps = resolved_steps(path.steps, normal.resolved.namespaces)
            filters, steps = without_self(steps)
            here = ast.Path(None, (), span=NOWHERE)
            value = map_paths(expr, lambda _: here)
            computed = None if value == here else value
            normal.quantified.append(Quantified(base, filters, steps, computed))
            name = f"?{len(normal.quantified) - 1}"
        else:
            node = _value_node(normal, expr, path, False)
            normal.operands.append(node)
            name = f"#{len(normal.operands) - 1}"
        reference = ast.Path(name, (), span=NOWHERE)
        # A computed number stays one by its form, so that comparisons know.
        return ast.Call("number", (reference,), span=NOWHERE) if is_number(expr) else reference


def _is_condition(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Call) and FUNCTIONS[expr.name].result == "boolean"


def _local(part: ast.Expr) -> ast.Expr | None:
    """A predicate over one variable as a filter of its node; None where a filter cannot say it.

    "Some such node" of a path becomes the existence of one that passes: `contains(x/a, 'b')` is
    `./a[contains(., 'b')]`, also where XPath would look at the first `a` alone.
    """
    match part:
        case ast.And() | ast.Or():
            parts = [_local(p) for p in part.parts]
            known = tuple(p for p in parts if p is not None)
            return replace(part, parts=known) if len(known) == len(parts) else None
        case ast.Not():
            inner = _local(part.part)
            return None if inner is None else ast.Not(inner, span=part.span)
    used = list(paths(part))
    here = ast.Path(None, (), span=NOWHERE)
    bare = map_paths(part, lambda _: here)
    if not any(path.steps for path in used):
        return bare
    if len(used) > 1:
        return None
    *above, last = used[0].steps
    last = replace(last, filters=(*last.filters, bare))
    return ast.Path(None, (*above, last), span=part.span)


def _value_node(normal: NormalQuery, expr: ast.Expr, path: ast.Path, numeric: bool) -> PatternNode:
    """The node whose value one side of a value join is, perhaps computed."""
    node = _bound(normal, path)
    normal.joined.append((format_expression(path), node))
    here = ast.Path(None, (), span=NOWHERE)
    value = map_paths(expr, lambda _: here)
    if numeric and not is_number(value):
        value = ast.Call("number", (value,), span=NOWHERE)
    if value == here:
        return node
    block = normal.blocks[normal.block_of(node)]
    computed = PatternNode(node, None, value)
    block.nodes.append(computed)
    return computed


def _bound(normal: NormalQuery, path: ast.Path) -> PatternNode:
    assert path.variable is not None
    node = normal.variables[path.variable]
    if not path.steps:
        return node
    block = normal.blocks[normal.block_of(node)]
    return add_path(block, node, path.steps, normal.resolved.namespaces)


def is_number(expr: ast.Expr) -> bool:
    """Whether an expression's value is a number by its form, so that a comparison is numeric."""
    match expr:
        case ast.Number() | ast.Arithmetic():
            return True
        case ast.Call():
            return FUNCTIONS[expr.name].result == "number"
        case _:
            return False


def nested_query(pattern: ast.Nested, namespaces: Mapping[str, str]) -> ResolvedQuery:
    """The query in parentheses as one of its own. It publishes a stream that is named by what it
    says, so that equal ones are one; no stream that a user can write has such a name."""
    text = format_query(pattern.query)
    used = sorted((p, u) for p, u in namespaces.items() if f"{p}:" in text)
    digest = hashlib.blake2b(repr((text, used)).encode("utf-8", "surrogatepass"), digest_size=8)
    name = f"~{digest.hexdigest()}"
    query = replace(pattern.query, label=None, publish=name)
    return ResolvedQuery(name, query, namespaces, text)

"""Join graphs and their minors (dissertation, section 6.4).

The join graph of a query has the nodes of its tree patterns, the structural edges between them and
the value-join edges between them. Its minor keeps only the nodes that stage 2 needs: the
*terminals* (nodes that a value join or SELECT names) and their lowest common ancestors. An edge of
the minor stands for the pairs of document nodes that the pattern itself relates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xscl.normal import ir
from xscl.normal.canonical import canonical_filters
from xscl.normal.normalize import NormalQuery
from xscl.normal.operators import Tree
from xscl.normal.treepattern import (
    Definition,
    PatternNode,
    TreePattern,
    definition,
    fold,
)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the minor. `parent` is an index into the graph's nodes, None at a block's top."""

    block: int
    parent: int | None
    definition: Definition


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """`nodes` come block by block, parents first. `joins` are index pairs, the smaller one first.

    `selected` are the nodes that make matches distinct, in the order of SELECT. `variables` maps
    each variable whose values a match reports, as it is written, to its node. In `residuals`, a
    `NodeValue` is one of a node of the graph, a `SomeNode` one of `quantified`, a definition below
    a node. `windows` are those of the normal form.
    """

    nodes: tuple[GraphNode, ...]
    joins: tuple[tuple[int, int], ...]
    operators: Tree
    windows: tuple[int | None, ...]
    selected: tuple[int, ...]
    variables: tuple[tuple[ir.Written, int], ...]
    residuals: tuple[ir.Expr, ...] = ()
    quantified: tuple[tuple[int, Definition], ...] = ()

    @property
    def blocks(self) -> int:
        return self.nodes[-1].block + 1


def join_graph(query: NormalQuery) -> JoinGraph:
    """The reduced join graph of a query."""
    star, names = query.select is None, query.named
    selected = [b.selected for b in query.blocks] if star else [query.variables[n] for n in names]
    terminals = [*selected, *(node for pair in query.joins for node in pair)]
    terminals += query.operands + [path.base for path in query.quantified]
    nodes: list[GraphNode] = []
    index: dict[int, int] = {}
    for number, block in enumerate(query.blocks):
        own = [n for n in terminals if any(n is m for m in block.nodes)] or [block.selected]
        fold(block, own)
        kept = _closure(block, own)
        placed: list[tuple[Definition, PatternNode]] = [
            (definition(block.stream, node), node) for node in kept
        ]
        for defined, node in placed:
            above = _kept_ancestor(node, index)
            index[id(node)] = len(nodes)
            nodes.append(GraphNode(number, above, defined))
    joins = {tuple(sorted((index[id(a)], index[id(b)]))) for a, b in query.joins}
    quantified = []
    for path in query.quantified:
        base = index[id(path.base)]
        at = nodes[base].definition
        last = at.steps[-1]
        last = replace(last, filters=canonical_filters((*last.filters, *path.filters)))
        steps = (*at.steps[:-1], last, *path.steps)
        quantified.append((base, Definition(at.stream, steps, path.value)))
    reported = dict(query.joined)
    if not star:
        reported |= {(name,): query.variables[name] for name in names}
    return JoinGraph(
        nodes=tuple(nodes),
        joins=tuple(sorted((a, b) for a, b in joins)),
        operators=query.operators,
        windows=query.windows,
        selected=tuple(index[id(node)] for node in selected),
        residuals=tuple(
            ir.map_leaves(part, lambda leaf: _by_index(leaf, query, index))
            for part in query.residuals
        ),
        quantified=tuple(quantified),
        variables=tuple(
            (name, _standing_on(node, index, query)) for name, node in reported.items()
        ),
    )


def _by_index(leaf: ir.Leaf, query: NormalQuery, index: dict[int, int]) -> ir.Leaf:
    if not isinstance(leaf, ir.NodeValue):
        return leaf
    return ir.NodeValue(index[id(query.operands[leaf.node])], leaf.numeric)


def _standing_on(node: PatternNode, index: dict[int, int], query: NormalQuery) -> int:
    """The graph node whose document nodes a match lists for a reported pattern node: the node
    itself if it is in the graph, else a value computed from it, which has the same nodes."""
    compared = {id(n) for pair in query.joins for n in pair} | {id(n) for n in query.operands}
    computed = (
        other
        for block in query.blocks
        for other in block.nodes
        if other.parent is node and other.value is not None and id(other) in compared
    )
    found = node if id(node) in compared else next(computed, node)
    return index[id(found)]


def _closure(block: TreePattern, terminals: list[PatternNode]) -> list[PatternNode]:
    """Terminals and the lowest common ancestors of any two of them, parents first."""
    wanted = {id(n) for n in terminals}
    branches: dict[int, int] = {}
    for node in block.nodes:
        if node.parent is not None:
            branches[id(node.parent)] = branches.get(id(node.parent), 0) + 1
    # After folding every leaf is a terminal, so two branches below a node hold two terminals.
    return [n for n in block.nodes if id(n) in wanted or branches.get(id(n), 0) > 1]


def _kept_ancestor(node: PatternNode, index: dict[int, int]) -> int | None:
    above = node.parent
    while above is not None and id(above) not in index:
        above = above.parent
    return None if above is None else index[id(above)]

"""Query templates (dissertation, section 6.4): join graphs up to isomorphism.

Queries whose reduced join graphs have one shape share one template, and so one conjunctive query;
their differences (the variables at the nodes, the windows) are a row of parameters. In: a
`JoinGraph`. Out: the `Template` and the position in it of each node of the graph.

Two graphs of one shape get one canonical form: colours are refined until stable, ties are broken
by trying each candidate, and the smallest result is taken. The search is bounded; a graph so
symmetrical that the search reaches the bound may get a template of its own, which then is not
shared but correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xscl.normal import ir
from xscl.normal.joingraph import JoinGraph
from xscl.normal.operators import Tree
from xscl.normal.text import plain

Shape = tuple[
    tuple[tuple[int, int | None, bool], ...],  # per node: block, parent, computed value of parent
    tuple[tuple[int, int], ...],  # value joins
]

_SEARCH_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Template:
    """`nodes` gives block and parent of each position, block by block, parents first.

    `joins` are pairs of positions whose values are equal. `operators` is the tree of join
    operators over blocks. In `residuals` a `NodeValue` is the value at a position, a `SomeNode`
    that of some node below position `quantified[i]`, and a `Parameter` one in a row of RT, like the
    variables.
    """

    nodes: tuple[tuple[int, int | None], ...]
    joins: tuple[tuple[int, int], ...]
    operators: Tree
    residuals: tuple[ir.Expr, ...] = ()
    quantified: tuple[int, ...] = ()

    @property
    def blocks(self) -> int:
        return self.nodes[-1][0] + 1

    @property
    def windows(self) -> int:
        """The number of windows of a query: one per operator, and one for the whole match."""
        return self.blocks

    def block_positions(self, block: int) -> list[int]:
        return [i for i, (own, _) in enumerate(self.nodes) if own == block]

    def valued(self, position: int) -> bool:
        """Whether the value at a position is part of a value join."""
        return any(position in pair for pair in self.joins)

    def read(self, position: int) -> bool:
        """Whether a residual predicate reads the value at a position."""
        return any(
            isinstance(leaf, ir.NodeValue) and leaf.node == position
            for part in self.residuals
            for leaf in ir.leaves(part)
        )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A graph fitted to its template: for each of its nodes the position and the text of its
    definition, and for each of the template's parameters the index of the literal."""

    template: Template
    positions: tuple[int, ...]
    texts: tuple[ir.Written, ...]
    parameters: tuple[int, ...]


def template(graph: JoinGraph) -> Fitted:
    """The template of a graph, and how the graph fits it.

    Nodes that are symmetrical in the shape are ordered by their definitions, so that graphs that
    differ only in the order of writing get equal rows.
    """
    texts = tuple([node.definition.written() for node in graph.nodes])
    order = _by_definition(graph, [*map(plain, texts)])
    rank = {node: i for i, node in enumerate(order)}
    shape = tuple(
        (node.block, None if node.parent is None else rank[node.parent])
        for node in (graph.nodes[i] for i in order)
    )
    ranked = sorted((min(rank[a], rank[b]), max(rank[a], rank[b])) for a, b in graph.joins)
    key = (shape, tuple(ranked))
    known = _cache.get(key)
    if known is None:
        if len(_cache) > 100_000:
            _cache.clear()
        known = _cache[key] = _canonical(shape, ranked)
    nodes, joins, placed = known
    positions = tuple([placed[rank[i]] for i in range(len(order))])
    parameters: list[int] = []
    residuals = tuple([_residual(part, positions, parameters) for part in graph.residuals])
    quantified = tuple(positions[base] for base, _ in graph.quantified)
    fits = Template(nodes, joins, graph.operators, residuals, quantified)
    return Fitted(fits, positions, texts, tuple(parameters))


def _by_definition(graph: JoinGraph, texts: Sequence[str]) -> list[int]:
    """The graph's nodes ordered by block, parents first, then by definition."""
    depth: list[int] = []
    for node in graph.nodes:
        depth.append(0 if node.parent is None else depth[node.parent] + 1)
    keys = [
        (node.block, level, text)
        for node, level, text in zip(graph.nodes, depth, texts, strict=True)
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _residual(part: ir.Expr, positions: tuple[int, ...], parameters: list[int]) -> ir.Expr:
    """A residual with positions for nodes and the template's own parameters for the query's."""

    def change(leaf: ir.Leaf) -> ir.Leaf:
        if isinstance(leaf, ir.Parameter):
            parameters.append(leaf.index)
            return ir.Parameter(len(parameters) - 1, leaf.numeric)
        if isinstance(leaf, ir.NodeValue):
            return ir.NodeValue(positions[leaf.node], leaf.numeric)
        return leaf

    return ir.map_leaves(part, change)


_Canonical = tuple[tuple[tuple[int, int | None], ...], tuple[tuple[int, int], ...], tuple[int, ...]]
_cache: dict[object, _Canonical] = {}


def _canonical(
    shape: Sequence[tuple[int, int | None]], joins: Sequence[tuple[int, int]]
) -> _Canonical:
    size = len(shape)
    children: list[list[int]] = [[] for _ in range(size)]
    partners: list[list[int]] = [[] for _ in range(size)]
    depth = [0] * size
    for node, (_, parent) in enumerate(shape):
        if parent is not None:
            children[parent].append(node)
            depth[node] = depth[parent] + 1
    for a, b in joins:
        partners[a].append(b)
        partners[b].append(a)

    def refine(colours: list[int]) -> list[int]:
        return _refined(colours, shape, children, partners)

    best: list[_Canonical] = []
    visited = 0

    def search(colours: list[int]) -> None:
        nonlocal visited
        cells: dict[int, list[int]] = {}
        for node, colour in enumerate(colours):
            cells.setdefault(colour, []).append(node)
        tied = next((cells[c] for c in sorted(cells) if len(cells[c]) > 1), None)
        if tied is None:
            visited += 1
            candidate = _numbered(shape, joins, colours)
            if not best or _order(candidate) < _order(best[0]):
                best[:] = [candidate]
            return
        for node in tied:
            if visited >= _SEARCH_LIMIT and best:
                return
            split = [2 * c for c in colours]
            split[node] -= 1
            search(refine(split))

    start = [(shape[node][0], depth[node]) for node in range(size)]
    rank = {key: i for i, key in enumerate(sorted(set(start)))}
    search(refine([rank[key] for key in start]))
    return best[0]


def _refined(
    colours: list[int],
    shape: Sequence[tuple[int, int | None]],
    children: list[list[int]],
    partners: list[list[int]],
) -> list[int]:
    """The coarsest stable refinement: nodes of equal colours have neighbours of equal colours."""
    while True:
        signature = [
            (
                colours[node],
                -1 if parent is None else colours[parent],
                tuple(sorted(colours[c] for c in children[node])),
                tuple(sorted(colours[p] for p in partners[node])),
            )
            for node, (_, parent) in enumerate(shape)
        ]
        rank = {key: i for i, key in enumerate(sorted(set(signature)))}
        refined = [rank[key] for key in signature]
        if len(rank) == len(set(colours)):
            return refined
        colours = refined


def _order(candidate: _Canonical) -> tuple[list[tuple[int, int]], tuple[tuple[int, int], ...]]:
    """The key by which candidates are compared; a node without a parent comes first."""
    nodes, joins, _ = candidate
    return [(block, -1 if parent is None else parent) for block, parent in nodes], joins


def _numbered(
    shape: Sequence[tuple[int, int | None]],
    joins: Sequence[tuple[int, int]],
    colours: Sequence[int],
) -> _Canonical:
    """The graph renumbered by a discrete colouring, in which block and depth come first."""
    order = sorted(range(len(shape)), key=lambda node: colours[node])
    position = [0] * len(shape)
    for new, old in enumerate(order):
        position[old] = new
    nodes = []
    for old in order:
        block, parent = shape[old]
        nodes.append((block, None if parent is None else position[parent]))
    pairs = sorted((min(position[a], position[b]), max(position[a], position[b])) for a, b in joins)
    return tuple(nodes), tuple(pairs), tuple(position)

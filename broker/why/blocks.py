"""What a block asks of a document, one condition after the other.

In: a block of the syntax tree. Out: its *conditions*, each of which includes those before it: the
first that a document does not satisfy is where it fails; and the *rows* of a document that passes,
one for each choice of the nodes that predicates read.

Conditions are edges of a matcher of their own, so documents are judged as stage 1 judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from broker.pattern.conditions import compile_condition
from broker.pattern.instances import Row
from broker.pattern.values import Scope, names, path_text, paths
from broker.state.stored_documents import StoredDocument
from xscl import ast
from xscl.check.sites import bound_in
from xscl.kinds import positional
from xscl.normal import ir
from xscl.normal.lower import NOWHERE, Lowering, complete_steps, unbound
from xscl.normal.treepattern import Definition, tree_pattern
from xscl.stage1 import xpath
from xscl.stage1.tree import Tree
from xscl.stage1.witness import Edge
from xscl.syntax.printer import format_expression, format_pattern

MOST_ROWS = 10_000
"""The most rows of a document and a block; more say nothing more to people."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`text` is what is asked last. `steps` is the block up to it, without variables. `origin` are
    the steps to the nodes at which it is asked, `step` or `filter` what is asked there."""

    text: str
    steps: tuple[ast.Step, ...]
    origin: tuple[ast.Step, ...]
    step: ast.Step | None = None
    filter: ast.Expr | None = None


def conditions(block: ast.Block) -> list[Condition]:
    """The conditions of a block, in the order in which they are written."""
    return [*_of_path(unbound(block.steps))]


def _of_path(path: tuple[ast.Step, ...]) -> Iterator[Condition]:
    for at, step in enumerate(path):
        before = path[:at]
        bare = replace(step, filters=())
        if not (step.test.kind == "self" and step.axis == "/"):
            yield Condition(_path_text((*before, bare)), (*before, bare), before, step=bare)
        for filters, inner in _growing(step.filters):
            here = (*before, replace(step, filters=(*filters, inner.whole)))
            origin = (*before, replace(step, filters=filters), *inner.origin)
            yield Condition(inner.text, here, origin, inner.step, inner.filter)


@dataclass(frozen=True, slots=True)
class _Inner:
    """A condition inside a step: `whole` is a filter that asks for it and what is before it."""

    text: str
    whole: ast.Expr
    origin: tuple[ast.Step, ...]
    step: ast.Step | None
    filter: ast.Expr | None


def _growing(
    filters: tuple[ast.Expr, ...],
) -> Iterator[tuple[tuple[ast.Expr, ...], _Inner]]:
    """The conditions of filters, each with the filters before it."""
    before: tuple[ast.Expr, ...] = ()
    for part in filters:
        for each in _conjuncts(part):
            for inner in _inside(each):
                yield before, inner
            before = (*before, each)


def _conjuncts(part: ast.Expr) -> list[ast.Expr]:
    """The conjuncts of a filter; one that counts positions stays whole."""
    if isinstance(part, ast.And) and not positional(part):
        return [each for inner in part.parts for each in _conjuncts(inner)]
    return [part]


def _inside(part: ast.Expr) -> Iterator[_Inner]:
    """The conditions of one filter: the steps of a path one by one, and those of what a comparison
    compares before the comparison."""
    if is_plain_path(part):
        assert isinstance(part, ast.Path)
        for each in _of_path(part.steps):
            whole = ast.Path(None, each.steps, span=NOWHERE)
            text = each.text if each.step is None else f".{each.text}"
            yield _Inner(text, whole, each.origin, each.step, each.filter)
        return
    if isinstance(part, ast.Comparison):
        for side in (part.left, part.right):
            if is_plain_path(side):
                yield from _inside(side)
    yield _Inner(f"[{format_expression(part, True)}]", part, (), None, part)


def is_plain_path(part: ast.Expr) -> bool:
    """Whether an expression is a relative path of the axes that blocks have."""
    return (
        isinstance(part, ast.Path)
        and part.variable is None
        and bool(part.steps)
        and all(
            step.test.axis is None
            and step.test.kind in ("element", "attribute", "text", "self")
            and not (step.test.kind == "self" and step.axis == "/")
            for step in part.steps
        )
    )


def _path_text(steps: Sequence[ast.Step]) -> str:
    bare = tuple([replace(step, filters=()) for step in steps])
    return format_pattern(ast.Block("", bare, span=NOWHERE))


# -- rows ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Link:
    """A step compiled: its nodes from a node; the variable it binds, if a predicate reads it; the
    paths in its filters that bind such ones; whether it or a step behind it binds any."""

    nodes: Callable[[Tree, int], list[int]]
    variable: str | None
    branches: tuple[tuple[_Link, ...], ...]
    binds: bool


class Embedder:
    """Finds the choices of nodes of a block's variables in a document that passes it."""

    def __init__(self, block: ast.Block, used: frozenset[str], lowering: Lowering) -> None:
        self._lowering = lowering
        self._used = used
        self._chain = self._compiled(block.steps)
        self.variables = tuple([name for name in bound_in(block.steps) if name in used])

    def _compiled(self, steps: Sequence[ast.Step]) -> tuple[_Link, ...]:
        links: list[_Link] = []
        binds = False
        for step in reversed(steps):
            branches = tuple(
                [
                    self._compiled(part.steps)
                    for whole in step.filters
                    for part in _conjuncts(whole)
                    if isinstance(part, ast.Path) and self._used.intersection(bound_in(part.steps))
                ]
            )
            variable = step.variable if step.variable in self._used else None
            binds = binds or variable is not None or bool(branches)
            links.append(_Link(self.reader((step,)), variable, branches, binds))
        return tuple(reversed(links))

    def reader(self, steps: Sequence[ast.Step]) -> Callable[[Tree, int], list[int]]:
        """A function from a node to those that steps lead to; steps without variables count."""
        lowered: tuple[ir.Step, ...] = self._lowering.steps(unbound(tuple(steps)))
        nodes = xpath.compile_nodes(ast.Path(None, complete_steps(lowered), span=NOWHERE))
        return lambda tree, node: nodes(tree, node, 1, 1)

    def choices(self, tree: Tree) -> Iterator[dict[str, int]]:
        """The distinct choices, MOST_ROWS at most."""
        seen: set[tuple[int, ...]] = set()
        for found in islice(_embed(tree, self._chain, 0, 0), 10 * MOST_ROWS):
            key = tuple([found[name] for name in self.variables])
            if key not in seen:
                seen.add(key)
                yield found
                if len(seen) >= MOST_ROWS:
                    return


def _embed(tree: Tree, chain: tuple[_Link, ...], at: int, node: int) -> Iterator[dict[str, int]]:
    if at == len(chain):
        yield {}
        return
    link = chain[at]
    for reached in link.nodes(tree, node):
        own = {} if link.variable is None else {link.variable: reached}
        inner = [[*_embed(tree, branch, 0, reached)] for branch in link.branches]
        for below in _embed(tree, chain, at + 1, reached):
            for choice in product(*inner):
                merged = dict(own)
                for each in choice:
                    merged.update(each)
                merged.update(below)
                yield merged
            if not link.binds:
                return


class BlockReader:
    """Judges documents for one block. `conjuncts` are the predicates that read this block alone;
    `used` are the paths that others read from its variables."""

    def __init__(
        self,
        number: int,
        block: ast.Block,
        conjuncts: Sequence[ast.Expr],
        predicates: Sequence[ast.Expr],
        namespaces: Mapping[str, str],
    ) -> None:
        self.number = number
        self.block = block
        self.conditions = conditions(block)
        self.conjuncts = tuple(conjuncts)
        self._holds = [compile_condition(each) for each in conjuncts]
        bound = frozenset(bound_in(block.steps))
        read = [p for each in (*conjuncts, *predicates) for p in paths(each)]
        self.paths = {path_text(p): p for p in read if p.variable in bound}
        used = frozenset([p.variable or "" for p in self.paths.values()])
        self.lowering = Lowering(namespaces)
        self.embedder = Embedder(block, used, self.lowering)
        self._readers = {
            text: (p.variable or "", self.embedder.reader(p.steps) if p.steps else None)
            for text, p in self.paths.items()
        }

    @property
    def asked(self) -> list[str]:
        """All conditions, in words: those of the block, then the predicates on it alone."""
        return [
            *(each.text for each in self.conditions),
            *(format_expression(each) for each in self.conjuncts),
        ]

    @property
    def shown(self) -> str:
        """The block as text; the stream of a query in FROM has no name."""
        text = format_pattern(self.block)
        return f"(a query){text[len(self.block.stream) :]}" if text.startswith("~") else text

    def edges(self, first: int) -> list[Edge]:
        """An edge for each condition, with numbers from `first` on."""
        made = []
        for number, each in enumerate(self.conditions, first):
            steps = lowered(self.block.stream, each.steps, self.lowering)
            made.append(Edge(number, 0, number, Definition(self.block.stream, steps), 0, False))
        return made

    def rows(self, document: StoredDocument, tree: Tree) -> list[Row]:
        """The rows of a document that satisfies the conditions, before its conjuncts are asked."""
        made = []
        for nodes in self.embedder.choices(tree):
            values = {
                text: [
                    tree.text(node)
                    for node in (
                        (nodes[variable],) if read is None else read(tree, nodes[variable])
                    )
                ]
                for text, (variable, read) in self._readers.items()
            }
            made.append(
                Row(
                    *(document.doc, document.key, document.base, document.start, document.end),
                    *(document.id, 0, nodes, values),
                )
            )
        return made

    def judged(self, rows: Sequence[Row]) -> tuple[int | None, list[Row]]:
        """The first conjunct that none of a document's rows satisfies with those before, None if
        there is none; and the rows that are left."""
        left = [*rows]
        for place, holds in enumerate(self._holds):
            kept = [row for row in left if holds(Scope(dict.fromkeys(row.nodes, row)))]
            if not kept:
                return place, left
            left = kept
        return None, left


def lowered(stream: str, steps: tuple[ast.Step, ...], lowering: Lowering) -> tuple[ir.Step, ...]:
    """Steps without variables, as the definition of the node that they lead to."""
    node = tree_pattern(stream, steps, lowering).selected
    found: list[ir.Step] = []
    while True:
        found.append(node.own_step())
        if node.parent is None:
            return tuple(reversed(found))
        node = node.parent


def blocks_named(expr: ast.Expr, home: Mapping[str, int]) -> frozenset[int]:
    """The numbers of the blocks that a predicate reads."""
    return frozenset([home[name] for name in names(expr)])


def first_failing(reached: Iterable[bool]) -> int | None:
    """The place of the first condition that does not hold."""
    return next((place for place, holds in enumerate(reached) if not holds), None)

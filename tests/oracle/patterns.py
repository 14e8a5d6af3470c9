"""Tree patterns by brute force: every homomorphism of a block into a document.

An embedding assigns a node to each variable that the block binds, and to the node it selects.
Steps are enumerated one node after the other; nothing is indexed, shared or remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

from tests.oracle.around import holds, plain
from tests.oracle.trees import Node, Tree
from tests.oracle.values import truth
from xscl import ast

Bindings = dict[str, Node]
Embedding = tuple[Node, tuple[tuple[str, Node], ...]]  # the selected node; variables by name


def embeddings(tree: Tree, block: ast.Block, namespaces: Mapping[str, str]) -> set[Embedding]:
    """All distinct assignments of a block in a document."""
    return {
        (node, tuple(sorted(bound.items(), key=lambda item: item[0])))
        for node, bound in _embed(tree, tree.document, block.steps, namespaces)
    }


def path_nodes(
    tree: Tree, context: Node, steps: tuple[ast.Step, ...], namespaces: Mapping[str, str]
) -> list[Node]:
    """The nodes of a path from `context`, in document order."""
    return tree.ordered(node for node, _ in _embed(tree, context, steps, namespaces))


def _embed(
    tree: Tree, context: Node, steps: tuple[ast.Step, ...], namespaces: Mapping[str, str]
) -> Iterator[tuple[Node, Bindings]]:
    if not steps:
        yield context, {}
        return
    step, rest = steps[0], steps[1:]
    for node, choices in _passing(tree, context, step, namespaces):
        own = {} if step.variable is None else {step.variable: node}
        for choice in product(*choices):
            for end, below in _embed(tree, node, rest, namespaces):
                yield end, _merged(own, *choice, below)


def _passing(
    tree: Tree, context: Node, step: ast.Step, namespaces: Mapping[str, str]
) -> Iterator[tuple[Node, list[list[Bindings]]]]:
    """The nodes of a step that pass its filters one after the other, with what each filter binds.
    Positions count, among the nodes with one parent, those that passed the filters before."""
    left: list[tuple[Node, list[list[Bindings]]]]
    left = [(node, []) for node in tree.step(context, step, namespaces)]
    for part in step.filters:
        groups: dict[object, int] = Counter(_group(step, node) for node, _ in left)
        reached: Counter[object] = Counter()
        kept = []
        for node, choices in left:
            group = _group(step, node)
            reached[group] += 1
            place = (reached[group], groups[group])
            if bound := list(_bind(tree, node, part, namespaces, place)):
                kept.append((node, [*choices, bound]))
        left = kept
    yield from left


def _group(step: ast.Step, node: Node) -> object:
    """What the nodes have in common among which a step counts this one: their parent."""
    if step.test.kind == "self":
        return node.number
    return node.owner.getparent() if node.kind in ("element", "aside") else node.owner


def _bind(
    tree: Tree,
    node: Node,
    expr: ast.Expr,
    namespaces: Mapping[str, str],
    place: tuple[int, int],
) -> Iterator[Bindings]:
    """The bindings under which a filter holds at `node`: one empty one where it binds nothing."""
    if isinstance(expr, ast.And):
        parts = [list(_bind(tree, node, part, namespaces, place)) for part in expr.parts]
        for choice in product(*parts):
            yield _merged(*choice)
    elif isinstance(expr, ast.Path) and _binds(expr):
        for _, bound in _embed(tree, node, expr.steps, namespaces):
            yield bound
    elif plain(expr):
        if truth(expr, lambda path: _texts(tree, node, path, namespaces)):
            yield {}
    elif holds(node, expr, namespaces, *place):
        yield {}


def _texts(tree: Tree, node: Node, path: ast.Path, namespaces: Mapping[str, str]) -> list[str]:
    return [n.text for n in path_nodes(tree, node, path.steps, namespaces)]


def _binds(expr: ast.Expr) -> bool:
    """Does a path bind a variable, at any depth?"""
    if isinstance(expr, ast.Path):
        return any(s.variable or any(map(_binds, s.filters)) for s in expr.steps)
    if isinstance(expr, ast.And):
        return any(map(_binds, expr.parts))
    return False


def _merged(*parts: Bindings) -> Bindings:
    return {name: node for part in parts for name, node in part.items()}

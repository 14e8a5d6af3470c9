"""How a query is compiled and evaluated, stage by stage, for `broker explain`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from broker.join.pair_query import decider
from broker.model import UNBOUNDED
from broker.query.catalog import Catalog
from broker.query.conjunctive import conjunctive_query, parameter_table
from broker.query.prepared import Compiled
from xscl.errors import Span
from xscl.normal import ir
from xscl.normal.bind import Literals
from xscl.normal.operators import FollowedBy, Tree, operators_of
from xscl.normal.text import filled, written, written_steps
from xscl.normal.treepattern import PatternNode, TreePattern, children
from xscl.stage1.constants import atom_of
from xscl.syntax.durations import format_microseconds


def ast_stage(query: Compiled, _catalog: Catalog) -> str:
    """The syntax tree, a node a line."""
    return syntax_tree(query.resolved.query)


def syntax_tree(node: Any) -> str:
    """A node of the syntax tree with all below it, a node a line."""
    return "\n".join(_tree(node, "", 0))


def _tree(value: Any, name: str, depth: int) -> Iterator[str]:
    label = "  " * depth + (f"{name}: " if name else "")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain: list[tuple[str, Any]] = []
        nested: list[tuple[str, Any]] = []
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if isinstance(item, Span) or item is None or item is False or item == ():
                continue
            simple = isinstance(item, str | int | float)
            (plain if simple else nested).append((field.name, item))
        shown = " ".join(f"{key}={item!r}" for key, item in plain)
        yield f"{label}{type(value).__name__} {shown}".rstrip()
        for key, item in nested:
            yield from _tree(item, key, depth + 1)
    elif isinstance(value, tuple):
        yield label.rstrip() if name else f"{label}list"
        for item in value:
            yield from _tree(item, "", depth + 1)
    else:
        yield f"{label}{value!r}"


def normal_stage(query: Compiled, _catalog: Catalog) -> str:
    """Value-join normal form: the tree pattern of each block, then the value joins."""
    lines = []
    passes, literals = query.passes(), query.literals
    normal = passes.normal
    for number, block in enumerate(normal.blocks):
        lines.append(f"block {number}: stream {block.stream}")
        lines += _pattern(block, None, 1, literals)
    names = {id(node): filled(name, literals) for name, node in normal.joined}
    named = [_side(node, names, literals) for node in normal.operands]
    lines += [f"residual: {_residual(part, named, literals)}" for part in normal.residuals]
    for left, right in normal.joins:
        lines.append(
            f"value join: {_side(left, names, literals)} = {_side(right, names, literals)}"
        )
    windows = query.shape.windows(literals)
    for i, operator in enumerate(operators_of(normal.operators)):
        window = windows[i]
        lines.append(f"operator {i}: {_operator(operator)}, within {_window(window)}")
    lines.append(f"whole pattern: within {_window(windows[-1])}")
    return "\n".join(lines)


def with_prefixes(text: str, query: Compiled) -> str:
    """The text with the query's prefixes for the names of namespaces, which would fill lines."""
    named = query.resolved.namespaces.items()
    for prefix, name in sorted(named, key=lambda each: len(each[1]), reverse=True):
        text = text.replace(f"{name}:", f"{prefix}:")
    return text


def _pattern(
    block: TreePattern, parent: PatternNode | None, depth: int, literals: Literals
) -> Iterator[str]:
    for node in children(block.nodes, parent):
        names = "".join(f" -> {name}" for name in node.names)
        if node.value is None:
            text = filled(written_steps([node.own_step()]), literals)
        else:
            text = f"value {filled(written(node.value), literals)}"
        mark = "   (selected by *)" if node is block.selected else ""
        yield f"{'  ' * depth}{text}{names}{mark}"
        yield from _pattern(block, node, depth + 1, literals)


def _residual(part: ir.Expr, named: Sequence[str], literals: Literals) -> str:
    """A predicate over several nodes, which are shown by their names in the query."""
    shown = ir.map_leaves(
        part,
        lambda leaf: ir.VariablePath(named[leaf.node]) if isinstance(leaf, ir.NodeValue) else leaf,
    )
    return filled(written(shown), literals)


def _side(node: PatternNode, names: dict[int, str], literals: Literals) -> str:
    if node.value is not None and node.parent is not None:
        value = filled(written(node.value), literals)
        return f"{value} of {names.get(id(node.parent), '?')}"
    return names.get(id(node), "?")


def _operator(tree: Tree) -> str:
    if isinstance(tree, int):
        return f"block {tree}"
    word = "FOLLOWED BY" if isinstance(tree, FollowedBy) else "JOIN"
    return f"({_operator(tree.left)} {word} {_operator(tree.right)})"


def _window(microseconds: int) -> str:
    if microseconds >= UNBOUNDED:
        return f"{format_microseconds(None)} (nothing ever expires)"
    return format_microseconds(microseconds)


def patterns_stage(query: Compiled, catalog: Catalog) -> str:
    """The variables of the match relations, and the edges that stage 1 witnesses."""
    canonical = catalog.subscriptions[query.id].canonical
    lines = ["variables (queries with an equal definition share one):"]
    for definition, variable in dict(
        zip(canonical.definitions, canonical.variables, strict=True)
    ).items():
        users = sum(variable in c.variables for c in catalog.canonical.values())
        shared = f"   shared by {users} canonical queries" if users > 1 else ""
        lines.append(f"  v{variable}  {definition.text()}{shared}")
    lines.append("edges of RbinW (var1, var2):")
    for edge in (catalog.edges[e] for e in canonical.edges):
        above = "document" if edge.var1 == 0 else f"v{edge.var1}"
        value = (
            "with text and number" if edge.read else "with value" if edge.valued else "node only"
        )
        lines.append(f"  ({above}, v{edge.var2})  {value}")
    filters = {
        "".join(map(str, written(part))): _how_decided(part)
        for definition in canonical.definitions
        for step in definition.steps
        for part in step.filters
    }
    if filters:
        lines.append("filters, and how they are decided:")
        lines += [f"  [{text}]  {how}" for text, how in filters.items()]
    return "\n".join(lines)


def _how_decided(part: ir.Expr) -> str:
    if ir.looks_around(part):
        return "dear: on the numbered nodes of the document, once for each node that reaches it"
    if atom_of(part) is not None:
        return "by the index of constants"
    return "once for each node that reaches it"


def template_stage(query: Compiled, catalog: Catalog) -> str:
    """The template and the query's row in its parameter relation RT."""
    canonical = catalog.subscriptions[query.id].canonical
    shape = query.shape.template
    users = sum(c.template == canonical.template for c in catalog.canonical.values())
    lines = [f"template {canonical.template}, used by {users} canonical queries"]
    for position, (block, parent) in enumerate(shape.nodes):
        below = "" if parent is None else f" below position {parent}"
        selected = ", selected" if position in canonical.selected else ""
        lines.append(f"  position {position}: block {block}{below}{selected}")
    lines += [f"  value join: position {a} = position {b}" for a, b in shape.joins]
    variables = ", ".join(f"v{v}" for v in canonical.variables)
    windows = ", ".join(_window(w) for w in canonical.windows())
    lines.append(
        f"RT row: canonical query {canonical.number}, variables ({variables}), windows ({windows})"
    )
    return "\n".join(lines)


def sql_stage(query: Compiled, catalog: Catalog) -> str:
    """The conjunctive query over RL, RR and RT, one for each block that may be the new one."""
    number = catalog.subscriptions[query.id].canonical.template
    shape = query.shape.template
    who = {
        "memory": "posting lists and signatures decide; this query does so for irregular documents",
        "steps": "posting lists decide, document by document; this query does so for irregular"
        " documents, and where very many have to be looked at",
        "slice": "this query decides, over the documents that posting lists let through",
        "scan": "this query decides, over all documents within the window",
    }[decider(shape)]
    parts = [f"-- {who}"]
    parts += [
        f"-- new combinations whose first new block is {pivot}; RT is {parameter_table(number)}\n"
        f"{conjunctive_query(shape, number, pivot)};"
        for pivot in range(shape.blocks)
    ]
    return "\n".join(parts)


STAGES: dict[str, Callable[[Compiled, Catalog], str]] = {
    "ast": ast_stage,
    "normal": normal_stage,
    "patterns": patterns_stage,
    "template": template_stage,
    "sql": sql_stage,
}
"""The stages of compilation, in order."""

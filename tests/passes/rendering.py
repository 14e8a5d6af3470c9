"""The output of each pass as text, without ids, costs and clock times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import xscl
from broker.explain import normal_stage, syntax_tree
from broker.model import UNBOUNDED
from broker.query.conjunctive import conjunctive_query
from broker.query.prepared import Compiled, compile_query
from xscl.normal.operators import FollowedBy, Tree
from xscl.normal.text import filled, plain, written
from xscl.syntax.durations import format_microseconds
from xscl.syntax.printer import format_file


def printed(text: str) -> str:
    """The canonical text; it is read back as the same tree."""
    file = xscl.parse(text)
    canonical = format_file(file)
    assert xscl.parse(canonical) == file
    assert format_file(xscl.parse(canonical)) == canonical
    return canonical


def tree(text: str) -> str:
    """The syntax tree of each query."""
    return "\n".join(syntax_tree(statement) for statement in xscl.parse(text).statements)


def checked(text: str) -> str:
    """Each query as it is known from then on, and the warnings."""
    program = xscl.check([xscl.parse(text)])
    warnings = [f"warning[{each.code}] {each.message}" for each in program.warnings]
    return "\n".join([*(f"{query.id} is {query.text}" for query in program.queries), *warnings])


def _each(render: Callable[[Compiled], Iterator[str]]) -> Callable[[str], str]:
    """A pass over all queries of a text; several have a line with their ids above them."""

    def rendered(text: str) -> str:
        queries = [compile_query(each) for each in xscl.check([xscl.parse(text)]).queries]
        lines: list[str] = []
        for query in queries:
            if len(queries) > 1:
                lines.append(f"-- {query.id}")
            lines += render(query)
        return "\n".join(lines)

    return rendered


def _normal(query: Compiled) -> Iterator[str]:
    nothing: Any = None  # the normal form needs no catalog
    # A query in parentheses is called by a hash of its text.
    text = re.sub(r"~[0-9a-f]{16}", "(nested)", normal_stage(query, nothing))
    yield from text.splitlines()


def _graph(query: Compiled) -> Iterator[str]:
    """The nodes that are left, block by block."""
    graph, literals = query.passes().graph, query.literals
    for number, node in enumerate(graph.nodes):
        below = "" if node.parent is None else f" below {node.parent}"
        selected = ", selected" if number in graph.selected else ""
        text = filled(node.definition.written(), literals)
        yield f"node {number}: block {node.block}{below}{selected}  {text}"
    for number, (base, definition) in enumerate(graph.quantified):
        yield f"some({number}): below {base}  {filled(definition.written(), literals)}"
    for a, b in graph.joins:
        yield f"value join: {a} = {b}"
    for part in graph.residuals:
        yield f"residual: {filled(written(part), literals)}"
    for name, number in graph.variables:
        yield f"reported: {filled(name, literals)} is {number}"


def _template(query: Compiled) -> Iterator[str]:
    """What all queries of the template share, then what is the query's own."""
    shape, literals = query.shape, query.literals
    template = shape.template
    for position, (block, parent) in enumerate(template.nodes):
        below = "" if parent is None else f" below {parent}"
        yield f"position {position}: block {block}{below}"
    for number, base in enumerate(template.quantified):
        yield f"some({number}): below {base}"
    for a, b in template.joins:
        yield f"value join: {a} = {b}"
    for part in template.residuals:
        yield f"residual: {plain(written(part))}"
    yield f"operators: {_operators(template.operators)}"
    for number, text in enumerate(shape.texts(literals)):
        selected = ", selected" if number in shape.selected else ""
        place = f"v{number}" if number < len(template.nodes) else f"u{number - len(template.nodes)}"
        yield f"own {place}: {text}{selected}"
    for number, constant in enumerate(shape.constants(literals)):
        yield f"own ${number}: {constant}"
    windows = (
        "INFINITY" if window >= UNBOUNDED else format_microseconds(window)
        for window in shape.windows(literals)
    )
    yield f"own windows: {', '.join(windows)}"


def _operators(tree: Tree) -> str:
    if isinstance(tree, int):
        return str(tree)
    word = "FOLLOWED BY" if isinstance(tree, FollowedBy) else "JOIN"
    return f"({_operators(tree.left)} {word} {_operators(tree.right)})"


def _sql(query: Compiled) -> Iterator[str]:
    """The conjunctive query for each block that may be the first new one."""
    template = query.shape.template
    for pivot in range(template.blocks):
        yield f"-- first new block: {pivot}"
        yield from conjunctive_query(template, 0, pivot).splitlines()


PASSES: dict[str, Callable[[str], str]] = {
    "print": printed,
    "parse": tree,
    "check": checked,
    "normal": _each(_normal),
    "graph": _each(_graph),
    "template": _each(_template),
    "sql": _each(_sql),
}
"""By the name of the file of pairs, in the order in which a query goes through them."""

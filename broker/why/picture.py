"""A query for people, without documents: a sentence, and a picture in text of blocks and joins."""

from __future__ import annotations

from broker.why.asked import Asked
from broker.why.joins import Between
from broker.why.telling import block_name
from xscl import ast
from xscl.normal.operators import FollowedBy, Tree, operators_of
from xscl.syntax.durations import format_microseconds
from xscl.syntax.printer import format_expression


def picture(asked: Asked) -> list[str]:
    """The sentence, then a line for each block and each join."""
    lines = [f"{asked.resolved.id}: {_sentence(asked)}"]
    for reader in asked.readers:
        own = "".join([f" AND {format_expression(each)}" for each in reader.conjuncts])
        lines.append(f"  {block_name(reader.number)}  {reader.shown}{own}")
    lines += [_edge(between) for between in asked.betweens]
    lines += [f"  and {format_expression(each)}" for each in asked.several]
    if len(asked.blocks) > 2 and asked.windows[-1] is not None:
        lines.append(f"  all within {format_microseconds(asked.windows[-1])}")
    return lines


def _sentence(asked: Asked) -> str:
    query = asked.resolved.query
    found = _told(asked, asked.operators)
    joins = [each.text for between in asked.betweens for each in between.equalities]
    others = [format_expression(e) for between in asked.betweens for e in between.residuals]
    if joins or others:
        found += f", where {' and '.join([*joins, *others])}"
    elif len(asked.blocks) > 1:
        found += ", whatever their values"
    if len(asked.blocks) > 1 and asked.windows[-1] is not None:
        found += f", all within {format_microseconds(asked.windows[-1])}"
    publishes = f"; it publishes the stream {query.publish}" if query.publish else ""
    return f"finds {found}; a match shows {selected(query)}{publishes}"


def _told(asked: Asked, tree: Tree) -> str:
    """The part of the sentence for an operator, and those below it."""
    if isinstance(tree, int):
        block = asked.blocks[tree]
        return f"{kind_of(block)} ({block_name(tree)})"
    window = _window_of(asked, tree)
    left, right = _told(asked, tree.left), _told(asked, tree.right)
    if not isinstance(tree.right, int):
        right = f"({right})"
    if isinstance(tree, FollowedBy):
        later = f" within {window}" if window else ""
        return f"{left}, followed{later} by {right}"
    apart = f" at most {window} apart" if window else " in any order"
    return f"{left} and {right}{apart}"


def kind_of(block: ast.Block) -> str:
    """What a block takes, by the name of its last step."""
    named = [step for step in block.steps if step.test.name is not None]
    name = named[-1].test.name if named else "document"
    article = "an" if str(name)[:1].lower() in "aeiou" else "a"
    source = "a query" if block.stream.startswith("~") else block.stream
    return f"{article} {name} of {source}"


def _window_of(asked: Asked, tree: Tree) -> str | None:
    for operator, window in zip(operators_of(asked.operators), asked.windows, strict=False):
        if operator is tree:
            return None if window is None else format_microseconds(window)
    return None


def selected(query: ast.Query) -> str:
    """What a match shows, by name."""
    select = query.select
    if select is None:
        return "what its blocks select"
    if isinstance(select, ast.Element):
        return f"an element {select.name} that it constructs"
    names = [item.name or format_expression(item.expr) for item in select]
    return ", ".join(names)


def _edge(between: Between) -> str:
    arrow = "──▶" if between.order else "───"
    asked = [each.text for each in between.equalities]
    asked += [format_expression(each) for each in between.residuals]
    text = " AND ".join(asked) or "(whatever their values)"
    window = "" if between.window is None else f", within {format_microseconds(between.window)}"
    return f"  {block_name(between.left)} {arrow} {block_name(between.right)}  {text}{window}"

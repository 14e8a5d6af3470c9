"""Warnings about filters and conditions that hold for nothing, whatever documents come.

In: a filter, or the parts of a conjunction. Out: the message of a warning and its place, or None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xscl import ast
from xscl.errors import Span
from xscl.syntax.bounds import POSITION, bound, excluding, of_filters, of_one_node


def dead_filter(part: ast.Expr) -> tuple[str, Span] | None:
    """The message for a filter that no node passes, and the place: of a position that there is not,
    or of false()."""
    if isinstance(part, ast.And):
        return next(filter(None, map(dead_filter, part.parts)), None)
    if isinstance(part, ast.Number) and not _is_position(part.value):
        text = f"no node has the position {part.span.text}: the first is 1, the last last()"
        return text, part.span
    if isinstance(part, ast.Call) and part.name == "false" and not part.args:
        return "false() holds for no node", part.span
    if (found := bound(part)) is None or found[0] != POSITION:
        return None
    _, (op, literal, _) = found
    if excluding([(">=", 1.0), (op, literal.value)]) is None:
        return None
    return f"{part.span.text} never holds: the first position is 1", part.span


def _is_position(value: float) -> bool:
    return value >= 1 and math.isfinite(value) and value == int(value)


def contradiction(parts: Iterable[ast.Expr]) -> tuple[str, Span, str | None] | None:
    """The message for two parts of a conjunction that one node never satisfies both, the place of
    the second, and a hint."""
    for bounds in of_one_node(parts):
        found = excluding([(each.op, each.literal.value) for each in bounds])
        if found is None:
            continue
        one, two = (bounds[at] for at in found)
        texts = f"{one.written.span.text} and {two.written.span.text}"
        hint = "a block can ask for several nodes: S//a[./b = 'x' and ./b = 'y']"
        several = one.op == two.op == "="
        message = f"{texts} never hold both, as this is one node"
        return message, two.written.span, hint if several else None
    return None


def contradicting_filters(filters: Sequence[ast.Expr]) -> tuple[str, Span, str | None] | None:
    """The same for parts of several filters of a step, if none of these contradicts itself."""
    found = contradiction(of_filters(filters))
    if found and any(isinstance(each, ast.And) and contradiction(each.parts) for each in filters):
        return None
    return found

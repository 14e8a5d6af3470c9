"""A pattern as it is drawn: its blocks and operators in the order of the text.

In: the pattern of a query. Out: parts, each with its depth: what is in parentheses, under NOT or
OR, or in a group lies deeper than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from xscl import ast
from xscl.syntax.printer import format_duration, format_expression, format_pattern


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a pattern. A block has its text; an operator is called so and has the predicate
    of its braces; `holder` parts (NOT, parentheses, groups) hold the deeper ones behind them."""

    depth: int
    kind: Literal["block", "operator", "holder"]
    name: str
    text: str = ""
    window: str | None = None


def outline(pattern: ast.Pattern) -> tuple[Part, ...]:
    """The parts of a pattern."""
    return tuple(_parts(pattern, 0))


def _parts(pattern: ast.Pattern, depth: int) -> Iterator[Part]:
    match pattern:
        case ast.Join():
            yield from _parts(pattern.left, depth)
            text = _text(pattern.predicate)
            yield Part(depth, "operator", pattern.kind, text, _window(pattern.window))
            yield from _parts(pattern.right, depth)
        case ast.Fold():
            yield from _parts(pattern.left, depth)
            text = "; ".join(filter(None, [_text(pattern.filter), _text(pattern.proceed)]))
            yield Part(depth, "operator", "FOLD", text)
            yield from _parts(pattern.right, depth)
        case ast.Alternatives():
            for number, branch in enumerate(pattern.branches):
                if number:
                    yield Part(depth, "operator", "OR")
                yield from _parts(branch, depth)
        case ast.Negation():
            yield Part(depth, "holder", "NOT")
            yield from _parts(pattern.pattern, depth + 1)
        case ast.Group():
            yield Part(depth, "holder", _times(pattern))
            yield from _parts(pattern.pattern, depth + 1)
        case ast.Parenthesis():
            yield Part(depth, "holder", "", _text(pattern.where), _window(pattern.within))
            yield from _parts(pattern.pattern, depth + 1)
        case ast.Nested():
            yield Part(depth, "block", "", "(a query)")
        case _:
            yield Part(depth, "block", "", format_pattern(pattern))


def _text(expression: ast.Expr | None) -> str:
    return "" if expression is None else format_expression(expression)


def _window(window: ast.Duration | None) -> str | None:
    return None if window is None else format_duration(window)


def _times(group: ast.Group) -> str:
    if group.most is None:
        return f"{group.least} or more"
    if group.most == group.least:
        return f"{group.least} times"
    return f"{group.least} to {group.most}"

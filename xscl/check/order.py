"""Warnings about `<` and arithmetic on texts and dates, which are not numbers and never compare.

In: a comparison or a calculation, and the names of the nodes of its paths. Out: the message and the
hint of a warning, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xscl import ast
from xscl.functions.dates import date
from xscl.functions.table import to_number
from xscl.syntax.printer import format_expression

Named = Callable[[ast.Path], str | None]
"""The name of the element or attribute at which a path ends, None if unknown."""

_RELATIONAL = ("<", "<=", ">", ">=")
_HOLD_DATES = frozenset(
    [
        *("date", "pubdate", "published", "updated", "timestamp", "lastbuilddate"),
        *("created", "modified", "issued", "datetime"),
    ]
)
"""The usual names of elements that hold dates, in lower case."""


def order_warning(part: ast.Comparison, in_filter: bool, named: Named) -> tuple[str, str] | None:
    """The warning for `<`, `<=`, `>` or `>=` between texts or dates."""
    if part.op not in _RELATIONAL:
        return None
    sides = part.left, part.right
    dates = f"compare dates as numbers: {_dated(part, in_filter)}"
    for one, other in (sides, sides[::-1]):
        if isinstance(one, ast.String) and math.isnan(to_number(one.value)):
            message = f"{part.op} compares numbers, and this text is none, so it never holds"
            if not math.isnan(date(one.value)) or _holds_dates(other, named):
                return message, dates
            return message, "texts have no order: compare them by = and !=, or by a function"
    if all(_holds_dates(side, named) for side in sides):
        return f"{part.op} compares numbers, and by their names these are dates", dates
    return None


def calculation_warning(
    part: ast.Arithmetic, in_filter: bool, named: Named
) -> tuple[str, str] | None:
    """The warning for dates in a calculation."""
    if part.op not in ("+", "-"):
        return None
    if any(_holds_dates(side, named) for side in (part.left, part.right)):
        message = f"{part.op} calculates with numbers, and by its name this holds a date"
        return message, f"calculate in seconds: {_dated(part, in_filter)}"
    return None


def written_date(part: ast.Arithmetic) -> tuple[str, str] | None:
    """The warning for a date without quotation marks: 2026-10-05 is the number 2011."""
    match part:
        case ast.Arithmetic(
            op="-",
            left=ast.Arithmetic(op="-", left=ast.Number(value=year), right=ast.Number()),
            right=ast.Number(),
        ) if 1000 <= year <= 9999:
            text = part.span.text
            hint = f"a date is written date('{text}'), and is a number of seconds"
            return f"{text} is a subtraction, not a date", hint
    return None


def _holds_dates(part: ast.Expr, named: Named) -> bool:
    name = named(part) if isinstance(part, ast.Path) else None
    return name is not None and name.lower() in _HOLD_DATES


def _dated(part: ast.Comparison | ast.Arithmetic, in_filter: bool) -> str:
    """The same expression with dates converted to seconds by date()."""
    left, right = (
        format_expression(
            ast.Call("date", (side,), span=side.span)
            if isinstance(side, ast.Path | ast.String)
            else side,
            in_filter,
        )
        for side in (part.left, part.right)
    )
    return f"{left} {part.op} {right}"

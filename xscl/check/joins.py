"""Warnings about joins: sides that no value join connects, and patterns joined with themselves.

In: the findings about a query. Out: warnings. Neither is an error, as a cross product within a
short window and a symmetric pair can be what is wanted, but seldom are.
"""

from __future__ import annotations

from collections.abc import Mapping

from xscl import ast
from xscl.check.findings import QueryFindings
from xscl.errors import Diagnostic
from xscl.syntax.printer import format_expression

_NAMED = 6
"""How many variables of a side a warning names."""


def join_warnings(found: QueryFindings) -> list[Diagnostic]:
    if not found.joins:
        return []
    return _unconnected(found) + [
        warning
        for join, *_ in found.joins
        if join.kind == "JOIN" and (warning := _symmetric(join, found))
    ]


# -- value joins -----------------------------------------------------------------------------


def _unconnected(found: QueryFindings) -> list[Diagnostic]:
    """Joins whose two sides no value join connects, directly or through other blocks."""
    parent = list(range(found.joins[-1][3]))

    def root(block: int) -> int:
        while parent[block] != block:
            parent[block] = block = parent[parent[block]]
        return block

    for part in found.conjuncts:
        if isinstance(part, ast.Comparison) and part.op == "=":
            left = _block(part.left, found.owner)
            right = _block(part.right, found.owner)
            if left is not None and right is not None:
                parent[root(left)] = root(right)
    warnings = []
    for join, low, middle, high in found.joins:
        left_roots = {root(block) for block in range(low, middle)}
        if left_roots.isdisjoint(root(block) for block in range(middle, high)):
            warnings.append(
                Diagnostic(
                    "no-value-join",
                    "no value join connects this with what stands before it: every pair of "
                    "documents in the window is a candidate",
                    join.right.span,
                    _sides(found.owner, low, middle, high),
                    "warning",
                )
            )
    return warnings


def _sides(owner: Mapping[str, int], low: int, middle: int, high: int) -> str:
    """A hint that names the variables of either side, of which a value join can be made."""
    left, right = (
        [name for name, block in owner.items() if start <= block < end]
        for start, end in ((low, middle), (middle, high))
    )
    text = (
        f"a value join is an equality between a variable of the left side ({_names(left)}) and one "
        f"of the right ({_names(right)})"
    )
    return text if left and right else f"{text}; a variable is bound as in [./title->t]"


def _names(names: list[str]) -> str:
    if not names:
        return "none yet"
    return ", ".join(names if len(names) <= _NAMED else [*names[:_NAMED], "…"])


def _block(side: ast.Expr, owner: Mapping[str, int]) -> int | None:
    """The one block that a side of an equality is computed from: a node, or functions of nodes."""
    if isinstance(side, ast.Path):
        return None if side.variable is None else owner.get(side.variable)
    if not isinstance(side, ast.Call):
        return None
    blocks = {
        _block(argument, owner)
        for argument in side.args
        if not isinstance(argument, ast.String | ast.Number)
    }
    return blocks.pop() if len(blocks) == 1 else None


# -- symmetry --------------------------------------------------------------------------------


def _symmetric(join: ast.Join, found: QueryFindings) -> Diagnostic | None:
    swap: dict[str, str] = {}
    if not _alike(join.left, join.right, swap):
        return None
    swap.update([(right, left) for left, right in swap.items()])
    keys = {_key(part, {}) for part in found.conjuncts}
    if keys != {_key(part, swap) for part in found.conjuncts}:
        return None
    return Diagnostic(
        "symmetric-join",
        "both sides of this JOIN are the same pattern: it finds (d1, d2) and (d2, d1)",
        join.right.span,
        "to find each pair once, write FOLLOWED BY, or add an inequality that one order satisfies",
        "warning",
    )


def _alike(left: ast.Pattern, right: ast.Pattern, names: dict[str, str]) -> bool:
    """Whether the patterns are equal but for variables; `names` maps those of the left."""
    if isinstance(left, ast.Block):
        return (
            isinstance(right, ast.Block)
            and left.stream == right.stream
            and _alike_steps(left.steps, right.steps, names)
        )
    if isinstance(left, ast.Join):
        return (
            isinstance(right, ast.Join)
            and left.kind == right.kind
            and _length(left.window) == _length(right.window)
            and _alike(left.left, right.left, names)
            and _alike(left.right, right.right, names)
        )
    return (
        isinstance(left, ast.Nested)
        and isinstance(right, ast.Nested)
        and left.query == right.query
        and _alike_steps(left.steps, right.steps, names)
    )


def _length(window: ast.Duration | None) -> tuple[int | None, str | None] | None:
    return None if window is None else (window.microseconds, window.name)


def _alike_steps(
    left: tuple[ast.Step, ...], right: tuple[ast.Step, ...], names: dict[str, str]
) -> bool:
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        if one.axis != other.axis or one.test != other.test:
            return False
        if (one.variable is None) != (other.variable is None):
            return False
        if len(one.filters) != len(other.filters):
            return False
        if one.variable is not None and other.variable is not None:
            names[one.variable] = other.variable
        for part, counterpart in zip(one.filters, other.filters, strict=True):
            if isinstance(part, ast.Path) and isinstance(counterpart, ast.Path):
                if not _alike_steps(part.steps, counterpart.steps, names):
                    return False
            elif part != counterpart:
                return False
    return True


def _key(part: ast.Expr, names: Mapping[str, str]) -> str:
    """The text of a conjunct under a renaming, equal for `a = b` and `b = a`, `a < b` and `b >
    a`."""
    if isinstance(part, ast.Comparison):
        left = format_expression(_renamed(part.left, names))
        right = format_expression(_renamed(part.right, names))
        if part.op in ("=", "!="):
            left, right = min(left, right), max(left, right)
        elif part.op in (">", ">="):
            return f"{right} {'<' if part.op == '>' else '<='} {left}"
        return f"{left} {part.op} {right}"
    if isinstance(part, ast.And | ast.Or):
        keys = sorted(_key(each, names) for each in part.parts)
        return f"{type(part).__name__}({', '.join(keys)})"
    if isinstance(part, ast.Not):
        return f"Not({_key(part.part, names)})"
    return format_expression(_renamed(part, names))


def _renamed(part: ast.Expr, names: Mapping[str, str]) -> ast.Expr:
    if isinstance(part, ast.Path) and part.variable is not None:
        return ast.Path(names.get(part.variable, part.variable), part.steps, span=part.span)
    if isinstance(part, ast.Call):
        arguments = tuple(_renamed(argument, names) for argument in part.args)
        return ast.Call(part.name, arguments, span=part.span)
    if isinstance(part, ast.Arithmetic):
        left, right = _renamed(part.left, names), _renamed(part.right, names)
        return ast.Arithmetic(part.op, left, right, span=part.span)
    return part

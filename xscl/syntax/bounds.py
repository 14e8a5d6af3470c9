"""What a conjunction says of one node by constants, and whether all of it can hold.

In: the parts of a conjunction, or two comparisons with constants. Out: pairs of comparisons of one
node, and whether some text satisfies both. Only what is said of one node is compared with itself:
`a = 'x' and a = 'y'` holds where there are two elements a.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from xscl import ast
from xscl.functions.table import to_number

_COMPARE: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LOW, _HIGH = (">", ">="), ("<", "<=")

POSITION = "position()"
"""What a comparison with a position is about, where others are about a node."""

Value = str | float


class Bound(NamedTuple):
    """A comparison of something with a constant, which stands on the right of `op`."""

    op: str
    literal: ast.String | ast.Number
    written: ast.Comparison


def bound(part: ast.Expr) -> tuple[object, Bound] | None:
    """What a part compares with a constant, if that is one node or a position, and how."""
    if not isinstance(part, ast.Comparison):
        return None
    left, right = part.left, part.right
    op: str = part.op
    if isinstance(left, ast.String | ast.Number):
        left, right, op = right, left, _TURNED.get(op, op)
    if not isinstance(right, ast.String | ast.Number):
        return None
    if isinstance(left, ast.Path) and all(map(_leads_to_one, left.steps)):
        return (left.variable, left.steps), Bound(op, right, part)
    return (POSITION, Bound(op, right, part)) if is_position(left) else None


def is_position(part: ast.Expr) -> bool:
    return isinstance(part, ast.Call) and part.name == "position" and not part.args


def _leads_to_one(step: ast.Step) -> bool:
    """Whether a step leads from a node to one at most: itself, or an attribute of a name."""
    test = step.test
    one = test.kind == "self" or (test.kind == "attribute" and test.name is not None)
    return one and step.axis == "/" and test.axis is None and not step.filters


def tied(parts: Iterable[ast.Expr]) -> Iterator[tuple[Bound, Bound]]:
    """The pairs of comparisons that a conjunction makes of one node."""
    known: dict[object, list[Bound]] = defaultdict(list)
    for part in parts:
        if (found := bound(part)) is None:
            continue
        node, second = found
        for first in known[node]:
            yield first, second
        known[node].append(second)


def satisfiable(op: str, value: Value, other: str, second: Value) -> bool:
    """Whether something is so compared with the one constant and with the other."""
    if op == "=":
        return _holds(value, other, second)
    if other == "=":
        return _holds(second, op, value)
    if op in _HIGH:
        op, value, other, second = other, second, op, value
    if op not in _LOW or other not in _HIGH:
        return True
    least, most = to_number(value), to_number(second)
    return least < most or (least == most and op == ">=" and other == "<=")


def _holds(value: Value, op: str, second: Value) -> bool:
    """Whether what equals `value` may be so compared with `second`."""
    if op in ("=", "!=") and isinstance(value, str) and isinstance(second, str):
        return (value == second) == (op == "=")
    if op == "!=" and isinstance(second, str):
        return True  # the number 5 equals '5' and '5.0', which differ as texts
    return _COMPARE[op](to_number(value), to_number(second))

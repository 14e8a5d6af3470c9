"""What a conjunction says of one node by constants, and whether all of it can hold.

In: the parts of a conjunction, or comparisons with constants. Out: the comparisons of one node, and
two of them that no text satisfies both. Only what is said of one node is compared with itself:
`a = 'x' and a = 'y'` holds where there are two elements a.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from xscl import ast
from xscl.functions.comparing import COMPARE, TURNED
from xscl.functions.table import to_number

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
        left, right, op = right, left, TURNED.get(op, op)
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


def of_filters(filters: Sequence[ast.Expr]) -> list[ast.Expr]:
    """What several filters of a step ask of its node together, which is a conjunction but for
    positions: these count what the filters before have left."""
    if len(filters) < 2:
        return []
    parts = [each for f in filters for each in (f.parts if isinstance(f, ast.And) else (f,))]
    return [each for each in parts if (found := bound(each)) is None or found[0] != POSITION]


def of_one_node(parts: Iterable[ast.Expr]) -> list[list[Bound]]:
    """The comparisons that a conjunction makes of each node of which it makes several."""
    known: dict[object, list[Bound]] = defaultdict(list)
    for part in parts:
        if (found := bound(part)) is not None:
            known[found[0]].append(found[1])
    return [bounds for bounds in known.values() if len(bounds) > 1]


def excluding(bounds: Sequence[tuple[str, Value]]) -> tuple[int, int] | None:
    """The places, in order, of two comparisons with constants that nothing satisfies both, in time
    linear in their number."""
    equal = [at for at, (op, _) in enumerate(bounds) if op == "="]
    if equal:
        # A text is one that may be asked for, a number stands for several.
        one = next((at for at in equal if isinstance(bounds[at][1], str)), equal[0])
        for at, (op, value) in enumerate(bounds):
            if not _holds(bounds[one][1], op, value):
                return min(one, at), max(one, at)
        return None
    numbers = [(at, op, to_number(value)) for at, (op, value) in enumerate(bounds)]
    # What is no number is beyond all numbers, as nothing is so compared with it.
    lows = [(inf if n != n else n, op == ">", at) for at, op, n in numbers if op in (">", ">=")]
    highs = [(-inf if n != n else n, op == "<=", at) for at, op, n in numbers if op in ("<", "<=")]
    if not lows or not highs:
        return None
    least, without, low = max(lows)
    most, included, high = min(highs)
    if least < most or (least == most and included and not without):
        return None
    return min(low, high), max(low, high)


def _holds(value: Value, op: str, second: Value) -> bool:
    """Whether what equals `value` may be so compared with `second`."""
    if op in ("=", "!=") and isinstance(value, str) and isinstance(second, str):
        return (value == second) == (op == "=")
    if op == "!=" and isinstance(second, str):
        return True  # the number 5 equals '5' and '5.0', which differ as texts
    return COMPARE[op](to_number(value), to_number(second))

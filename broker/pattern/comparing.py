"""Whether values compare for some choice of them, without trying every choice."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from xscl.functions.comparing import COMPARE

_FEW = 16
"""So many pairs are compared one by one."""


def some_compare(op: str, left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether a value of the left compares with one of the right; all are texts, or all numbers,
    and these if `op` is neither = nor !=."""
    compare = COMPARE[op]
    if len(left) * len(right) <= _FEW:
        return any(compare(one, other) for one in left for other in right)
    lefts, rights = _numbers(left), _numbers(right)
    if op == "!=":  # NaN differs from everything
        nan = len(lefts) < len(left) or len(rights) < len(right)
        return nan or len({*lefts, *rights}) > 1
    if not lefts or not rights:
        return False
    if op == "=":
        return not set(lefts).isdisjoint(rights)
    if op in ("<", "<="):
        return compare(min(lefts), max(rights))
    return compare(max(lefts), min(rights))


def _numbers(values: Sequence[Any]) -> Sequence[Any]:
    """The values that are not NaN."""
    return [each for each in values if not (isinstance(each, float) and isnan(each))]

"""The canonical order of a step's filters, independent of the order in which they were written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from xscl.normal import ir
from xscl.normal.text import plain, written


def canonical_filters(filters: Iterable[ir.Expr]) -> tuple[ir.Expr, ...]:
    """The filters sorted by their texts, without duplicates, since they form a conjunction."""
    distinct = set(filters)
    if len(distinct) < 2:
        return tuple(distinct)
    return tuple(sorted(distinct, key=lambda part: plain(written(part))))


def settled(filters: Sequence[ir.Expr]) -> bool:
    """Whether the order and number of canonical filters is the same for all literals: the texts of
    neighbours differ before the first parameter of either."""
    heads = []
    for part in filters:
        head, *rest = (*written(part), "")
        if isinstance(head, ir.Parameter):
            return len(filters) < 2
        heads.append((head, rest != [""]))
    return not any(
        (one_open and other.startswith(one)) or (other_open and one.startswith(other))
        for (one, one_open), (other, other_open) in pairwise(heads)
    )


def settled_throughout(steps: Iterable[ir.Step]) -> bool:
    """Whether the filters of all steps are `settled`, those of steps in filters included."""
    return all(
        settled(step.filters)
        and all(
            settled_throughout(leaf.steps)
            for part in step.filters
            for leaf in ir.leaves(part)
            if isinstance(leaf, ir.Path)
        )
        for step in steps
    )

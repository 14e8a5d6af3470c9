"""In which order the blocks of a template are joined: by the planner, from the pivot on.

Nothing is known of the rows when a template is compiled, so each block has as many, and only what
connects the blocks counts. DuckDB would plan each run anew, which takes it longer than the join,
and of long chains with comparisons it finds orders that make billions of rows.
"""

from __future__ import annotations

from broker.planner import Problem, parts_of, plan
from xscl.normal import ir
from xscl.normal.operators import FollowedBy, blocks_of, operators_of
from xscl.normal.template import Template

_ROWS = 100.0
"""Rows of a block, beside one of the pivot."""

_LATER = 1e-6
"""By which share each block has more rows than the one before it."""

_VALUES = 50.0
"""Values of a join."""

_COMPARED = 0.4
"""Share of combinations that a comparison lets pass."""

_SECONDS = 1.0
"""The longest that may take, once for a template and a pivot."""


def join_order(template: Template, pivot: int) -> list[int]:
    """The blocks in the order of their joins."""
    # Of equal orders the one of the pattern: its operators are complete, and so asked, the soonest.
    counts = [_ROWS * (1 + _LATER * block) for block in range(template.blocks)]
    counts[pivot] = 1.0
    pairs: dict[tuple[int, int], float] = {}
    for part in template.residuals:
        used = {
            template.nodes[leaf.node][0]
            for leaf in ir.leaves(part)
            if isinstance(leaf, ir.NodeValue)
        }
        if len(used) == 2:
            pair = (min(used), max(used))
            pairs[pair] = pairs.get(pair, 1.0) * _COMPARED
    ordered = tuple(
        (_mask(blocks_of(each.left)), _mask(blocks_of(each.right)))
        for each in operators_of(template.operators)
        if isinstance(each, FollowedBy)
    )
    equal = tuple((mask, _VALUES) for mask in _joined(template))
    problem = Problem((*counts,), pairs, ordered, equal)
    order = parts_of(plan(problem, "DP-LD", _SECONDS))
    return [pivot, *[block for block in order if block != pivot]]


def before_of(template: Template) -> set[tuple[int, int]]:
    """The pairs of blocks of which one ends before the other begins."""
    return {
        (one, other)
        for each in operators_of(template.operators)
        if isinstance(each, FollowedBy)
        for one in blocks_of(each.left)
        for other in blocks_of(each.right)
    }


def _mask(blocks: list[int]) -> int:
    return sum(1 << block for block in blocks)


def _joined(template: Template) -> list[int]:
    """The blocks that have a value in common, for each such value, as masks."""
    groups: list[set[int]] = []
    for pair in template.joins:
        touched = [group for group in groups if not group.isdisjoint(pair)]
        groups = [group for group in groups if group not in touched]
        groups.append({*pair}.union(*touched))
    return [_mask([*{template.nodes[position][0] for position in group}]) for group in groups]

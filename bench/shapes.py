"""Templates and their conjunctive queries, for the baselines that join in SQL.

The paper's templates (dissertation, section 6.4) for queries of two blocks over one schema: what
two queries of one template share is which joins' leaves hang from one inner node, on either side.
Written on its own, so that the baselines share no code with the broker; a test holds the number of
templates against xscl's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

from bench.workload import Query, Workload


@dataclass(frozen=True, slots=True)
class Shape:
    """A template. By join, which inner node its leaf hangs from: 0, 1, … or -1 for the root.

    Aliases of relations: `l0`, `l1`, … and `r0`, … are the edges to the leaves of the earlier and
    the later document, by join; `p0`, … and `q0`, … the edges to their inner nodes.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]

    def aliases(self) -> list[str]:
        joins = range(len(self.left))
        inner = [f"p{g}" for g in range(max(self.left) + 1)]
        inner += [f"q{g}" for g in range(max(self.right) + 1)]
        return [f"l{i}" for i in joins] + [f"r{i}" for i in joins] + inner


@dataclass(frozen=True, slots=True)
class Fitted:
    """A query in its template: the variables (var1, var2) of each alias's edge."""

    shape: Shape
    edges: Mapping[str, tuple[int, int]]


def fit(workload: Workload, query: Query) -> Fitted:
    """The template of a query, and its row of parameters."""
    parents = [workload.parents(query, side) for side in (0, 1)]
    shape, order = _canonical(_numbered(parents[0]), _numbered(parents[1]))
    edges: dict[str, tuple[int, int]] = {}
    for side, (leaf, inner) in enumerate((("l", "p"), ("r", "q"))):
        groups = (shape.left, shape.right)[side]
        root = workload.variable(query, side, 0)
        nodes = [workload.documents.schema.leaves[n] for n in query.leaves(side)]
        for i, join in enumerate(order):
            above = workload.variable(query, side, parents[side][join])
            edges[f"{leaf}{i}"] = (above, workload.variable(query, side, nodes[join]))
            if groups[i] >= 0:
                edges[f"{inner}{groups[i]}"] = (root, above)
    return Fitted(shape, edges)


def _numbered(parents: Sequence[int]) -> tuple[int, ...]:
    """Inner nodes numbered as they first appear, -1 for the root."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(p, len(numbers)) if p > 0 else -1 for p in parents)


@cache
def _canonical(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[Shape, tuple[int, ...]]:
    """The least form over all orders of the joins, and the order that gives it."""

    def form(order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        # One up, so that 0 is the root and inner nodes are numbered anew.
        return _numbered([left[i] + 1 for i in order]), _numbered([right[i] + 1 for i in order])

    order = min(permutations(range(len(left))), key=form)
    return Shape(*form(order)), order


def conjunctive_query(
    shape: Shape,
    relations: Mapping[str, str],
    edges: Mapping[str, tuple[object, object]],
    window: object,
    source: str = "",
) -> str:
    """FROM and WHERE of a template's conjunctive query (Algorithm 4).

    `relations` by the first letter of an alias. `edges` are SQL for the variables of each alias,
    columns of RT (`source`) or constants, and so is `window`.
    """
    conditions = []
    for alias in shape.aliases():
        first, second = edges[alias]
        conditions += [f"{alias}.var1 = {first}", f"{alias}.var2 = {second}"]
        document = "l0" if alias[0] in "lp" else "r0"
        if alias != document:
            conditions.append(f"{alias}.doc = {document}.doc")
    for leaf, inner, groups in (("l", "p", shape.left), ("r", "q", shape.right)):
        roots = []
        for i, group in enumerate(groups):
            if group >= 0:
                conditions.append(f"{leaf}{i}.node1 = {inner}{group}.node2")
            roots.append(f"{leaf}{i}.node1" if group < 0 else f"{inner}{group}.node1")
        roots = list(dict.fromkeys(roots))
        conditions += [f"{root} = {roots[0]}" for root in roots[1:]]
    conditions += [f"l{i}.value = r{i}.value" for i in range(len(shape.left))]
    conditions += ["l0.ts < r0.ts", f"r0.ts - l0.ts <= {window}"]
    tables = [f"{relations[alias[0]]} {alias}" for alias in shape.aliases()]
    return f"FROM {', '.join([*filter(None, [source]), *tables])}\nWHERE " + "\n  AND ".join(
        conditions
    )

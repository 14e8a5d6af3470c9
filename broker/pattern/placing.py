"""Where a conjunct is asked: the first row that fits of the table in Part 2; and what one document
decides is asked when it comes."""

from __future__ import annotations

from collections.abc import Sequence

from broker.pattern.plan import Conjunct, Fold, Group, Judged, Leaf, Next, Unit, conjunct
from xscl import ast
from xscl.check.sites import conjuncts, uses


def conjuncts_of(predicate: ast.Expr | None) -> list[Conjunct]:
    return [] if predicate is None else [conjunct(part) for part in conjuncts(predicate)]


def place_conjunct(unit: Unit, part: ast.Expr) -> None:
    """Where a conjunct of a level is asked: the first row that fits of the table in Part 2."""
    made = conjunct(part)
    for absence in unit.absences:
        if made.names & absence.variables:
            absence.conjuncts.append(made)
            return
    for group in unit.groups:
        if asked_of_elements(part, group.variables):
            group.conjuncts.append(made)
            return
        if _hows(part, group.variables) == {"first"}:
            group.first.append(made)
            return
    unit.conjuncts.append(made)


def _hows(expr: ast.Expr, variables: frozenset[str]) -> set[str]:
    return {use.how for use in uses(expr) if use.variable in variables}


def asked_of_elements(expr: ast.Expr, variables: frozenset[str]) -> bool:
    return not _hows(expr, variables).isdisjoint(("bare", "prev"))


def ask_early(unit: Unit, *, runs: bool = False) -> None:
    """Have what one document decides asked when it comes. `runs`: the unit is one of runs, which
    ask for themselves."""
    if not runs:
        unit.conjuncts = _left_to(unit, unit.conjuncts)
    for item in unit.order:
        match item:
            case Judged():
                ask_early(item.unit)
            case Next():
                ask_early(item.left)
                ask_early(item.right)
                item.conjuncts = _left_to(item.right, _left_to(item.left, item.conjuncts))
            case Fold():
                ask_early(item.left)
                ask_early(item.right)
                item.filter = _left_to(item.right, _left_to(item.left, item.filter))
            case Group() if not runs:
                ask_early(item.unit)
                item.conjuncts = _left_to(item.unit, item.conjuncts)
    for absence in unit.absences:
        ask_early(absence.unit)
        absence.conjuncts = _left_to(absence.unit, absence.conjuncts)


def _left_to(unit: Unit, asked: Sequence[Conjunct]) -> list[Conjunct]:
    """The conjuncts that blocks of the unit do not decide by themselves; the others go to these."""
    left: list[Conjunct] = []
    for each in asked:
        own = [item for item in unit.order if item.variables & each.names]
        blocks = [i for i in own if isinstance(i, Leaf) and each.names <= i.variables]
        if not each.names or not each.of_nodes or not own or len(blocks) < len(own):
            left.append(each)
            continue
        for block in blocks:
            block.conjuncts.append(each)
    return left

"""Which values all documents of a match have in common: what looks at documents of one value then
never depends on those of another, so that a pattern may be divided by it.

    ties    plan -> the values by which it can be divided, or why there is none

A tie is a class of variables, one of each block, whose values are equal wherever blocks meet: of a
match, of what NEXT or FOLD choose from, of a group's elements, of what a NOT forbids. Where WHERE
judges what was chosen, its equalities come too late. Or it is a path of PARTITION BY, by which all
of that agrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker.pattern.equalities import Class, classes, pairs_of
from broker.pattern.plan import (
    Absence,
    Conjunct,
    Fold,
    Group,
    Judged,
    Leaf,
    Next,
    Ordered,
    Plan,
    Single,
    Unit,
    Variant,
)
from broker.pattern.reading import named_in
from xscl import ast


@dataclass(frozen=True, slots=True)
class Tie:
    """A value of each document: by tap the variable that has it, or without variables the path of
    this place in PARTITION BY. `alone`: this holds only as long as no document has several values
    of it, as what was found by one of them would be looked at together with that of another."""

    variables: tuple[str, ...]
    partition: int
    alone: bool


def ties(plan: Plan) -> list[Tie] | str:
    """The ties of a pattern, those in front that always hold."""
    query = plan.query
    strategy, over = query.strategy, query.over
    selection = None if strategy is None else strategy.selection
    choosing = None if strategy is None else strategy.choosing
    if selection == "STRICT CONTIGUITY":
        return "STRICT CONTIGUITY looks at all documents of its streams"
    if choosing == "ONE PER START" and not _begins_with_block(plan.unit):
        return "ONE PER START looks at all matches, as several blocks may be the first"
    found: list[Tie] = []
    if selection != "PARTITION CONTIGUITY" and choosing != "NON OVERLAPPING":
        runs = selection in ast.RUNS
        named = {*(named_in(query.select) or ())}
        for each in classes(_equalities(plan.unit)):
            by_tap: dict[int, str] = {}
            if over is not None and not any(_is_of(key, each) for key in over.keys):
                continue
            if _is_tied(plan.unit, each, by_tap, runs=runs):
                told = not (named & each).isdisjoint(_sure(plan.unit))
                variables = tuple([by_tap[place] for place in range(len(plan.taps))])
                found.append(Tie(variables, 0, alone=not told or choosing is not None))
    if query.partition and over is None:
        found += [Tie((), place, alone=True) for place in range(len(query.partition))]
    if found:
        return sorted(found, key=lambda each: each.alone)
    if choosing == "NON OVERLAPPING" and not query.partition:
        return "NON OVERLAPPING without PARTITION BY looks at all matches"
    if over is not None:
        return "OVER looks at all matches, as no value that all blocks have is in GROUP BY"
    return "no equality ties all blocks"


def _is_of(key: ast.Expr, variables: Class) -> bool:
    return isinstance(key, ast.Path) and not key.steps and key.variable in variables


def _begins_with_block(unit: Unit) -> bool:
    """Whether the earliest document of each match is that of one block."""
    if len(unit.variants) != 1:
        return False
    tree = unit.variants[0].tree
    items = tree.items if isinstance(tree, Ordered) else [tree]
    first = next((item for item in items if not isinstance(item, Absence)), None)
    return isinstance(first, Leaf)


def _equalities(unit: Unit) -> Iterator[tuple[str, str]]:
    """All equalities of variables in a unit."""
    asked = [*unit.conjuncts]
    inside: list[Unit] = []
    for item in unit.order:
        match item:
            case Judged():
                inside.append(item.unit)
            case Next():
                asked += item.conjuncts
                inside += [item.left, item.right]
            case Fold():
                asked += item.filter
                inside += [item.left, item.right]
            case Group():
                asked += item.conjuncts
                inside.append(item.unit)
    for absence in unit.absences:
        asked += absence.conjuncts
        inside.append(absence.unit)
    yield from pairs_of(asked)
    for each_unit in inside:
        yield from _equalities(each_unit)


# -- whether a class ties a unit -----------------------------------------------------------------


def _is_tied(unit: Unit, of: Class, by_tap: dict[int, str], *, runs: bool = False) -> bool:
    """Whether a class has one variable of each block of a unit, and documents of different values
    never meet; notes by tap that variable. `runs`: conjuncts are asked as soon as what they name
    is taken, so each item has to be tied to one before it."""
    return (
        all(_is_item_tied(item, of, by_tap) for item in unit.order)
        and all(_is_tied(each.unit, of, by_tap) for each in unit.absences)
        and all(_are_linked(unit, variant, of, runs=runs) for variant in unit.variants)
    )


def _is_item_tied(item: Single | Group, of: Class, by_tap: dict[int, str]) -> bool:
    match item:
        case Leaf():
            own = sorted(item.variables & of)
            by_tap[item.tap] = own[0] if own else ""
            return len(own) == 1
        case Judged() | Group():
            return _is_tied(item.unit, of, by_tap)
        case Next():
            asked = item.conjuncts
        case Fold():
            asked = item.filter
    return (
        _is_tied(item.left, of, by_tap)
        and _is_tied(item.right, of, by_tap)
        and _is_linked(asked, of & _sure(item.left), of & _sure(item.right))
    )


def _are_linked(unit: Unit, variant: Variant, of: Class, *, runs: bool) -> bool:
    """Whether equalities link all that stands in a variant, and all that it forbids."""
    singles = variant.singles
    if not singles:
        return False
    own = [of & _sure_of(item) for item in singles]
    linked, left = own[0], own[1:]
    while left:
        place = next((n for n, e in enumerate(left) if _is_linked(unit.conjuncts, linked, e)), None)
        if place is None or (runs and place):
            return False
        linked |= left.pop(place)
    everywhere = frozenset().union(*own)
    for group in variant.groups:
        before = everywhere
        if runs:
            at = unit.order.index(group)
            before = frozenset().union(
                *[e for s, e in zip(singles, own, strict=True) if unit.order.index(s) < at]
            )
        if not _is_linked(group.conjuncts, before, of & _sure(group.unit)):
            return False
    return all(
        _is_linked(each.conjuncts, everywhere, of & _sure(each.unit)) for each in variant.absences
    )


def _is_linked(asked: Sequence[Conjunct], one: Class, other: Class) -> bool:
    return any((a in one and b in other) or (b in one and a in other) for a, b in pairs_of(asked))


def _sure(unit: Unit) -> Class:
    """The variables that single documents of each match of a unit have."""
    found = [
        frozenset[str]().union(*[_sure_of(item) for item in variant.singles])
        for variant in unit.variants
    ]
    return found[0].intersection(*found[1:])


def _sure_of(item: Single) -> Class:
    match item:
        case Leaf():
            return item.variables
        case Judged():
            return _sure(item.unit)
        case Next():
            return _sure(item.left) | _sure(item.right)
        case Fold():
            return _sure(item.left)

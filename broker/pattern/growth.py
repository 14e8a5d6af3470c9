"""The price of a pattern: how many matches n documents may make, in words."""

from __future__ import annotations

from broker.pattern.plan import Fold, Group, Item, Judged, Next, Plan, Unit, Window, leaves
from xscl import ast
from xscl.syntax.durations import format_microseconds


def growth(plan: Plan) -> str:
    """At most how many matches n documents within the window make, as the end of a sentence: the
    table "Growth" of Part 2."""
    strategy = plan.query.strategy
    selection = None if strategy is None else strategy.selection
    choosing = None if strategy is None else strategy.choosing
    if choosing == "ONE PER START":
        most = "n"
    elif selection in ast.RUNS:
        # A run may begin anywhere, and each of its groups may end anywhere.
        most = _shown(1 + max([len(variant.groups) for variant in plan.unit.variants]))
    else:
        free = selection == "SKIP TILL ANY MATCH"
        power, exponential = _power(plan.unit, free)
        most = _shown(power)
        if exponential:
            most = f"{most} · 2^n" if power else "2^n"
    return f"at most {most} matches of n documents{_within(plan.unit.kept)}"


def _shown(power: int) -> str:
    return {1: "n", 2: "n²", 3: "n³"}.get(power, f"n^{power}")


def _within(kept: Window) -> str:
    if kept is None:
        return " in all"
    return "" if kept == 0 else f" within {format_microseconds(kept)}"


def _power(unit: Unit, free: bool) -> tuple[int, bool]:
    """The power of n, and whether there are all combinations of a group; of the branches of ORs the
    worst."""
    found = []
    for variant in unit.variants:
        if variant.alone and not free:
            # It is not one for a choice of the rest: each of its elements may be a first one.
            found.append(_power(variant.groups[0].unit, free))
            continue
        powers = [_of(item, free) for item in leaves(variant.tree)]
        found.append((sum([power for power, _ in powers]), any(ex for _, ex in powers)))
    return max([power for power, _ in found]), any(ex for _, ex in found)


def _of(item: Item, free: bool) -> tuple[int, bool]:
    match item:
        case Group():
            # A longest group is one for each choice of the rest; a bounded one may begin anywhere.
            if free:
                return 0, True
            return (0, False) if item.most is None else _power(item.unit, free)
        case Judged():
            return _power(item.unit, free)
        case Next():
            return _power(item.left, free)
        case Fold():
            power, exponential = _power(item.left, free)
            return power + 1, exponential
    return (1, False) if hasattr(item, "tap") else (0, False)

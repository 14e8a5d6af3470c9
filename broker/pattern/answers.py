"""When a pattern answers, in words: for `broker check` and `broker explain`."""

from __future__ import annotations

from broker.pattern.plan import (
    Absence,
    Fold,
    Group,
    Item,
    Judged,
    Next,
    Ordered,
    Plan,
    Together,
    Tree,
    Unit,
    leaves,
)
from xscl import ast
from xscl.syntax.durations import LONGEST, format_microseconds


def answers(plan: Plan, lateness: int | None = None) -> str:
    """When matches are published, as the end of a sentence. `lateness` is the allowed one in
    microseconds, of the streams that it reads, where these are known."""
    query = plan.query
    strategy = query.strategy
    free = strategy is not None and strategy.selection == "SKIP TILL ANY MATCH"
    late = _late(plan.unit, free)
    choosing = query.over is not None or (strategy is not None and strategy.choosing is not None)
    runs = strategy is not None and strategy.selection in ast.RUNS
    if late is None and not (choosing or runs):
        return "as soon as its documents are there"
    behind = "the end of its window" if late == "deadline" else "its last document"
    if query.wait is None:
        known = "7 days by default"
        if lateness is not None:
            known = f"{format_microseconds(lateness if lateness < LONGEST else None)} here"
        return (
            f"when the allowed lateness has passed after {behind}, {known}: WAIT sets another time"
        )
    wait = query.wait.microseconds
    if wait is None:
        return "never: it waits for INFINITY"
    if wait == 0:
        return f"as soon as time is beyond {behind}; what comes late is not seen (WAIT 0 s)"
    return f"{format_microseconds(wait)} after {behind}; what comes later is not seen"


def _late(unit: Unit, free: bool) -> str | None:
    """Whether matches of a unit wait: for the "deadline" of something, or the "end" of a
    document."""
    found: set[str | None] = set()
    for variant in unit.variants:
        found |= {_of_tree(variant.tree, free, last=True)}
        for item in leaves(variant.tree):
            found |= _inside(item, free)
    if "deadline" in found:
        return "deadline"
    return "end" if "end" in found else None


def _inside(item: Item, free: bool) -> set[str | None]:
    match item:
        case Judged() | Group():
            return {_late(item.unit, free)}
        case Next() | Fold():
            return {"end", _late(item.left, free), _late(item.right, free)}
    return set()


def _of_tree(tree: Tree, free: bool, last: bool) -> str | None:
    """What the absences and groups of a tree wait for; `last`: nothing stands behind it."""
    match tree:
        case Group() if free:
            return None
        case Absence() | Group():
            return "deadline" if last else "end"
        case Together():
            waits = [i for i in tree.items if isinstance(i, Absence | Group)]
            if [i for i in waits if not (free and isinstance(i, Group))]:
                return "deadline"
            return _worst([_of_tree(item, free, last) for item in tree.items])
        case Ordered():
            found: list[str | None] = []
            behind = last
            for item in reversed(tree.items):
                found.append(_of_tree(item, free, behind))
                behind = behind and isinstance(item, Absence)
            return _worst(found)
    return None


def _worst(found: list[str | None]) -> str | None:
    if "deadline" in found:
        return "deadline"
    return "end" if "end" in found else None

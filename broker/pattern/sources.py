"""Makes the sources of items and units: who imports whom ends here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from broker.pattern.instances import NEVER, Arrived, Instance, of_row
from broker.pattern.plan import Fold, Judged, Leaf, Next, Plan, Single
from broker.pattern.runs import RunsRunner
from broker.pattern.setting import HELD, Resting, Setting, Source
from broker.pattern.soonest import FoldRunner, NextRunner
from broker.pattern.trace import Trace
from broker.pattern.unit import UnitRunner
from broker.pattern.values import Scope
from broker.planner import PLANNING, Planning
from xscl import ast


class Rows:
    """The source of a block."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf

    def advance(self, arrived: Arrived, watermark: int | None) -> list[Instance]:
        leaf = self._leaf
        found = [of_row(leaf.slot, row) for row in arrived.get(leaf.tap, ())]
        if not leaf.conjuncts:
            return found
        return [each for each in found if all(c.holds(_scope(each)) for c in leaf.conjuncts)]

    def due(self) -> int:
        return NEVER

    def expire(self, horizon: int) -> None:
        pass

    def waiting(self) -> Iterator[tuple[int, Instance]]:
        return iter(())


def _scope(instance: Instance) -> Scope:
    return Scope(instance.single, length=instance.span)


def source_of_plan(
    plan: Plan,
    registered: int | None,
    left: int,
    trace: Trace | None,
    planning: Planning = PLANNING,
) -> tuple[Setting, Source]:
    """What finds the matches of a plan. `left` is how many choices may be tried."""
    strategy = plan.query.strategy
    selection = None if strategy is None else strategy.selection
    free = selection == "SKIP TILL ANY MATCH"
    kind = Setting if trace is None else Resting
    setting = kind(plan, registered, free, _nothing, _nothing, left, left // HELD, trace)
    setting.planning = planning
    setting.source = partial(_source, setting)
    setting.unit = partial(_unit, setting)
    if selection in ast.RUNS:
        return setting, RunsRunner(plan, setting, selection)
    return setting, UnitRunner(plan.unit, setting)


def _nothing(*_: object) -> Source:
    raise TypeError("the setting is not complete")


def _unit(setting: Setting, *args: object) -> Source:
    unit, *others = args
    return UnitRunner(unit, setting, *others)  # type: ignore[arg-type]


def _source(setting: Setting, item: Single) -> Source:
    match item:
        case Leaf():
            return Rows(item)
        case Judged():
            return UnitRunner(item.unit, setting)
        case Next():
            return NextRunner(item, setting)
        case Fold():
            return FoldRunner(item, setting)

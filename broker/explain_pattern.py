"""How an event pattern is understood, for `broker explain`: when it answers, what stands where, and
by which queries its documents are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from broker.model import UNBOUNDED
from broker.pattern.answers import answers
from broker.pattern.growth import growth
from broker.pattern.in_order.deferred import last_place
from broker.pattern.in_order.shared import Shared
from broker.pattern.keeping import looks_at_several
from broker.pattern.ordering import ordering_of, problem_of, steps_of
from broker.pattern.plan import (
    Absence,
    Choice,
    Conjunct,
    Fold,
    Group,
    Judged,
    Leaf,
    Next,
    Ordered,
    Plan,
    Single,
    Together,
    Tree,
    Unit,
    Window,
)
from broker.pattern.statistics import Seen
from broker.pattern.steps import Planned
from broker.planner import DEFAULT, Method
from broker.planner import plan as made
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.query.patterns import TAP, PatternQuery
from broker.query.prepared import Compiled
from xscl import ast
from xscl.syntax.durations import format_microseconds
from xscl.syntax.printer import format_expression, format_pattern

_ASSUMED = 100
"""Documents of each block where nothing is known."""

_VALUES = 10
"""Values that an equality has then."""


def pattern_stage(
    query: Compiled, catalog: Catalog | None = None, planner: Method = DEFAULT
) -> str:
    """An event pattern, the queries of its blocks, and how it is planned, if it is."""
    pattern = query.own_pattern
    if pattern is None:
        return "no event pattern"
    plan = pattern.plan
    lines = [f"answers {answers(plan)}", growth(plan)]
    kept = pattern.retention
    lasting = "for ever" if kept >= UNBOUNDED else f"for {format_microseconds(kept)}"
    lines.append(f"keeps the documents that its blocks take {lasting}, beside the lateness")
    if plan.query.partition:
        paths = ", ".join(map(format_expression, plan.query.partition))
        lines.append(f"all documents of a match agree in {paths}")
    lines.append(_way(query, pattern, catalog))
    lines += _unit(plan, plan.unit, 0)
    lines += [f"a match is {_kind(plan)}"] if plan.query.strategy is not None else []
    lines.append("blocks are found by")
    lines += _taps(query, pattern, catalog)
    if pattern.ordered is None:
        lines += _planned(plan, planner)
    return "\n".join(lines)


def _way(query: Compiled, pattern: PatternQuery, catalog: Catalog | None) -> str:
    """How it is matched, and with whom it shares what was compiled."""
    shared = pattern.ordered
    way = "by choosing documents"
    if shared is not None:
        when = "when its last document comes" if shared.at_once else "in the order of time"
        way = f"{when}, as {shared.form.name}"
        if looks_at_several(pattern.plan):
            way += ", and compared with its other matches once time is beyond its end"
    if catalog is None:
        return f"matched {way}"
    known = catalog.subscriptions.values()
    others = [each for each in known if each.shape is query.shape and each.id != query.id]
    several = "one other query has" if len(others) == 1 else f"{len(others):,} other queries have"
    together = ""
    if others and shared is not None:
        together = f", which are matched together with it{_noted(pattern, shared, others)}"
    return f"matched {way}; {several if others else 'no other query has'} its shape{together}"


def _noted(pattern: PatternQuery, shared: Shared, others: Sequence[Subscription]) -> str:
    """For how many of its blocks documents stand in logs that it shares, or that what waits there
    is made once."""
    taps = [tap.resolved.id for tap in pattern.taps]
    theirs = [[each.id for each in other.nested if each.id.startswith(TAP)] for other in others]
    first = shared.form.leaves[: last_place(shared.form, shared.plan.kept)]
    count = sum(any(names[leaf.tap] == taps[leaf.tap] for names in theirs) for leaf in first)
    if not count:
        return ""
    alike = sum(all(names[leaf.tap] == taps[leaf.tap] for leaf in first) for names in theirs)
    if alike and shared.has_prefixes:
        others_have = "one of them has" if alike == 1 else f"{alike:,} of them have"
        return f"; {others_have} the same first blocks, and what waits there is made once"
    blocks = "one block" if count == 1 else f"{count} blocks"
    return f"; documents of {blocks} are noted once, until one comes for the last block"


def _taps(query: Compiled, pattern: PatternQuery, catalog: Catalog | None) -> Iterator[str]:
    """The queries of its blocks, and for how many blocks each finds documents."""
    own = Counter([tap.resolved.id for tap in pattern.taps])
    texts = {tap.resolved.id: tap.resolved.text for tap in pattern.taps}
    for id, text in texts.items():
        others = 0 if catalog is None else catalog.users(id)
        if catalog is not None and query.id in catalog.subscriptions:
            others -= own[id]
        shared = [f"{own[id]} blocks"] if own[id] > 1 else []
        shared += [f"{others:,} of other queries"] if others else []
        yield f"  {text}" + (f", once for {' and '.join(shared)}" if shared else "")


def _planned(plan: Plan, planner: Method) -> Iterator[str]:
    """The plans of a pattern of which nothing has been observed."""
    selection = None if plan.query.strategy is None else plan.query.strategy.selection
    if selection in ast.RUNS:
        return

    def name(item: Single) -> str:
        if isinstance(item, Leaf):
            return format_pattern(plan.taps[item.tap].block)
        return f"what is judged by itself, {', '.join(sorted(item.variables))}"

    seen = {id(each): Seen(each) for each in plan.unit.conjuncts}
    for variant in plan.unit.variants:
        if len(variant.singles) > 1:
            yield f"planned by {planner}, for {_ASSUMED} documents of each block"
            ordering = ordering_of(variant, seen, bool(plan.query.partition))
            counts = [float(_ASSUMED)] * len(variant.singles)
            problem = problem_of(ordering, counts, lambda *_: _VALUES)
            steps = steps_of(ordering, problem, made(problem, planner))
            yield from Planned(variant, steps, counted=False).lines(name)


def _kind(plan: Plan) -> str:
    strategy = plan.query.strategy
    assert strategy is not None
    return ", ".join([part for part in (strategy.selection, strategy.choosing) if part])


def _unit(plan: Plan, unit: Unit, depth: int) -> Iterator[str]:
    within = "" if unit.within is None else f" within {format_microseconds(unit.within)}"
    yield f"{'  ' * depth}pattern{within}{_asked(' where', unit.conjuncts)}"
    yield from _tree(plan, unit.tree, depth + 1, "")


def _tree(  # noqa: C901  # one case a construct
    plan: Plan, tree: Tree, depth: int, window: str
) -> Iterator[str]:
    pad = "  " * depth
    match tree:
        case Leaf():
            asked = _asked(" where", tree.conjuncts)
            yield f"{pad}{format_pattern(plan.taps[tree.tap].block)}{window}{asked}"
        case Ordered():
            yield f"{pad}one after the other{window}"
            for item, (own, after) in zip(tree.items, tree.windows, strict=True):
                yield from _tree(plan, item, depth + 1, _bound(own, after))
        case Together():
            yield f"{pad}in any order{window}"
            for item, own in zip(tree.items, tree.windows, strict=True):
                yield from _tree(plan, item, depth + 1, _bound(own))
        case Choice():
            yield f"{pad}one of{window}"
            for branch in tree.branches:
                yield from _tree(plan, branch, depth + 1, "")
        case Absence():
            many = f" {tree.count} of" if tree.count > 1 else ""
            yield f"{pad}not{many}{window}{_asked(' where', tree.conjuncts)}"
            yield from _unit(plan, tree.unit, depth + 1)
        case Group():
            most = "more" if tree.most is None else tree.most
            asked = _asked(" each", tree.conjuncts) + _asked(" the first", tree.first)
            yield f"{pad}{tree.least} to {most} of{window}{asked}"
            yield from _unit(plan, tree.unit, depth + 1)
        case Judged():
            yield f"{pad}judged by itself{window}"
            yield from _unit(plan, tree.unit, depth + 1)
        case Next():
            yield f"{pad}the next one{window}{_bound(tree.window, tree.after)}"
            yield from _unit(plan, tree.left, depth + 1)
            yield f"{pad}  is the first{_asked(' where', tree.conjuncts)}"
            yield from _unit(plan, tree.right, depth + 2)
        case Fold():
            yield f"{pad}iterated{window}"
            yield from _unit(plan, tree.left, depth + 1)
            asked = _asked(" where", tree.filter) + _asked(" while", tree.proceed)
            yield f"{pad}  then the first each time{asked}"
            yield from _unit(plan, tree.right, depth + 2)


def _bound(window: Window, after: bool = False) -> str:
    if window is None:
        return ""
    behind = " after what stands before" if after else ""
    return f", within {format_microseconds(window)}{behind}"


def _asked(word: str, conjuncts: Sequence[Conjunct]) -> str:
    if not conjuncts:
        return ""
    return f"{word} " + " and ".join([format_expression(each.expr) for each in conjuncts])

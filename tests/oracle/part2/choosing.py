"""NEXT and FOLD: the soonest documents, and iterations of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from tests.oracle.part2 import shape
from tests.oracle.part2.instances import Around, Instance, Tuples, World, common, several
from tests.oracle.part2.scope import Scope
from tests.oracle.part2.times import Span, Wait, hull, later
from tests.oracle.values import Value


def nexts(world: World, item: shape.Next) -> Iterator[Instance]:
    for left in world.instances(item.left, Around()):
        found: list[tuple[Instance, Tuples]] = []
        for right in world.instances(item.right, _after(left, left.span.end, [])):
            tuples = common(left.tuples, right.tuples)
            if tuples is not None and not tuples:
                continue
            both = _hull([left.span, right.span])
            bound = right.span.end - left.span.end if item.after else both.length
            if item.window is not None and bound > item.window:
                continue
            around = Around(left.single(), left.elements(), left.computed)
            if world.scope(right, around, both.length).all(item.conjuncts):
                found.append((right, tuples))
        soonest = min((right.span.end for right, _ in found), default=None)
        for right, tuples in found:
            if right.span.end == soonest:
                yield _joined(left, right, tuples)


def _after(left: Instance, end: int, elements: Sequence[Instance]) -> Around:
    keys = [d.key for each in (left, *elements) for d in each.documents()]
    return Around(taken=frozenset(keys), after=end)


def _joined(left: Instance, right: Instance, tuples: Tuples) -> Instance:
    wait = Wait(right.inner.end)
    return Instance(
        {**left.parts, **right.parts},
        _hull([left.span, right.span]),
        _hull([left.inner, right.inner]),
        later([left.wait, right.wait, wait]),
        {**left.computed, **right.computed},
        tuples,
    )


def _hull(spans: list[Span]) -> Span:
    found = hull(spans)
    assert found is not None
    return found


def folds(world: World, item: shape.Fold) -> Iterator[Instance]:
    for left in world.instances(item.left, Around()):
        scope = world.scope(left, Around(), left.span.length)
        begins = {each.variable: scope.known(each.initial) for each in item.iterations}
        yield from _steps(world, item, left, [], begins, left.tuples)


def _steps(
    world: World,
    item: shape.Fold,
    left: Instance,
    taken: list[Instance],
    computed: dict[str, Value],
    tuples: Tuples,
) -> Iterator[Instance]:
    end = taken[-1].span.end if taken else left.span.end
    following: list[tuple[Instance, Tuples, Scope]] = []
    every = world.instances(item.right, _after(left, end, taken))
    ordered = sorted(every, key=lambda each: each.order)
    for _, same in groupby(ordered, key=lambda each: [d.key for d in each.documents()]):
        passing = []
        for each in same:
            both = common(tuples, each.tuples)
            if both is not None and not both:
                continue
            scope = _scope(world, item, left, taken, computed, each)
            if scope.all(item.filter):
                passing.append((each, both, scope))
        going = [one for one in passing if one[2].all(item.proceed)]
        following += (going or passing)[:1]
    soonest = min((each.span.end for each, _, _ in following), default=None)
    for each, both, scope in following:
        if each.span.end != soonest or not scope.all(item.proceed):
            continue
        steps = [*taken, each]
        values = {i.variable: scope.known(i.expr) for i in item.iterations}
        span = _hull([left.span, *(step.span for step in steps)])
        yield Instance(
            {**left.parts, item.slot: tuple(steps)},
            span,
            _hull([left.inner, *(step.inner for step in steps)]),
            later([left.wait, *(step.wait for step in steps), Wait(each.inner.end)]),
            {**left.computed, **values},
            both,
        )
        yield from _steps(world, item, left, steps, values, both)


def _scope(
    world: World,
    item: shape.Fold,
    left: Instance,
    taken: list[Instance],
    computed: dict[str, Value],
    each: Instance,
) -> Scope:
    own = {name: [] for name in each.single()}  # type: dict[str, list[object]]
    own.update(several(taken))  # type: ignore[arg-type]
    spans = [left.span, *(step.span for step in taken), each.span]
    scope = world.scope(left, Around(), _hull(spans).length)
    return replace(
        scope,
        several={**scope.several, **own},  # type: ignore[dict-item]
        computed={**left.computed, **computed},
        current=each.single(),
    )

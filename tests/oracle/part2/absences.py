"""NOT: what could have stood in its place, looked for among all documents."""

from __future__ import annotations

from tests.oracle.part2 import shape
from tests.oracle.part2.instances import Around, Instance, State, World, common, leaves
from tests.oracle.part2.times import Span, Timing


def unblocked(
    world: World, unit: shape.Unit, state: State, match: Instance, around: Around
) -> bool:
    """Whether no absence of a unit forbids a match, and all of them can be known."""
    here = [a for a in unit.absences if any(each is a for each in leaves(state.branches))]
    return all(
        not _reaches_back(world, unit, state, absence, match)
        and not _forbidden(world, unit, state, absence, match, around)
        for absence in here
    )


def _forbidden(
    world: World,
    unit: shape.Unit,
    state: State,
    absence: shape.Absence,
    match: Instance,
    around: Around,
) -> bool:
    found: list[Instance] = []
    whole = world.scope(match, around)
    inside = Around(whole.single, whole.several, match.computed)
    keys = {document.key for document in match.documents()} | set(around.taken)
    for each in world.instances(absence.unit, Around()):
        if any(document.key in keys for document in each.documents()):
            continue
        if around.after is not None and not each.span.start > around.after:
            continue
        tuples = common(state.tuples, each.tuples)
        if tuples is not None and not tuples:
            continue
        if not _fits(unit, state, absence, each.span):
            continue
        if world.scope(each, inside, match.span.length).all(absence.conjuncts):
            found.append(each)
    return _count(found, absence) >= absence.count


def _fits(unit: shape.Unit, state: State, absence: shape.Absence, span: Span) -> bool:
    timing = Timing(unit, state.spans(), state.branches, inserted=(absence, span))
    return timing.checked() is not None


def _count(found: list[Instance], absence: shape.Absence) -> int:
    """How many of them there are: documents, or composite matches each before the next."""
    if not absence.composite:
        return len({each.documents()[0].key for each in found})
    count, end = 0, None
    for each in sorted(found, key=lambda one: one.span.end):
        if end is None or each.span.start > end:
            count, end = count + 1, each.span.end
    return count


def _reaches_back(
    world: World, unit: shape.Unit, state: State, absence: shape.Absence, match: Instance
) -> bool:
    """Whether an absence at the start or in a JOIN looks back to a time before the registration."""
    known = world.registered
    if known is None or not _looks_back(state.branches, absence, state):
        return False
    if match.inner.start <= known:
        return True
    return _fits(unit, state, absence, Span(known, known))


def _looks_back(tree: shape.Tree, absence: shape.Absence, state: State) -> bool:
    match tree:
        case shape.List():
            for item in tree.items:
                if item is absence:
                    return True
                if any(_present(each, state) for each in leaves(item)):
                    break
            return any(
                _looks_back(item, absence, state)
                for item in tree.items
                if not isinstance(item, shape.Absence)
            )
        case shape.Both():
            sides = (tree.left, tree.right)
            return any(side is absence or _looks_back(side, absence, state) for side in sides)
    return False


def _present(item: shape.Tree, state: State) -> bool:
    if isinstance(item, shape.Group):
        return bool(state.groups.get(item))
    return item in state.chosen

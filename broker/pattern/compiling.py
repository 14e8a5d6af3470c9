"""From the syntax tree of an event pattern to its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.pattern.placing import ask_early, asked_of_elements, conjuncts_of, place_conjunct
from broker.pattern.plan import (
    Absence,
    Choice,
    Fold,
    Group,
    Judged,
    Leaf,
    Next,
    Ordered,
    Plan,
    Step,
    Tap,
    Together,
    Tree,
    Unit,
    Window,
    conjunct,
    slots_of,
)
from broker.pattern.reading import paths_of
from broker.pattern.values import compile_known, path_text
from broker.pattern.variants import with_variants
from xscl import ast
from xscl.check.shapes import is_document
from xscl.check.sites import bound_in, conjuncts


def plan(query: ast.Query, streams: Mapping[int, str]) -> Plan:
    """The plan of a checked query; `streams` gives the stream of each nested query by identity."""
    maker = _Maker(streams)
    where = [] if query.where is None else [query.where]
    unit = maker.unit(query.pattern, where, microseconds(query.within))
    selection = None if query.strategy is None else query.strategy.selection
    contiguous = []
    if selection == "PARTITION CONTIGUITY":
        contiguous = maker.plain_taps()
    elif selection == "STRICT CONTIGUITY":
        contiguous = maker.stream_taps()
    paths = paths_of(query)
    for tap in maker.taps:
        own = set(bound_in(tap.block.steps))
        if not tap.plain:
            tap.paths = {path_text(p): p for p in paths if p.variable in own}
        tap.partition = query.partition
    ask_early(unit, runs=selection in ast.RUNS)
    over = query.over
    # What waits until its deadline may look back from its beginning as far.
    kept = unit.kept if unit.kept is None else unit.kept * (2 if maker.waits else 1)
    return Plan(
        query,
        unit,
        maker.taps,
        contiguous,
        maker.group_variables,
        kept,
        [compile_known(key) for key in over.keys] if over is not None else [],
        conjunct(over.having) if over is not None and over.having is not None else None,
    )


def microseconds(window: ast.Duration | None) -> Window:
    return None if window is None else window.microseconds


class _Maker:
    def __init__(self, streams: Mapping[int, str]) -> None:
        self._streams = streams
        self._slots = 0
        self.taps: list[Tap] = []
        self.group_variables: dict[int, frozenset[str]] = {}
        self.waits = False
        """Whether there is a group or an absence."""

    def _slot(self) -> int:
        self._slots += 1
        return self._slots - 1

    def plain_taps(self) -> list[int]:
        """Taps of the blocks' paths without filters."""
        found: list[int] = []
        for tap in [*self.taps]:
            steps = tuple(ast.Step(s.axis, s.test, None, (), span=s.span) for s in tap.block.steps)
            block = ast.Block(tap.block.stream, steps, span=tap.block.span)
            found.append(len(self.taps))
            self.taps.append(Tap(block, {}, (), True))
        return found

    def stream_taps(self) -> list[int]:
        """Taps of all documents of the streams."""
        found: list[int] = []
        for stream in dict.fromkeys([tap.block.stream for tap in self.taps]):
            span = self.taps[0].block.span
            step = ast.Step("/", ast.Test("element"), span=span)
            found.append(len(self.taps))
            self.taps.append(Tap(ast.Block(stream, (step,), span=span), {}, (), True))
        return found

    def unit(self, pattern: ast.Pattern, where: list[ast.Expr], within: Window) -> Unit:
        unit = Unit(_NOTHING, within)
        predicates = list(where)
        unit.tree = self._tree(pattern, unit, predicates)
        for predicate in predicates:
            for part in conjuncts(predicate):
                place_conjunct(unit, part)
        return with_variants(unit)

    def _tree(self, pattern: ast.Pattern, unit: Unit, predicates: list[ast.Expr]) -> Tree:
        match pattern:
            case ast.Block() | ast.Nested():
                leaf = self._leaf(pattern)
                unit.order.append(leaf)
                return leaf
            case ast.Join(kind="FOLLOWED BY"):
                return self._list(pattern, unit, predicates)
            case ast.Join(kind="JOIN"):
                return self._together(pattern, unit, predicates)
            case ast.Join():
                return self._next(pattern, unit, predicates)
            case ast.Fold():
                return self._fold(pattern, unit, predicates)
            case ast.Alternatives():
                return Choice([self._tree(each, unit, predicates) for each in pattern.branches])
            case ast.Parenthesis():
                if pattern.where is None and pattern.within is None:
                    return self._tree(pattern.pattern, unit, predicates)
                where = [] if pattern.where is None else [pattern.where]
                inner = self.unit(pattern.pattern, where, microseconds(pattern.within))
                judged = Judged(inner, _slots_of(inner), _variables_of(inner))
                unit.order.append(judged)
                return judged
            case ast.Negation():
                return self._absence(pattern, unit)
            case ast.Group():
                return self._group(pattern, unit)

    def _leaf(self, term: ast.Block | ast.Nested) -> Leaf:
        block = term
        if isinstance(block, ast.Nested):
            block = ast.Block(self._streams[id(term)], term.steps, span=term.span)
        self.taps.append(Tap(block, {}, ()))
        return Leaf(self._slot(), len(self.taps) - 1, frozenset(bound_in(block.steps)))

    def _list(self, pattern: ast.Join, unit: Unit, predicates: list[ast.Expr]) -> Ordered:
        chain: list[ast.Join] = []
        rest: ast.Pattern = pattern
        while isinstance(rest, ast.Join) and rest.kind == "FOLLOWED BY":
            chain.append(rest)
            rest = rest.left
        # Absences side by side in parentheses are each for itself.
        items = _independent(self._tree(rest, unit, predicates))
        windows: list[tuple[Window, bool]] = [(None, False)] * len(items)
        for join in reversed(chain):
            if join.predicate is not None:
                predicates.append(join.predicate)
            inside = _independent(self._tree(join.right, unit, predicates))
            items += inside
            windows += [(microseconds(join.window), join.after)] * len(inside)
        for place, item in enumerate(items):
            if isinstance(item, Fold):
                around = [window for window, after in windows[place:] if not after]
                known = [each for each in (item.within, *around) if each is not None]
                item.within = min(known, default=None)
        return Ordered(items, windows)

    def _together(self, pattern: ast.Join, unit: Unit, predicates: list[ast.Expr]) -> Together:
        left = self._tree(pattern.left, unit, predicates)
        if pattern.predicate is not None:
            predicates.append(pattern.predicate)
        right = _independent(self._tree(pattern.right, unit, predicates))
        window = microseconds(pattern.window)
        items = _independent(left)
        windows: list[Window] = [None] * len(items)
        if isinstance(left, Together):
            items, windows = [*left.items], [*left.windows]
        return Together([*items, *right], [*windows, *[window] * len(right)])

    def _operand(self, pattern: ast.Pattern, outer: list[ast.Expr]) -> Unit:
        """A left operand; predicates of its braces that name what stands right are left to
        `outer`."""
        unit, own = self.unit(pattern, [], None), set(_bound(pattern))
        for each in [*unit.conjuncts]:
            if not each.names <= own:
                unit.conjuncts.remove(each)
                outer.append(each.expr)
        return unit

    def _next(self, pattern: ast.Join, unit: Unit, outer: list[ast.Expr]) -> Next:
        left = self._operand(pattern.left, outer)
        right = self.unit(pattern.right, [], None)
        item = Next(
            *(left, right, conjuncts_of(pattern.predicate)),
            *(microseconds(pattern.window), pattern.after),
            _slots_of(left) + _slots_of(right),
            _variables_of(left) | _variables_of(right),
        )
        unit.order.append(item)
        return item

    def _fold(self, pattern: ast.Fold, unit: Unit, outer: list[ast.Expr]) -> Fold:
        left = self._operand(pattern.left, outer)
        slot, slots = self._slot(), self._slots
        right = self.unit(pattern.right, [], None)
        self._slots = slots  # the documents of a step are elements of its slot
        steps = [
            Step(each.variable, compile_known(each.initial), compile_known(each.expr))
            for each in pattern.iterations
        ]
        item = Fold(
            *(
                slot,
                left,
                right,
                conjuncts_of(pattern.filter),
                conjuncts_of(pattern.proceed),
                steps,
            ),
            (*_slots_of(left), slot),
            _variables_of(left)
            | _variables_of(right)
            | frozenset([step.variable for step in steps]),
            unit.within,
        )
        unit.order.append(item)
        return item

    def _absence(self, pattern: ast.Negation, unit: Unit) -> Absence:
        inner: ast.Pattern = pattern.pattern
        count = 1
        if isinstance(pattern.pattern, ast.Group):
            inner, count = pattern.pattern.pattern, pattern.pattern.least
        slots = self._slots
        own = self.unit(inner, [], None)
        self._slots = slots
        bound = frozenset(_bound(inner))
        absence = Absence(own, bound, count, not is_document(inner), pattern)
        for each in [*own.conjuncts]:
            if not each.names <= bound:
                own.conjuncts.remove(each)
                absence.conjuncts.append(each)
        unit.absences.append(absence)
        self.waits = True
        return absence

    def _group(self, pattern: ast.Group, unit: Unit) -> Group:
        slot, slots = self._slot(), self._slots
        own = self.unit(pattern.pattern, [], None)
        self._slots = slots
        bound = frozenset(_bound(pattern.pattern))
        simple = is_document(pattern.pattern)
        group = Group(slot, own, pattern.least, pattern.most, bound, simple)
        self.group_variables[slot] = bound
        for each in [*own.conjuncts]:  # those of braces inside are asked of elements
            if asked_of_elements(each.expr, bound):
                own.conjuncts.remove(each)
                group.conjuncts.append(each)
        unit.groups.append(group)
        self.waits = True
        unit.order.append(group)
        return group


_NOTHING = Choice([])


def _bound(pattern: ast.Pattern) -> Iterator[str]:
    """The variables that a pattern binds."""
    match pattern:
        case ast.Block() | ast.Nested():
            yield from bound_in(pattern.steps)
        case ast.Join() | ast.Fold():
            yield from _bound(pattern.left)
            yield from _bound(pattern.right)
            if isinstance(pattern, ast.Fold):
                yield from (each.variable for each in pattern.iterations)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from _bound(branch)
        case ast.Negation() | ast.Group() | ast.Parenthesis():
            yield from _bound(pattern.pattern)


def _independent(tree: Tree) -> list[Tree]:
    """The absences of a tree that holds nothing else, each for itself; else the tree."""
    found = _only_absences(tree)
    return [tree] if found is None else [*found]


def _only_absences(tree: Tree) -> list[Absence] | None:
    if isinstance(tree, Absence):
        return [tree]
    if not isinstance(tree, Ordered | Together):
        return None
    found: list[Absence] = []
    for item in tree.items:
        inside = _only_absences(item)
        if inside is None:
            return None
        found += inside
    return found


def _slots_of(unit: Unit) -> tuple[int, ...]:
    return tuple([slot for item in unit.order for slot in slots_of(item)])


def _variables_of(unit: Unit) -> frozenset[str]:
    return frozenset().union(*[item.variables for item in unit.order])

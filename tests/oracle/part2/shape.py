"""A pattern taken apart: slots, units and the tree of what stands before what.

A *slot* is a place of a match: a positive block, a group, or the right operand of FOLD, numbered in the
order of the pattern. A *unit* is a pattern that is judged by itself: that of a query, parentheses with
WHERE or WITHIN, an operand of NEXT or FOLD, an element of a group, what a NOT forbids. Within a unit
the tree has leaves (a block, or a unit inside), lists, JOINs, groups, absences and choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.oracle import queries
from tests.oracle.part2.naming import named, of_elements, of_first, variables
from xscl import ast


@dataclass(eq=False)
class Leaf:
    """One document of a block."""

    slot: int
    block: ast.Block


@dataclass(eq=False)
class Next:
    """`left NEXT {p, T} right`: both operands are units."""

    left: Unit
    right: Unit
    conjuncts: list[ast.Expr]
    window: int | None
    after: bool


@dataclass(eq=False)
class Fold:
    """`left FOLD {...} right`; the documents of the right operand fill one slot."""

    slot: int
    left: Unit
    right: Unit
    filter: list[ast.Expr]
    proceed: list[ast.Expr]
    iterations: tuple[ast.Iteration, ...]


@dataclass(eq=False)
class Judged:
    """Parentheses with WHERE or WITHIN."""

    unit: Unit


@dataclass(eq=False)
class Group:
    slot: int
    unit: Unit
    least: int
    most: int | None
    variables: frozenset[str]
    conjuncts: list[ast.Expr] = field(default_factory=list)  # of an element, or of the first one


@dataclass(eq=False)
class Absence:
    """NOT. `count` of `NOT (P){k}`; its conjuncts name its variables."""

    unit: Unit
    variables: frozenset[str]
    count: int
    composite: bool
    conjuncts: list[ast.Expr] = field(default_factory=list)


@dataclass(eq=False)
class List:
    """Items, with the window of the operator before each: (microseconds or None, AFTER)."""

    items: list[Tree]
    windows: list[tuple[int | None, bool]]


@dataclass(eq=False)
class Both:
    """JOIN."""

    left: Tree
    right: Tree
    window: int | None


@dataclass(eq=False)
class Either:
    branches: list[Tree]


Tree = Leaf | Next | Fold | Judged | Group | Absence | List | Both | Either


@dataclass(eq=False)
class Unit:
    """A pattern with the predicates of its level and its WITHIN."""

    tree: Tree
    conjuncts: list[ast.Expr]
    within: int | None
    order: list[Tree] = field(default_factory=list)  # what is chosen, from left to right
    groups: list[Group] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)


# -- taking apart ----------------------------------------------------------------------------


class Shaper:
    """Takes one query apart; `streams` gives the stream of each nested query."""

    def __init__(self, streams: Mapping[int, str]) -> None:
        self.streams = streams
        self.slots = 0
        self.blocks: list[ast.Block] = []  # all of them, NOTs' and elements' included
        self.bound: dict[int, frozenset[str]] = {}  # by slot of a group its variables

    def unit(
        self,
        pattern: ast.Pattern,
        where: list[ast.Expr],
        within: ast.Duration | None,
    ) -> Unit:
        unit = Unit(_PLACE, [], microseconds(within))
        predicates = list(where)
        unit.tree = self.tree(pattern, unit, predicates)
        for part in queries.conjuncts(predicates):
            self.place(unit, part)
        return unit

    def place(self, unit: Unit, part: ast.Expr) -> None:
        """Where a conjunct of a level is asked: the first row of the table that fits."""
        names = named(part)
        for absence in unit.absences:
            if names & absence.variables:
                absence.conjuncts.append(part)
                return
        for group in unit.groups:
            if of_elements(part, group.variables) or of_first(part, group.variables):
                group.conjuncts.append(part)
                return
        unit.conjuncts.append(part)

    def tree(self, pattern: ast.Pattern, unit: Unit, predicates: list[ast.Expr]) -> Tree:
        match pattern:
            case ast.Block() | ast.Nested():
                leaf = Leaf(self._slot(), self._block(pattern))
                unit.order.append(leaf)
                return leaf
            case ast.Join(kind="FOLLOWED BY"):
                return self._list(pattern, unit, predicates)
            case ast.Join(kind="JOIN"):
                # Absences side by side are each for itself, on the left too.
                left, *others = _independent(self.tree(pattern.left, unit, predicates))
                for each in others:
                    left = Both(left, each, None)
                if pattern.predicate is not None:
                    predicates.append(pattern.predicate)
                right = self.tree(pattern.right, unit, predicates)
                window = microseconds(pattern.window)
                for each in [right] if (inside := _absences(right)) is None else inside:
                    left = Both(left, each, window)
                return left
            case ast.Join():
                return self._next(pattern, unit, predicates)
            case ast.Fold():
                return self._fold(pattern, unit, predicates)
            case ast.Alternatives():
                return Either([self.tree(each, unit, predicates) for each in pattern.branches])
            case ast.Parenthesis():
                if pattern.where is None and pattern.within is None:
                    return self.tree(pattern.pattern, unit, predicates)
                where = [] if pattern.where is None else [pattern.where]
                judged = Judged(self.unit(pattern.pattern, where, pattern.within))
                unit.order.append(judged)
                return judged
            case ast.Negation():
                return self._absence(pattern, unit)
            case ast.Group():
                return self._group(pattern, unit)

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _block(self, term: ast.Block | ast.Nested) -> ast.Block:
        block = term if isinstance(term, ast.Block) else None
        if block is None:
            assert isinstance(term, ast.Nested)
            block = ast.Block(self.streams[id(term)], term.steps, span=term.span)
        self.blocks.append(block)
        return block

    def _list(self, pattern: ast.Join, unit: Unit, predicates: list[ast.Expr]) -> List:
        chain: list[ast.Join] = []
        rest: ast.Pattern = pattern
        while isinstance(rest, ast.Join) and rest.kind == "FOLLOWED BY":
            chain.append(rest)
            rest = rest.left
        first = self.tree(rest, unit, predicates)
        items = _absences(first) or [first]
        windows: list[tuple[int | None, bool]] = [(None, False)] * len(items)
        for join in reversed(chain):
            if join.predicate is not None:
                predicates.append(join.predicate)
            right = self.tree(join.right, unit, predicates)
            # Absences side by side in parentheses are each for itself.
            inside = _absences(right) or [right]
            items += inside
            windows += [(microseconds(join.window), join.after)] * len(inside)
        return List(items, windows)

    def _left(self, pattern: ast.Pattern, outer: list[ast.Expr]) -> Unit:
        """A left operand, without those predicates of its braces that name what stands right."""
        unit, own = self.unit(pattern, [], None), set(variables(pattern))
        for part in [*unit.conjuncts]:
            if not named(part) <= own:
                unit.conjuncts.remove(part)
                outer.append(part)
        return unit

    def _next(self, pattern: ast.Join, unit: Unit, outer: list[ast.Expr]) -> Next:
        left = self._left(pattern.left, outer)
        right = self.unit(pattern.right, [], None)
        braces = [] if pattern.predicate is None else [pattern.predicate]
        chosen = Next(
            left,
            right,
            list(queries.conjuncts(braces)),
            microseconds(pattern.window),
            pattern.after,
        )
        unit.order.append(chosen)
        return chosen

    def _fold(self, pattern: ast.Fold, unit: Unit, outer: list[ast.Expr]) -> Fold:
        left = self._left(pattern.left, outer)
        slot = self._slot()
        slots = self.slots
        right = self.unit(pattern.right, [], None)
        self.slots = slots  # the documents of a step are elements of its slot
        fold = Fold(
            slot,
            left,
            right,
            list(queries.conjuncts([] if pattern.filter is None else [pattern.filter])),
            list(queries.conjuncts([] if pattern.proceed is None else [pattern.proceed])),
            pattern.iterations,
        )
        unit.order.append(fold)
        return fold

    def _absence(self, pattern: ast.Negation, unit: Unit) -> Absence:
        inner: ast.Pattern = pattern.pattern
        count = 1
        if isinstance(pattern.pattern, ast.Group):
            inner, count = pattern.pattern.pattern, pattern.pattern.least
        slots = self.slots
        own = self.unit(inner, [], None)
        self.slots = slots
        composite = not _is_document(inner)
        bound = frozenset(variables(inner))
        absence = Absence(own, bound, count, composite)
        for part in [*own.conjuncts]:
            if not named(part) <= bound:
                own.conjuncts.remove(part)
                absence.conjuncts.append(part)
        unit.absences.append(absence)
        return absence

    def _group(self, pattern: ast.Group, unit: Unit) -> Group:
        slot = self._slot()
        slots = self.slots
        own = self.unit(pattern.pattern, [], None)
        self.slots = slots
        bound = frozenset(variables(pattern.pattern))
        group = Group(slot, own, pattern.least, pattern.most, bound)
        self.bound[slot] = bound
        for part in [*own.conjuncts]:  # braces inside are asked of elements
            if of_elements(part, bound):
                own.conjuncts.remove(part)
                group.conjuncts.append(part)
        unit.groups.append(group)
        unit.order.append(group)
        return group


_PLACE = Either([])


def _is_document(pattern: ast.Pattern) -> bool:
    """Whether each match is one document: of a block, or of an OR of blocks."""
    if isinstance(pattern, ast.Parenthesis) and not (pattern.where or pattern.within):
        pattern = pattern.pattern
    if isinstance(pattern, ast.Alternatives):
        return all(map(_is_document, pattern.branches))
    return isinstance(pattern, ast.Block | ast.Nested)


def _independent(tree: Tree) -> list[Tree]:
    inside = _absences(tree) if isinstance(tree, List) else None
    return [tree] if inside is None else inside


def _absences(tree: Tree) -> list[Tree] | None:
    """The absences of a tree that holds nothing else, else None."""
    match tree:
        case Absence():
            return [tree]
        case List():
            inside = [_absences(item) for item in tree.items]
        case Both():
            inside = [_absences(tree.left), _absences(tree.right)]
        case _:
            return None
    if any(each is None for each in inside):
        return None
    return [absence for each in inside if each is not None for absence in each]


def microseconds(window: ast.Duration | None) -> int | None:
    assert window is None or window.name is None, "durations are resolved"
    return None if window is None else window.microseconds

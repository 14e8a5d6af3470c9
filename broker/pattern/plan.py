"""A query of Part 2 as a plan: units, what stands in them, and where each conjunct is asked.

A *unit* is a pattern that is judged by itself: that of the query, parentheses with WHERE or WITHIN,
an operand of NEXT or FOLD, an element of a group, what a NOT forbids. In a unit stand single items
(blocks and such units), groups and absences, in lists and JOINs; OR gives it several *variants*.
A *slot* is a place of the match: a block, a group, or the right operand of FOLD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from broker.pattern.values import (
    Condition,
    Scope,
    Value,
    compile_condition,
    compile_known,
    lasts,
    names,
    path_text,
    paths,
)
from xscl import ast
from xscl.check.scopes import bound_in, conjuncts
from xscl.functions.elements import ELEMENT_FUNCTIONS

RUNS = ("SKIP TILL NEXT MATCH", "STRICT CONTIGUITY", "PARTITION CONTIGUITY")
"""The selections that make runs."""

Window = int | None
"""Microseconds; None: no bound."""


@dataclass(slots=True)
class Conjunct:
    """A conjunct with the variables that it names; `lasts`: it asks how long the match is. `equal`
    are the two paths of an equality of nodes."""

    holds: Condition
    names: frozenset[str]
    lasts: bool
    equal: tuple[ast.Path, ast.Path] | None
    expr: ast.Expr

    @property
    def of_nodes(self) -> bool:
        """Whether it asks of nodes alone, not of several documents or of lengths."""
        return not self.lasts and all(how == "bare" for _, how in _uses(self.expr))


def conjunct(expr: ast.Expr) -> Conjunct:
    equal = None
    if isinstance(expr, ast.Comparison) and expr.op == "=":
        left, right = expr.left, expr.right
        if isinstance(left, ast.Path) and isinstance(right, ast.Path):
            equal = (left, right)
    return Conjunct(compile_condition(expr), names(expr), lasts(expr), equal, expr)


# -- what stands in a unit ---------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Leaf:
    """One document of a block; `tap` is the block's place among those of the plan. Its conjuncts
    name nothing else."""

    slot: int
    tap: int
    variables: frozenset[str]
    conjuncts: list[Conjunct] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Next:
    """`left NEXT {p, T} right`."""

    left: Unit
    right: Unit
    conjuncts: list[Conjunct]
    window: Window
    after: bool
    slots: tuple[int, ...] = ()
    variables: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class Step:
    """What an iteration of FOLD computes: its value at the beginning, and at each step."""

    variable: str
    initial: Callable[[Scope], Value]
    value: Callable[[Scope], Value]


@dataclass(slots=True, eq=False)
class Fold:
    """`left FOLD {filter, proceed, …} right`; the documents of the right operand fill `slot`."""

    slot: int
    left: Unit
    right: Unit
    filter: list[Conjunct]
    proceed: list[Conjunct]
    steps: list[Step]
    slots: tuple[int, ...] = ()
    variables: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class Judged:
    """Parentheses with WHERE or WITHIN."""

    unit: Unit
    slots: tuple[int, ...] = ()
    variables: frozenset[str] = frozenset()


Single = Leaf | Next | Fold | Judged


@dataclass(slots=True, eq=False)
class Group:
    """`(element){least,most}`; `simple`: an element is a document. Its conjuncts are asked of each
    element, those of `first` of the first one."""

    slot: int
    unit: Unit
    least: int
    most: int | None
    variables: frozenset[str]
    simple: bool
    conjuncts: list[Conjunct] = field(default_factory=list)
    first: list[Conjunct] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Absence:
    """NOT of a pattern; `count` of `NOT (P){k}`. Its conjuncts name its variables and others."""

    unit: Unit
    variables: frozenset[str]
    count: int
    composite: bool
    pattern: ast.Negation
    conjuncts: list[Conjunct] = field(default_factory=list)


Item = Single | Group | Absence


@dataclass(slots=True, eq=False)
class Ordered:
    """Items in order of time, each with the window before it and whether that is AFTER."""

    items: list[Tree]
    windows: list[tuple[Window, bool]]


@dataclass(slots=True, eq=False)
class Together:
    """Operands of JOIN, each with the window before it."""

    items: list[Tree]
    windows: list[Window]


@dataclass(slots=True, eq=False)
class Choice:
    """The branches of OR."""

    branches: list[Tree]


Tree = Item | Ordered | Together | Choice


@dataclass(slots=True, eq=False)
class Variant:
    """A unit with one branch of each OR. `before` are the pairs of places of singles of which one
    ends before the other starts."""

    tree: Tree
    singles: list[Single]
    groups: list[Group]
    absences: list[Absence]
    absent: tuple[int, ...]
    before: frozenset[tuple[int, int]]

    @property
    def alone(self) -> bool:
        """Whether a group is all of it."""
        return len(self.groups) == 1 and not self.singles and not self.absences


@dataclass(slots=True, eq=False)
class Unit:
    """`order` are its singles and groups as the query has them; `conjuncts` are asked of the match.
    `extent` is how long a match may last, and `kept` how long before the end of a match any of its
    documents, or of those that a NOT looks for, may end; microseconds, None for no bound."""

    tree: Tree
    within: Window
    conjuncts: list[Conjunct] = field(default_factory=list)
    order: list[Single | Group] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    variants: list[Variant] = field(default_factory=list)
    extent: Window = None
    kept: Window = None

    @property
    def depends(self) -> bool:
        """Whether what it matches depends on where its documents may begin."""
        return bool(self.groups or self.absences)


@dataclass(slots=True)
class Tap:
    """A block, and what the pattern reads of its documents: paths from its variables, and those of
    PARTITION BY from its selected node, as they are written. `plain`: its path without filters."""

    block: ast.Block
    paths: dict[str, ast.Path]
    partition: tuple[ast.Path, ...]
    plain: bool = False


@dataclass(slots=True)
class Plan:
    """A query, compiled. `contiguous` are the taps by which PARTITION CONTIGUITY knows what is in a
    partition; `group_variables` are those of each group by slot. `kept` is how long a document is
    needed after its end, in microseconds of the watermark, None for ever."""

    query: ast.Query
    unit: Unit
    taps: list[Tap]
    contiguous: list[int]
    group_variables: Mapping[int, frozenset[str]]
    kept: Window
    keys: list[Callable[[Scope], Value]]
    having: Conjunct | None

    @property
    def streams(self) -> frozenset[str]:
        return frozenset([tap.block.stream for tap in self.taps])


# -- taking a query apart ----------------------------------------------------------------------


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
    paths = _paths_of(query)
    for tap in maker.taps:
        own = set(bound_in(tap.block.steps))
        if not tap.plain:
            tap.paths = {path_text(p): p for p in paths if p.variable in own}
        tap.partition = query.partition
    _ask_early(unit, runs=selection in RUNS)
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
                _place(unit, part)
        return _finished(unit)

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
            *(left, right, _conjuncts(pattern.predicate)),
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
            *(slot, left, right, _conjuncts(pattern.filter), _conjuncts(pattern.proceed), steps),
            (*_slots_of(left), slot),
            _variables_of(left)
            | _variables_of(right)
            | frozenset([step.variable for step in steps]),
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
        absence = Absence(own, bound, count, not _is_document(inner), pattern)
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
        simple = _is_document(pattern.pattern)
        group = Group(slot, own, pattern.least, pattern.most, bound, simple)
        self.group_variables[slot] = bound
        for each in [*own.conjuncts]:  # those of braces inside are asked of elements
            if _of_elements(each.expr, bound):
                own.conjuncts.remove(each)
                group.conjuncts.append(each)
        unit.groups.append(group)
        self.waits = True
        unit.order.append(group)
        return group


_NOTHING = Choice([])


def _conjuncts(predicate: ast.Expr | None) -> list[Conjunct]:
    return [] if predicate is None else [conjunct(part) for part in conjuncts(predicate)]


def _place(unit: Unit, part: ast.Expr) -> None:
    """Where a conjunct of a level is asked: the first row that fits of the table in Part 2."""
    made = conjunct(part)
    for absence in unit.absences:
        if made.names & absence.variables:
            absence.conjuncts.append(made)
            return
    for group in unit.groups:
        if _of_elements(part, group.variables):
            group.conjuncts.append(made)
            return
        if _hows(part, group.variables) == {"first"}:
            group.first.append(made)
            return
    unit.conjuncts.append(made)


def _uses(expr: ast.Expr) -> Iterator[tuple[str, str]]:
    """The variables that an expression names, each with the function around it, or "bare"."""
    match expr:
        case ast.Path(variable=str(name)):
            yield name, "bare"
        case ast.Call(name=name, args=(ast.Path(variable=str(variable)), *others)) if (
            name in ELEMENT_FUNCTIONS
        ):
            yield variable, name
            for other in others:
                yield from _uses(other)
        case ast.Call(args=parts) | ast.And(parts=parts) | ast.Or(parts=parts):
            for part in parts:
                yield from _uses(part)
        case ast.Not(part=part):
            yield from _uses(part)
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            yield from _uses(left)
            yield from _uses(right)


def _hows(expr: ast.Expr, variables: frozenset[str]) -> set[str]:
    return {how for name, how in _uses(expr) if name in variables}


def _of_elements(expr: ast.Expr, variables: frozenset[str]) -> bool:
    return not _hows(expr, variables).isdisjoint(("bare", "prev"))


def _is_document(pattern: ast.Pattern) -> bool:
    """Whether each match is one document: of a block, or of an OR of blocks."""
    if isinstance(pattern, ast.Parenthesis) and not (pattern.where or pattern.within):
        pattern = pattern.pattern
    if isinstance(pattern, ast.Alternatives):
        return all(map(_is_document, pattern.branches))
    return isinstance(pattern, ast.Block | ast.Nested)


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


def slots_of(item: Single | Group) -> tuple[int, ...]:
    """The slots of an item, which are empty where it is absent."""
    return (item.slot,) if isinstance(item, Leaf | Group) else item.slots


def _variables_of(unit: Unit) -> frozenset[str]:
    return frozenset().union(*[item.variables for item in unit.order])


# -- what one document decides -----------------------------------------------------------------


def _ask_early(unit: Unit, *, runs: bool = False) -> None:
    """Have what one document decides asked when it comes. `runs`: the unit is one of runs, which
    ask for themselves."""
    if not runs:
        unit.conjuncts = _left_to(unit, unit.conjuncts)
    for item in unit.order:
        match item:
            case Judged():
                _ask_early(item.unit)
            case Next():
                _ask_early(item.left)
                _ask_early(item.right)
                item.conjuncts = _left_to(item.right, _left_to(item.left, item.conjuncts))
            case Fold():
                _ask_early(item.left)
                _ask_early(item.right)
                item.filter = _left_to(item.right, _left_to(item.left, item.filter))
            case Group() if not runs:
                _ask_early(item.unit)
                item.conjuncts = _left_to(item.unit, item.conjuncts)
    for absence in unit.absences:
        _ask_early(absence.unit)
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


# -- variants ----------------------------------------------------------------------------------


def _finished(unit: Unit) -> Unit:
    unit.variants = [_variant(unit, tree) for tree in _branches(unit.tree)]
    unit.extent = _least(_widest([_extent(each.tree) for each in unit.variants]), unit.within)
    unit.kept = _least(_widest([_kept(each.tree) for each in unit.variants]), unit.within)
    return unit


def _widest(bounds: Sequence[Window]) -> Window:
    return None if None in bounds else max([bound for bound in bounds if bound is not None])


def _branches(tree: Tree) -> Iterator[Tree]:
    """The tree with one branch of each OR, in every way."""
    match tree:
        case Choice():
            for branch in tree.branches:
                yield from _branches(branch)
        case Ordered():
            for items in product(*(list(_branches(item)) for item in tree.items)):
                yield Ordered([*items], tree.windows)
        case Together():
            for items in product(*(list(_branches(item)) for item in tree.items)):
                yield Together([*items], tree.windows)
        case _:
            yield tree


def leaves(tree: Tree) -> list[Item]:
    """The items of a tree with one branch of each OR."""
    match tree:
        case Ordered() | Together():
            return [leaf for item in tree.items for leaf in leaves(item)]
        case Choice():
            raise TypeError("a variant has no OR")
    return [tree]


def _variant(unit: Unit, tree: Tree) -> Variant:
    here = leaves(tree)
    own = [item for item in unit.order if any(item is each for each in here)]
    singles = [item for item in own if not isinstance(item, Group)]
    absent = [s for item in unit.order if item not in own for s in slots_of(item)]
    places = {id(item): place for place, item in enumerate(singles)}
    before = {
        (places[id(a)], places[id(b)])
        for a, b in _in_order(tree)
        if id(a) in places and id(b) in places
    }
    return Variant(
        tree,
        singles,
        [item for item in own if isinstance(item, Group)],
        [each for each in unit.absences if any(each is one for one in here)],
        tuple(absent),
        frozenset(before),
    )


def _in_order(tree: Tree) -> Iterator[tuple[Item, Item]]:
    if not isinstance(tree, Ordered | Together):
        return
    for number, item in enumerate(tree.items):
        yield from _in_order(item)
        if isinstance(tree, Ordered):
            for other in tree.items[number + 1 :]:
                yield from product(leaves(item), leaves(other))


# -- how long a match may last -----------------------------------------------------------------


def _extent(tree: Tree) -> Window:
    """How long what a tree matches may last, its documents and those of absences."""
    match tree:
        case Judged():
            return tree.unit.extent
        case Next():
            return None if tree.after else tree.window
        case Ordered():
            extent = _extent(tree.items[0])
            for window, after in tree.windows[1:]:
                extent = None if after else window
            return extent
        case Together():
            extent = _extent(tree.items[0])
            for window in tree.windows[1:]:
                extent = window
            return extent
    return None  # also of a document, which may be a result that lasts


def _kept(tree: Tree) -> Window:
    """How long before the end of what a tree matches any of its documents may end."""
    match tree:
        case Leaf():
            return 0
        case Judged() | Absence():
            return tree.unit.kept
        case Next():
            return _sum(tree.left.kept, tree.window) if tree.after else tree.window
        case Ordered():
            kept = _kept(tree.items[0])
            for window, after in tree.windows[1:]:
                kept = _sum(kept, window) if after else window
            return kept
        case Together():
            kept = _kept(tree.items[0])
            for window in tree.windows[1:]:
                kept = window
            return kept
    return None


def _sum(*parts: Window) -> Window:
    return None if None in parts else sum([part for part in parts if part is not None])


def _least(*bounds: Window) -> Window:
    return min([bound for bound in bounds if bound is not None], default=None)


# -- paths -------------------------------------------------------------------------------------


def _paths_of(query: ast.Query) -> list[ast.Path]:
    """The paths from variables that are read of documents: by all but SELECT, and what SELECT asks
    of its functions is made of documents too."""
    found: list[ast.Path] = []

    def visit(part: object) -> None:
        match part:
            case ast.Path(variable=str()):
                found.append(part)
            case ast.Nested():
                pass
            case ast.Block():
                pass
            case tuple() | list():
                for each in part:
                    visit(each)
            case ast.Element(attributes=attributes, content=content):
                for _, parts in attributes:
                    visit(parts)
                visit(content)
            case _ if hasattr(part, "__dataclass_fields__"):
                for name in part.__dataclass_fields__:
                    if "span" not in name:
                        visit(getattr(part, name))

    visit(query)
    return found


def streams_of(query: ast.Query) -> Sequence[ast.Nested]:
    """The queries in FROM of a pattern."""
    found: list[ast.Nested] = []
    stack: list[ast.Pattern] = [query.pattern]
    while stack:
        part = stack.pop()
        match part:
            case ast.Nested():
                found.append(part)
            case ast.Join() | ast.Fold():
                stack += [part.right, part.left]
            case ast.Alternatives():
                stack += reversed(part.branches)
            case ast.Negation() | ast.Group() | ast.Parenthesis():
                stack.append(part.pattern)
    return found


def named_in(select: tuple[ast.SelectItem, ...] | ast.Element | None) -> list[str] | None:
    """The variables that SELECT names, in order, each once; None for `*`."""
    if select is None:
        return None
    found: dict[str, None] = {}

    def visit(part: str | ast.Expr | ast.Element) -> None:
        if isinstance(part, ast.Element):
            for each in [*(p for _, parts in part.attributes for p in parts), *part.content]:
                visit(each)
        elif not isinstance(part, str):
            found.update(dict.fromkeys(path.variable or "" for path in paths(part)))

    for item in [select] if isinstance(select, ast.Element) else [i.expr for i in select]:
        visit(item)
    return [*found]

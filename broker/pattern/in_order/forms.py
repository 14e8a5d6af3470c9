"""Which patterns are matched in the order of time, and what their plans become.

They are, without a selection: chains of NEXT whose operands are blocks; one
block FOLD another; two in a list with a NOT of a block or a group between them; one with
such a NOT at its end. Lists of blocks are those of `list_forms.py`, and with a selection that makes
runs those of `run_forms.py`. What looks at several matches (NON OVERLAPPING, ONE PER START, OVER)
comes behind, see `broker/pattern/keeping.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, nan

from broker.pattern.in_order.asking import Asked, Number, negated, number, relational, split
from broker.pattern.in_order.chain_forms import Following, following_of
from broker.pattern.in_order.group_forms import Grouping, grouping_of
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.list_forms import Listed, listed_of
from broker.pattern.in_order.run_forms import Running, running_of
from broker.pattern.instances import Instance, Row, of_row
from broker.pattern.plan import (
    Absence,
    Conjunct,
    Fold,
    Item,
    Leaf,
    Next,
    Ordered,
    Plan,
    Step,
    Unit,
    Window,
    only_block,
)
from broker.pattern.timing import Timing
from broker.pattern.values import NotAsked, Scope, compile_value
from xscl import ast
from xscl.functions.elements import ELEMENT_FUNCTIONS
from xscl.functions.table import to_number


@dataclass(frozen=True, slots=True)
class Going:
    """An inequality of an iteration: the number of the new document must be beyond that of what was
    taken before, or `inclusive` at it. `state` gives that of a scope; None: it is not asked."""

    comes: Number
    inclusive: bool
    state: Callable[[Scope], float | None]


@dataclass(frozen=True, slots=True)
class Common:
    """What all iterations of one key go on with, whenever they began: the number of what comes is
    compared with that of the document before it, which is `before` of one that was taken (None:
    what it was itself compared by), and `begins` of the one that it began with. Without `comes`
    nothing is asked: all numbers are 0, and each goes on from the one before. WHERE asks for
    `counts` documents, at least and at most; None: for something else."""

    comes: Number | None
    inclusive: bool
    before: Number | None
    begins: Number | None
    counts: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Iterated:
    """`left FOLD {filter, proceed, steps} right`, whose documents fill `slot`. `asked` is its
    filter and `going` what of `proceed` compares two numbers; `proceed` is the rest. Iterations
    share what they take where that is `common` to them."""

    slot: int
    left: Leaf
    right: Leaf
    asked: Asked
    going: Sequence[Going]
    proceed: Sequence[Conjunct]
    steps: Sequence[Step]
    within: Window
    where: Sequence[Conjunct]
    common: Common | None
    partitioned: bool

    @property
    def name(self) -> str:
        return "FOLD"

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return (self.left, self.right)

    def last(self, row: Row) -> int:
        """The latest end of what an iteration that begins with a document may take."""
        return FOR_EVER if self.within is None else row.start + self.within


@dataclass(frozen=True, slots=True)
class Lacking:
    """`left FOLLOWED BY NOT absent FOLLOWED BY right`; without `right` the NOT stands at the end.
    `asked` are the conjuncts about the first and what must not come, `paired` those about the two
    that must."""

    unit: Unit
    left: Leaf
    absence: Absence
    absent: Leaf
    right: Leaf | None
    asked: Asked
    paired: Asked
    windows: Sequence[tuple[Window, bool]]
    within: Window
    where: Sequence[Conjunct]
    partitioned: bool

    @property
    def name(self) -> str:
        return "NOT"

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        found = (self.left, self.absent)
        return found if self.right is None else (*found, self.right)

    def timing(self, row: Row) -> Timing:
        """The times of a match of the first block, where the NOT stands at the end."""
        chosen: dict[Item, Instance] = {self.left: of_row(self.left.slot, row)}
        return Timing(self.unit.variants[0], self.within, chosen, {})


Paired = Following | Iterated | Lacking
"""Forms of what waits and what comes."""

Form = Paired | Running | Grouping | Listed


def form_of(plan: Plan) -> Form | None:
    """The form of a plan; None for a pattern that is matched in the general way."""
    query, unit = plan.query, plan.unit
    selection = None
    if query.strategy is not None:
        selection = query.strategy.selection
        if selection in ast.RUNS:
            return running_of(plan, selection)
    if len(unit.variants) != 1:
        return None
    tree = unit.variants[0].tree
    if isinstance(tree, Ordered) and not unit.absences and not unit.groups:
        return listed_of(plan, tree)
    if selection is not None:
        return None
    partitioned = bool(query.partition)
    if unit.groups:
        return grouping_of(unit, tree, partitioned) if isinstance(tree, Ordered) else None
    match tree:
        case Next() as item:
            return following_of(unit, item, partitioned)
        case Fold() as item:
            return _iterated(unit, item, partitioned)
        case Ordered():
            return _lacking(unit, tree, partitioned)
    return None


def _iterated(unit: Unit, item: Fold, partitioned: bool) -> Iterated | None:
    left, right = only_block(item.left), only_block(item.right)
    if left is None or right is None:
        return None
    asked = split(item.filter, left.variables, right.variables)
    going, proceed = [], []
    for each in item.proceed:
        found = _going(each, item, left, right)
        if found is None:
            proceed.append(each)
        else:
            going.append(found)
    common = None
    if not asked.bounds and not asked.rest and not item.steps:
        common = _common(item, left, right, unit.conjuncts)
    return Iterated(
        *(item.slot, left, right, asked, going, proceed, item.steps, unit.within, unit.conjuncts),
        *(common, partitioned),
    )


def _common(item: Fold, left: Leaf, right: Leaf, where: Sequence[Conjunct]) -> Common | None:
    counts = _counts(where, right)
    if not item.proceed:
        return Common(None, True, None, None, counts)
    if len(item.proceed) > 1:
        return None
    for op, new, before in relational(item.proceed[0].expr):
        comes = number(new, right.variables)
        if comes is None or not isinstance(before, ast.Call) or len(before.args) != 2:
            continue
        if before.name not in ("prev", "last") or not _is_state(before, item, left, right):
            continue
        taken = number(before.args[0], right.variables)
        begun = number(before.args[1], left.variables)
        if taken is None or begun is None:
            continue
        numbers = (comes, taken, begun)
        if op in ("<", "<="):
            numbers = (negated(comes), negated(taken), negated(begun))
        same = new == before.args[0]
        before_it = None if same else numbers[1]
        return Common(numbers[0], op in ("<=", ">="), before_it, numbers[2], counts)
    return None


def _counts(where: Sequence[Conjunct], right: Leaf) -> tuple[float, float] | None:
    """How many documents are asked for, at least and at most, where WHERE asks nothing else."""
    least, most = 1.0, inf
    for each in where:
        expr = each.expr
        if not isinstance(expr, ast.Comparison) or not isinstance(expr.right, ast.Number):
            return None
        call, bound = expr.left, expr.right.value
        if not isinstance(call, ast.Call) or call.name != "count":
            return None
        path = call.args[0]
        if not isinstance(path, ast.Path) or path.steps or path.variable not in right.variables:
            return None
        match expr.op:
            case "=":
                least, most = max(least, bound), min(most, bound)
            case ">=" | ">":
                least = max(least, ceil(bound) if expr.op == ">=" else floor(bound) + 1)
            case "<=" | "<":
                most = min(most, floor(bound) if expr.op == "<=" else ceil(bound) - 1)
            case _:
                return None
    return (least, most)


def _going(each: Conjunct, item: Fold, left: Leaf, right: Leaf) -> Going | None:
    for op, new, before in relational(each.expr):
        comes = number(new, right.variables)
        if comes is None or not _is_state(before, item, left, right):
            continue
        sign = 1.0 if op in (">", ">=") else -1.0
        if sign < 0:
            comes = negated(comes)
        return Going(comes, op in (">=", "<="), _state(before, sign))
    return None


def _is_state(expr: ast.Expr, item: Fold, left: Leaf, right: Leaf) -> bool:
    """Whether an expression has one number that the next document does not change."""
    match expr:
        case ast.Path(variable=name, steps=()):
            return name in left.variables or any(name == s.variable for s in item.steps)
        case ast.Call(name=function, args=args) if function in ELEMENT_FUNCTIONS:
            first, *others = args
            own = isinstance(first, ast.Path) and first.variable in right.variables
            bare = all(isinstance(arg, ast.Path) and not arg.steps for arg in args)
            known = all(isinstance(o, ast.Path) and o.variable in left.variables for o in others)
            return own and bare and known
        case ast.Arithmetic(left=one, right=other):
            return all(
                isinstance(side, ast.Number)
                or (_is_state(side, item, left, right) and not _is_computed(side, item))
                for side in (one, other)
            )
    return False


def _is_computed(expr: ast.Expr, item: Fold) -> bool:
    return isinstance(expr, ast.Path) and any(expr.variable == s.variable for s in item.steps)


def _state(expr: ast.Expr, sign: float) -> Callable[[Scope], float | None]:
    value = compile_value(expr)

    def state(scope: Scope) -> float | None:
        try:
            found = value(scope)
        except NotAsked:
            return None
        several = found if isinstance(found, list | tuple) else (found,)
        numbers = [sign * to_number(each) for each in several]
        # Of several the least: what is beyond some of them is beyond that one.
        return min([each for each in numbers if each == each], default=nan)

    return state


def _lacking(unit: Unit, tree: Ordered, partitioned: bool) -> Lacking | None:
    items = tree.items
    if not 2 <= len(items) <= 3 or tree.windows[0][0] is not None:
        return None
    left, absence = items[0], items[1]
    right = items[2] if len(items) == 3 else None
    if not isinstance(left, Leaf) or not isinstance(absence, Absence) or absence.count != 1:
        return None
    absent = only_block(absence.unit)
    if absent is None or absence.composite:
        return None
    if right is not None and (not isinstance(right, Leaf) or _is_after(tree.windows[2])):
        return None
    assert right is None or isinstance(right, Leaf)
    if any(not each.names <= left.variables | absent.variables for each in absence.conjuncts):
        return None
    if any(each.lasts for each in absence.conjuncts):
        return None
    asked = split(absence.conjuncts, left.variables, absent.variables)
    if asked.rest:
        # It may be dear, as it chooses among nodes; in the general way only what is a match but for
        # this NOT is asked.
        return None
    comes = frozenset[str]() if right is None else right.variables
    paired = split(unit.conjuncts, left.variables, comes)
    return Lacking(
        *(unit, left, absence, absent, right, asked, paired),
        *(tree.windows, unit.within, unit.conjuncts, partitioned),
    )


def _is_after(window: tuple[Window, bool]) -> bool:
    return window[0] is not None and window[1]

"""A query of Part 2 as a plan: units, what stands in them, and where each conjunct is asked.

A *unit* is a pattern that is judged by itself: that of the query, parentheses with WHERE or WITHIN,
an operand of NEXT or FOLD, an element of a group, what a NOT forbids. In a unit stand single items
(blocks and such units), groups and absences, in lists and JOINs; OR gives it several *variants*.
A *slot* is a place of the match: a block, a group, or the right operand of FOLD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from broker.pattern.conditions import Condition, compile_condition
from broker.pattern.values import Scope, Value, lasts, names
from xscl import ast
from xscl.check.sites import uses

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
        return not self.lasts and all(use.how == "bare" for use in uses(self.expr))


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
    """`left FOLD {filter, proceed, …} right`; the documents of the right operand fill `slot`.
    `within` is the least window in which all of it has to be: what is longer is in no match."""

    slot: int
    left: Unit
    right: Unit
    filter: list[Conjunct]
    proceed: list[Conjunct]
    steps: list[Step]
    slots: tuple[int, ...] = ()
    variables: frozenset[str] = frozenset()
    within: Window = None


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


def leaves(tree: Tree) -> list[Item]:
    """The items of a tree with one branch of each OR."""
    match tree:
        case Ordered() | Together():
            return [leaf for item in tree.items for leaf in leaves(item)]
        case Choice():
            raise TypeError("a variant has no OR")
    return [tree]


def slots_of(item: Single | Group) -> tuple[int, ...]:
    """The slots of an item, which are empty where it is absent."""
    return (item.slot,) if isinstance(item, Leaf | Group) else item.slots


def only_block(unit: Unit) -> Leaf | None:
    """The block that a unit is, and asks nothing more of."""
    if len(unit.variants) != 1 or unit.conjuncts or unit.within is not None or unit.absences:
        return None
    tree = unit.variants[0].tree
    return tree if isinstance(tree, Leaf) else None

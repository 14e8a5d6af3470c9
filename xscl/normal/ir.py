"""The intermediate form of tree patterns, predicates and SELECT, after names are resolved.

It has no spans and no prefixes, and variables only at the beginning of paths. A literal of the
query is a `Parameter`, so that queries that differ in literals only have one tree. `bind` puts
constants in the place of parameters; it is applied to expressions that stage 1 evaluates and to
those from which results are constructed.

A predicate over several nodes refers to them by `NodeValue` and `SomeNode`. Their numbers depend on
the pass: those of operands after `normalize`, of nodes of the join graph after `join_graph`, of
positions after `template`. New properties of nodes (the previous one, a sum over a group) become
classes beside these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal as Choice

from xscl import ast
from xscl.functions.table import FUNCTIONS
from xscl.kinds import DESCENTS


class _Symbol(Enum):
    __hash__ = object.__hash__  # faster; members are singletons, and keys while matching documents


class Comparator(_Symbol):
    """A comparison operator; the value of a member is its symbol in the language."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="

    @property
    def relational(self) -> bool:
        """Whether the comparison converts both sides to numbers."""
        return self not in (Comparator.EQUAL, Comparator.UNEQUAL)


class Calculation(_Symbol):
    """An arithmetic operator; the value of a member is its symbol in the language."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED = "div"
    MODULO = "mod"


# -- paths -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Test:
    """The node test of a step; `name` and `namespace` are None if any matches."""

    kind: Choice["element", "attribute", "text", "self"]
    name: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One location step: "/" is a child, an attribute or the node itself, "//" one anywhere
    below."""

    axis: Choice["/", "//"]
    test: Test
    filters: tuple[Expr, ...] = ()


# -- leaves ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class String:
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A number. -0 and 0 are not equal, since division by them gives different results."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A literal, by its index among those of the query; `numeric`, else a string."""

    index: int
    numeric: bool


@dataclass(frozen=True, slots=True)
class Path:
    """The nodes that steps lead to from the context node; without steps, the context node."""

    steps: tuple[Step, ...] = ()


HERE = Path()
"""The context node."""

Written = tuple[str | Parameter, ...]
"""Text, with parameters for the literals in it."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """A filter that plain steps downwards cannot evaluate: its `form` is a syntax tree with
    namespace names for prefixes, which has an empty string or a zero for each of the `literals`."""

    form: ast.Expr
    literals: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class VariablePath:
    """The nodes that steps lead to from a variable; `written` is the path as in the query."""

    variable: str
    steps: tuple[Step, ...] = ()
    written: Written = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NodeValue:
    """The value of a node. `numeric`: it is computed and a number, so it is compared as one."""

    node: int
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class SomeNode:
    """The value of a node at the end of a path under NOT or OR, existentially quantified."""

    path: int
    numeric: bool = False


# -- operators -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    calculation: Calculation
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Comparison:
    comparator: Comparator
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Expr


Leaf = String | Number | Parameter | Path | Beyond | VariablePath | NodeValue | SomeNode
Expr = Leaf | Call | Arithmetic | Comparison | And | Or | Not


# -- SELECT ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    expr: Expr
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """An XML element of a constructor; its names have prefixes as written."""

    name: str
    attributes: tuple[tuple[str, tuple[str | Expr, ...]], ...]
    content: tuple[str | Expr | Element, ...]


Select = tuple[Item, ...] | Element | None
"""None is `*`."""


# -- walking ---------------------------------------------------------------------------------


def leaves(expr: Expr) -> Iterator[Leaf]:
    """The leaves of an expression in order, not those inside filters of their steps."""
    match expr:
        case Call(args=parts) | And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from leaves(part)
        case Arithmetic(left=left, right=right) | Comparison(left=left, right=right):
            yield from leaves(left)
            yield from leaves(right)
        case Not(part=part):
            yield from leaves(part)
        case _:
            yield expr


def map_leaves(expr: Expr, change: Callable[[Leaf], Expr]) -> Expr:
    """The expression with every leaf replaced."""
    match expr:
        case Call():
            return Call(expr.name, tuple([map_leaves(a, change) for a in expr.args]))
        case Comparison():
            left, right = map_leaves(expr.left, change), map_leaves(expr.right, change)
            return Comparison(expr.comparator, left, right)
        case Arithmetic():
            left, right = map_leaves(expr.left, change), map_leaves(expr.right, change)
            return Arithmetic(expr.calculation, left, right)
        case And():
            return And(tuple([map_leaves(p, change) for p in expr.parts]))
        case Or():
            return Or(tuple([map_leaves(p, change) for p in expr.parts]))
        case Not():
            return Not(map_leaves(expr.part, change))
        case _:
            return change(expr)


def variable_paths(expr: Expr) -> list[VariablePath]:
    """The paths from variables in an expression, in order."""
    return [leaf for leaf in leaves(expr) if isinstance(leaf, VariablePath)]


def looks_around(expr: Expr) -> bool:
    """Whether an expression is evaluated on the numbered document, because plain steps downwards
    cannot evaluate it, or would do so again for each path that leads to a node."""
    return not _is_plain(expr) and _descents(expr) > DESCENTS


def _is_plain(expr: Expr) -> bool:
    """A quick yes for the filters of nearly all: paths without filters, constants, and one
    comparison or function of such."""
    if isinstance(expr, Comparison):
        return _is_operand(expr.left) and _is_operand(expr.right)
    if isinstance(expr, Call):
        return all(map(_is_operand, expr.args))
    return _is_operand(expr)


def _is_operand(expr: Expr) -> bool:
    if isinstance(expr, Path):
        return not any(step.filters for step in expr.steps)
    return isinstance(expr, String | Number)


def _descents(expr: Expr) -> float:
    """The number of `//` nested in filters of each other, infinite beyond plain steps downwards."""
    most: float = 0
    for leaf in leaves(expr):
        if isinstance(leaf, Beyond):
            return math.inf
        if isinstance(leaf, Path | VariablePath):
            for step in leaf.steps:
                inner = max(map(_descents, step.filters), default=0)
                most = max(most, (step.axis == "//") + inner)
    return most


def conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, And):
        return [part for whole in expr.parts for part in conjuncts(whole)]
    return [expr]


def is_number(expr: Expr) -> bool:
    """Whether an expression's value is a number by its form, so that a comparison is numeric."""
    match expr:
        case Number() | Arithmetic():
            return True
        case Parameter() | NodeValue() | SomeNode():
            return expr.numeric
        case Call():
            return FUNCTIONS[expr.name].result == "number"
        case _:
            return False


def is_several(expr: Expr) -> bool:
    """Whether an expression is a call of a function that gives several strings."""
    return isinstance(expr, Call) and FUNCTIONS[expr.name].several


def is_condition(expr: Expr) -> bool:
    """Whether an expression is a call of a boolean function."""
    return isinstance(expr, Call) and FUNCTIONS[expr.name].result == "boolean"

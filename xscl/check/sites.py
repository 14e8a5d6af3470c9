"""What the variables of a pattern are, and where its predicates stand.

In: a query of Part 2. A variable is one of a single document, of the elements of a group or an
iteration, or of a NOT; `Home` says where it is bound. A predicate stands at a `Site`: in braces, in
WHERE, in SELECT; a `Use` is a variable as it is read there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeGuard

from xscl import ast
from xscl.functions.elements import ELEMENT_FUNCTIONS
from xscl.kinds import parts

How = Literal["bare", "prev", "first", "whole"]
"""How a predicate reads a variable: as it is, by prev(), by first(), or by what ranges over all."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where a variable is bound: `around` are the patterns around it, the outermost first. `fold`
    is the FOLD whose right operand binds it; `computed`: it is one of the values of that FOLD."""

    around: tuple[ast.Pattern, ...]
    negation: ast.Negation | None = None
    group: ast.Group | None = None
    fold: ast.Fold | None = None
    computed: bool = False

    @property
    def repeated(self) -> ast.Group | ast.Fold | None:
        """The group or the FOLD whose elements it belongs to."""
        return self.group or (None if self.computed else self.fold)


@dataclass(frozen=True, slots=True)
class Site:
    """A predicate and the patterns around its place. `owner` is the operator for which it chooses
    documents, in the braces of NEXT and of FOLD; `begins`: it stands behind FROM there; `result`:
    it stands in SELECT, GROUP BY or HAVING."""

    expr: ast.Expr
    around: tuple[ast.Pattern, ...]
    owner: ast.Join | ast.Fold | None = None
    begins: bool = False
    result: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """A variable as a predicate reads it."""

    variable: str
    how: How
    path: ast.Path
    call: ast.Call | None


def homes(pattern: ast.Pattern, around: tuple[ast.Pattern, ...] = ()) -> Iterator[tuple[str, Home]]:
    """The variables of a pattern; one that several branches of OR bind occurs for each."""
    inside = (*around, pattern)
    match pattern:
        case ast.Block() | ast.Nested():
            for name in bound_in(pattern.steps):
                yield name, _home(inside)
        case ast.Join():
            yield from homes(pattern.left, inside)
            yield from homes(pattern.right, inside)
        case ast.Fold():
            yield from homes(pattern.left, inside)
            yield from homes(pattern.right, inside)
            for each in pattern.iterations:
                yield each.variable, Home(inside, fold=pattern, computed=True)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from homes(branch, inside)
        case ast.Negation() | ast.Group() | ast.Parenthesis():
            yield from homes(pattern.pattern, inside)


def _home(around: tuple[ast.Pattern, ...]) -> Home:
    negation: ast.Negation | None = None
    group: ast.Group | None = None
    fold: ast.Fold | None = None
    for outer, inner in pairwise(around):
        if isinstance(outer, ast.Negation):
            negation = outer
        elif isinstance(outer, ast.Group):
            group = outer
        elif isinstance(outer, ast.Fold) and inner is outer.right:
            fold = outer
    return Home(around, negation, group, fold)


def bound_in(steps: tuple[ast.Step, ...]) -> Iterator[str]:
    """The variables that steps and their filters bind."""
    for step in steps:
        if step.variable is not None:
            yield step.variable
        for part in step.filters:
            if isinstance(part, ast.Path):
                yield from bound_in(part.steps)
            elif isinstance(part, ast.And):
                for each in part.parts:
                    if isinstance(each, ast.Path):
                        yield from bound_in(each.steps)


def sites(query: ast.Query) -> Iterator[Site]:
    yield from _sites(query.pattern, ())
    if query.where is not None:
        yield Site(query.where, ())
    selected = query.select if query.select is not None else ()
    for expr in _selected(selected):
        yield Site(expr, (), result=True)
    if query.over is not None:
        for key in query.over.keys:
            yield Site(key, (), result=True)
        if query.over.having is not None:
            yield Site(query.over.having, (), result=True)


def _selected(select: tuple[ast.SelectItem, ...] | ast.Element) -> Iterator[ast.Expr]:
    if not isinstance(select, ast.Element):
        yield from (item.expr for item in select)
        return
    for part in [*(p for _, value in select.attributes for p in value), *select.content]:
        if isinstance(part, ast.Element):
            yield from _selected(part)
        elif not isinstance(part, str):
            yield part


def _sites(pattern: ast.Pattern, around: tuple[ast.Pattern, ...]) -> Iterator[Site]:
    inside = (*around, pattern)
    match pattern:
        case ast.Join():
            yield from _sites(pattern.left, inside)
            yield from _sites(pattern.right, inside)
            if pattern.predicate is not None:
                owner = pattern if pattern.kind == "NEXT" else None
                yield Site(pattern.predicate, inside, owner)
        case ast.Fold():
            yield from _sites(pattern.left, inside)
            yield from _sites(pattern.right, inside)
            for part in (pattern.filter, pattern.proceed, *(i.expr for i in pattern.iterations)):
                if part is not None:
                    yield Site(part, inside, pattern)
            for each in pattern.iterations:
                yield Site(each.initial, inside, pattern, begins=True)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from _sites(branch, inside)
        case ast.Negation() | ast.Group():
            yield from _sites(pattern.pattern, inside)
        case ast.Parenthesis():
            yield from _sites(pattern.pattern, inside)
            if pattern.where is not None:
                yield Site(pattern.where, inside)


def uses(expr: ast.Expr) -> Iterator[Use]:
    """The variables that an expression reads."""
    match expr:
        case ast.Path(variable=str(name)):
            yield Use(name, "bare", expr, None)
        case ast.Call(name=name, args=(first, *others)) if name in ELEMENT_FUNCTIONS:
            how: How = "prev" if name == "prev" else "first" if name == "first" else "whole"
            if isinstance(first, ast.Path) and first.variable is not None:
                yield Use(first.variable, how, first, expr)
            for other in others:
                yield from uses(other)
        case _:
            for part in parts(expr):
                yield from uses(part)


def conjuncts(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    return expr.parts if isinstance(expr, ast.And) else (expr,)


def among(node: ast.Pattern, around: tuple[ast.Pattern | None, ...]) -> bool:
    """Whether it is one of these, itself and not one like it."""
    return any(each is node for each in around)


def before(node: ast.Pattern, around: tuple[ast.Pattern, ...]) -> tuple[ast.Pattern, ...]:
    """What is around a node that is one of these."""
    place = next(number for number, each in enumerate(around) if each is node)
    return around[:place]


def level(around: tuple[ast.Pattern, ...]) -> ast.Pattern | None:
    """The parentheses, the group or the operand of NEXT or FOLD in which a place is; None for the
    whole pattern."""
    found: ast.Pattern | None = None
    for outer, inner in zip((None, *around), around, strict=False):
        if isinstance(inner, ast.Parenthesis | ast.Group) or chooses(outer):
            found = inner
    return found


def chooses(pattern: ast.Pattern | None) -> TypeGuard[ast.Fold | ast.Join]:
    """Whether it is NEXT or FOLD, whose braces choose documents."""
    return isinstance(pattern, ast.Fold) or (
        isinstance(pattern, ast.Join) and pattern.kind == "NEXT"
    )

"""Which variables a predicate of a pattern may name, and what each of them stands for there.

In: a query of Part 2. Out: errors. A variable is one of a single document, of the elements of a
group or an iteration, or of a NOT; `Home` says where it is bound. A predicate stands at a `Site`:
in braces, in WHERE, in SELECT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeGuard

from xscl import ast
from xscl.errors import Diagnostic
from xscl.functions.elements import ELEMENT_FUNCTIONS
from xscl.functions.nodes import NODE_FUNCTIONS

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


# -- what there is ---------------------------------------------------------------------------


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
    for expr in _written(selected):
        yield Site(expr, (), result=True)
    if query.over is not None:
        for key in query.over.keys:
            yield Site(key, (), result=True)
        if query.over.having is not None:
            yield Site(query.over.having, (), result=True)


def _written(select: tuple[ast.SelectItem, ...] | ast.Element) -> Iterator[ast.Expr]:
    if not isinstance(select, ast.Element):
        yield from (item.expr for item in select)
        return
    for part in [*(p for _, parts in select.attributes for p in parts), *select.content]:
        if isinstance(part, ast.Element):
            yield from _written(part)
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
        case ast.Call(name=name, args=args) if name in ELEMENT_FUNCTIONS:
            how: How = "prev" if name == "prev" else "first" if name == "first" else "whole"
            first, *others = args
            if isinstance(first, ast.Path) and first.variable is not None:
                yield Use(first.variable, how, first, expr)
            for other in others:
                yield from uses(other)
        case ast.Call(args=parts) | ast.And(parts=parts) | ast.Or(parts=parts):
            for part in parts:
                yield from uses(part)
        case ast.Not(part=part):
            yield from uses(part)
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            yield from uses(left)
            yield from uses(right)


def conjuncts(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    return expr.parts if isinstance(expr, ast.And) else (expr,)


def among(node: ast.Pattern, around: tuple[ast.Pattern | None, ...]) -> bool:
    """Whether it is one of these, itself and not one like it."""
    return any(each is node for each in around)


def _before(node: ast.Pattern, around: tuple[ast.Pattern, ...]) -> tuple[ast.Pattern, ...]:
    """What is around a node that is one of these."""
    place = next(number for number, each in enumerate(around) if each is node)
    return around[:place]


def level(around: tuple[ast.Pattern, ...]) -> ast.Pattern | None:
    """The parentheses, the group or the operand of NEXT or FOLD in which a place is; None for the
    whole pattern."""
    found: ast.Pattern | None = None
    for outer, inner in zip((None, *around), around, strict=False):
        if isinstance(inner, ast.Parenthesis | ast.Group) or _chooses(outer):
            found = inner
    return found


# -- the checks ------------------------------------------------------------------------------


def check_scopes(query: ast.Query) -> list[Diagnostic]:
    """The errors of all predicates of a query whose variables are all bound."""
    known: dict[str, Home] = {}
    errors: list[Diagnostic] = []
    for name, home in homes(query.pattern):
        first = known.setdefault(name, home)
        if (first.negation is None) != (home.negation is None) or (
            (first.repeated is None) != (home.repeated is None)
        ):
            message = f"the branches of OR bind {name} to different things"
            hint = "in all of them it must be one document, or elements of a group, or of a NOT"
            errors.append(Diagnostic("duplicate-variable", message, home.around[-1].span, hint))
    for site in sites(query):
        for part in conjuncts(site.expr):
            errors += _Conjunct(query, known, site, part).errors()
    return errors


@dataclass(frozen=True, slots=True)
class _Conjunct:
    """A conjunct at its site, with the homes of all variables."""

    query: ast.Query
    known: dict[str, Home]
    site: Site
    part: ast.Expr

    def errors(self) -> list[Diagnostic]:
        found = [use for use in uses(self.part) if use.variable in self.known]
        errors = [error for use in found if (error := self.of_use(use)) is not None]
        if errors:
            return errors[:1]
        forbidden = {id(h.negation): u for u in found if (h := self.home(u)).negation is not None}
        if len(forbidden) > 1:
            names = " and ".join(sorted(use.variable for use in forbidden.values()))
            return [
                Diagnostic(
                    "negation-scope",
                    f"this compares two absences, {names}: neither says what the other one forbids",
                    self.part.span,
                    "write a condition for each, or one NOT around both: NOT (S/b JOIN S/c)",
                )
            ]
        bare = [u for u in found if u.how in ("bare", "prev")]
        groups = {id(h.repeated): u for u in bare if (h := self.home(u)).repeated is not None}
        if len(groups) > 1 and not isinstance(self.site.owner, ast.Fold) and not self.site.result:
            names = " and ".join(sorted(use.variable for use in groups.values()))
            return [
                Diagnostic(
                    "group-scope",
                    f"{names} are of two groups: no element of one goes with one of the other",
                    self.part.span,
                    "say one of them as a whole: first(x), last(x), max(x)",
                )
            ]
        return []

    def home(self, use: Use) -> Home:
        return self.known[use.variable]

    def of_use(self, use: Use) -> Diagnostic | None:
        home = self.home(use)
        return (
            self.negated(use, home)
            or self.visible(use, home)
            or self.aggregated(use, home)
            or self.repeated(use, home)
        )

    def error(self, code: str, message: str, use: Use, hint: str) -> Diagnostic:
        return Diagnostic(code, message, use.path.span if use.call is None else use.call.span, hint)

    def negated(self, use: Use, home: Home) -> Diagnostic | None:
        """A variable of a NOT: not in a result, not through parentheses that are judged alone."""
        name, negation = use.variable, home.negation
        if negation is None:
            return None
        judged = [
            each
            for each in _before(negation, home.around)
            if isinstance(each, ast.Parenthesis) and (each.where or each.within)
        ]
        outside = [each for each in judged if not among(each, self.site.around)]
        if self.site.result or use.how != "bare" or outside or self.chosen(negation, home):
            return self.error(
                "negation-scope",
                f"{name} belongs to what must not be there, so it stands for nothing here",
                use,
                "a condition on it stands in the braces or in the WHERE around the NOT",
            )
        return None

    def chosen(self, negation: ast.Negation, home: Home) -> bool:
        """Whether the NOT stands in an operand of NEXT or FOLD, and the predicate outside of it."""
        for outer, inner in zip(_before(negation, home.around), home.around[1:], strict=False):
            if _chooses(outer) and not among(inner, self.site.around):
                return True
        return False

    def visible(self, use: Use, home: Home) -> Diagnostic | None:
        """Whether the predicate's place sees the variable."""
        name, site = use.variable, self.site
        owner = site.owner
        if owner is not None:
            if not among(owner, home.around):
                what = "NEXT" if isinstance(owner, ast.Join) else "FOLD"
                return self.error(
                    "out-of-scope",
                    f"the braces of {what} see its two operands, and {name} belongs to neither",
                    use,
                    "what is asked of the match afterwards stands in WHERE",
                )
            if site.begins and home.fold is owner:
                return self.error(
                    "out-of-scope",
                    f"FROM says what {use.variable} begins with, before there is any step",
                    use,
                    "it sees the left operand: n + q AS n FROM p",
                )
        judged: ast.Pattern | None = None
        for outer, inner in zip(site.around, (*site.around[1:], None), strict=False):
            if isinstance(outer, ast.Parenthesis) and (outer.where or outer.within):
                judged = outer
            elif _chooses(outer) and inner is not None and inner is outer.right:
                judged = inner
        if judged is not None and not among(judged, home.around):
            return self.error(
                "out-of-scope",
                f"these parentheses are judged by themselves, and {name} is outside of them",
                use,
                "put the condition into the WHERE around both",
            )
        return None

    def aggregated(self, use: Use, home: Home) -> Diagnostic | None:
        """Functions over several documents are of groups, of FOLD, or of OVER's window."""
        if use.call is None:
            return None
        called = use.call.name
        windowed = self.query.over is not None and self.site.result
        if windowed:
            if called == "prev" or home.repeated is not None:
                what = "the matches in a window have no previous one of their own"
                if called != "prev":
                    what = f"{use.variable} has several nodes in each match of the window"
                return self.error(
                    "aggregate-scope",
                    f"{called}() ranges over the window of OVER, and {what}",
                    use,
                    "PUBLISH the match with what it selects, and aggregate that stream",
                )
            return None
        if home.repeated is None:
            hint = "it is of a group, (S/b[./p->p])+, of FOLD, or of a window: OVER 5 min"
            if called in NODE_FUNCTIONS and use.path.steps:
                hint = f"a filter asks for the nodes of one: S//a[{called}(./b) > 2]"
            return self.error(
                "aggregate-scope",
                f"{called}() ranges over several documents, and {use.variable} has one",
                use,
                hint,
            )
        if called == "prev" and self.site.result:
            return self.error(
                "aggregate-scope",
                "prev() is of the element before the current one, and here there is no current one",
                use,
                "first(x) and last(x) are of the whole group",
            )
        return None

    def repeated(self, use: Use, home: Home) -> Diagnostic | None:
        """A group's bare variable, or prev(), is asked of an element, in the group's level only."""
        name, repeated, site = use.variable, home.repeated, self.site
        if repeated is None or use.how not in ("bare", "prev") or site.result:
            return None
        if isinstance(repeated, ast.Fold):
            inside = site.owner is repeated or among(repeated.right, site.around)
            what = "FOLD"
        else:
            around = level(_before(repeated, home.around))
            inside = among(repeated, site.around) or (
                site.owner is None and level(site.around) is around
            )
            what = "a group"
        if inside:
            return None
        where = "in its braces" if what == "FOLD" else "in the parentheses that hold the group"
        return self.error(
            "group-scope",
            f"{name} stands for several documents of {what} here",
            use,
            f"say which, last({name}) or first({name}); of each element it is asked {where}",
        )


def _chooses(pattern: ast.Pattern | None) -> TypeGuard[ast.Fold | ast.Join]:
    return isinstance(pattern, ast.Fold) or (
        isinstance(pattern, ast.Join) and pattern.kind == "NEXT"
    )

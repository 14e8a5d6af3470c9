"""Which variables a predicate of a pattern may name, and what each of them stands for there.

In: a query of Part 2. Out: errors.
"""

from __future__ import annotations

from dataclasses import dataclass

from xscl import ast
from xscl.check.sites import (
    Home,
    Site,
    Use,
    among,
    before,
    chooses,
    conjuncts,
    homes,
    level,
    sites,
    uses,
)
from xscl.errors import Diagnostic
from xscl.functions.nodes import NODE_FUNCTIONS


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
            for each in before(negation, home.around)
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
        for outer, inner in zip(before(negation, home.around), home.around[1:], strict=False):
            if chooses(outer) and not among(inner, self.site.around):
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
            elif chooses(outer) and inner is not None and inner is outer.right:
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
            around = level(before(repeated, home.around))
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

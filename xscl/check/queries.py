"""Static checks of one query: its pattern, its SELECT, and where each variable comes from.

In: an `ast.Query` and the prefixes of its file. Out: `QueryFindings`, the errors and warnings, and
the facts that later passes need: which block binds a variable, the joins, the conjuncts.
"""

from __future__ import annotations

from collections.abc import Collection

from xscl import ast
from xscl.check.expressions import Walk
from xscl.check.findings import QueryFindings
from xscl.check.patterns import check_pattern, is_pattern
from xscl.errors import Span
from xscl.syntax import foreign_patterns
from xscl.syntax.foreign import VALUES

_WHY_UNBOUND = {
    "or": "{} cannot be bound inside or: where another branch holds, it stands for nothing",
    "not": "{} cannot be bound inside not: the filter holds where there is no such node",
    "operand": "{} cannot be bound in a comparison or a function",
    "predicate": "{} cannot be bound in a predicate",
    "partition": "{} cannot be bound in PARTITION BY",
    "sideways": "{} cannot be bound on a path that leads elsewhere than down",
}
_HOW_TO_BIND = {
    "or": "filter with the or, and bind what is common to all branches beside it",
    "not": "bind it in a filter of its own, beside the not",
    "operand": "bind the node alone and filter it: [./price->p[. > 100]]",
    "predicate": "variables are bound in blocks: S//book->x1[./author->x2]",
    "partition": "its paths only say which values must agree: PARTITION BY ./symbol",
    "sideways": "begin at a node above: S//list[./a/following-sibling::b]/b->x, or S//list/b->x",
}


def check_query(
    query: ast.Query, prefixes: Collection[str], hints: bool = True
) -> list[QueryFindings]:
    """Check a query and the queries nested in it, which follow it in the result."""
    walk = _Walk(prefixes, hints)
    walk.query(query)
    return [walk.found, *walk.nested]


class _Walk(Walk):
    def __init__(self, prefixes: Collection[str], hints: bool) -> None:
        super().__init__(prefixes, hints)
        self.nested: list[QueryFindings] = []
        self.hidden: dict[str, Span] = {}

    # -- queries and patterns ----------------------------------------------------------------

    def query(self, query: ast.Query) -> None:
        self.pattern(query.pattern)
        for path in query.partition:
            self.steps(path.steps, "partition", "element")
            test = path.steps[0].test if path.steps else None
            if test is not None and test.name is not None and path.span.text[:1] not in ".@":
                self.bare.append((test.name, path.span))
        if query.where is not None:
            self.predicate(query.where)
        if isinstance(query.select, ast.Element):
            self.element(query.select, self.known_prefixes)
        elif query.select is not None:
            for item in query.select:
                self.selected(item.expr)
        if query.over is not None:
            for key in query.over.keys:
                self.value(key, False)
                self.single(key)
            if query.over.having is not None:
                self.condition(query.over.having, False, "predicate")
        self.variables()
        if is_pattern(query):
            self.found.joins.clear()
            if not self.found.errors:
                errors, warnings = check_pattern(query)
                self.found.errors += errors
                self.found.warnings += warnings

    def pattern(self, pattern: ast.Pattern) -> None:
        match pattern:
            case ast.Block():
                self.found.streams.add(pattern.stream)
                self.steps(pattern.steps, None, "document")
                self.blocks += 1
                self.arrow(pattern)
            case ast.Nested():
                self.subquery(pattern)
                self.steps(pattern.steps, None, "document")
                self.blocks += 1
            case ast.Join():
                low = self.blocks
                self.pattern(pattern.left)
                middle = self.blocks
                self.pattern(pattern.right)
                self.found.joins.append((pattern, low, middle, self.blocks))
                if pattern.predicate is not None:
                    self.predicate(pattern.predicate)
            case ast.Fold():
                self.pattern(pattern.left)
                self.pattern(pattern.right)
                self.fold(pattern)
            case ast.Alternatives():
                outer = self.branch
                for number, branch in enumerate(pattern.branches):
                    self.branch = (*outer, (id(pattern), number))
                    self.pattern(branch)
                self.branch = outer
            case ast.Negation() | ast.Group():
                self.pattern(pattern.pattern)
            case ast.Parenthesis():
                self.pattern(pattern.pattern)
                if pattern.where is not None:
                    self.predicate(pattern.where)

    def arrow(self, block: ast.Block) -> None:
        """Warn of `S/a -> S/b`, where the arrow of other languages binds a variable."""
        for step in block.steps[:-1]:
            if step.variable == block.stream:
                message = f"-> binds a variable, called {step.variable}, and a path goes on from it"
                hint = "one document after the other is written S/a FOLLOWED BY S/b"
                self.found.warn("arrow-in-path", message, block.span, hint)

    def fold(self, fold: ast.Fold) -> None:
        for part in (fold.filter, fold.proceed):
            if part is not None:
                self.condition(part, False, "predicate")
        for each in fold.iterations:
            place = each.variable_span or each.span
            if each.variable in self.places:
                first = self.places[each.variable]
                message = f"the variable {each.variable} is bound twice"
                also = (("it was first bound here:", first),)
                self.found.error("duplicate-variable", message, place, also=also)
            self.places.setdefault(each.variable, place)
            self.branches.setdefault(each.variable, []).append(())
            for part in (each.expr, each.initial):
                self.value(part, False)
                self.single(part)

    def subquery(self, pattern: ast.Nested) -> None:
        inner = _Walk(self.known_prefixes, self.hints)
        inner.query(pattern.query)
        self.nested += [inner.found, *inner.nested]
        self.hidden.update(inner.places)
        self.hidden.update(inner.hidden)
        self.found.streams |= inner.found.streams
        self.found.prefixes |= inner.found.prefixes
        if pattern.query.publish is not None:
            self.found.error(
                "nested-publish",
                "a query in parentheses is an anonymous stream and cannot PUBLISH",
                pattern.query.publish_span or pattern.query.span,
                "make it a statement of its own and read the stream by its name",
            )

    def predicate(self, predicate: ast.Expr) -> None:
        if isinstance(predicate, ast.And):
            self.found.conjuncts += predicate.parts
        else:
            self.found.conjuncts.append(predicate)
        self.condition(predicate, False, "predicate")

    # -- SELECT and variables ----------------------------------------------------------------

    def element(self, element: ast.Element, known: Collection[str]) -> None:
        names = [element.name]
        declared: list[str] = []
        for name, parts in element.attributes:
            space, _, local = name.partition(":")
            if space != "xmlns":
                names.append(name)
            elif local:
                declared.append(local)
            for part in parts:
                if not isinstance(part, str):
                    self.selected(part)
        if declared:
            known = dict.fromkeys([*known, *declared])
        for name in names:
            prefix, colon, _ = name.partition(":")
            if colon:
                self.prefix(prefix, element.span, known, made=True)
        for child in element.content:
            if isinstance(child, ast.Element):
                self.element(child, known)
            elif not isinstance(child, str):
                self.selected(child)

    def variables(self) -> None:
        """Check each use of a variable, once all bindings are known."""
        places = self.places
        unknown: dict[str, Span] = {}
        for use in self.uses:
            name = use.variable
            if name is not None and name not in places and name not in unknown:
                unknown[name] = Span(use.span.source, use.span.start, use.span.start + len(name))
        for name, why, place in self.unbound:
            used = unknown.pop(name, None)
            also = () if used is None else (("it is used here:", used),)
            message = _WHY_UNBOUND[why].format(name)
            self.found.error("unbound-variable", message, place, _HOW_TO_BIND[why], also)
        for name, place in unknown.items():
            self.unknown(name, place)
        for name, place in self.bare:
            if name in places:
                self.found.warn(
                    "variable-in-filter",
                    f"{name} is the child element {name} here, not the variable",
                    place,
                    f"write ./{name} for the element; variables are compared in WHERE or braces",
                )

    def unknown(self, name: str, place: Span) -> None:
        if name in self.hidden:
            self.found.error(
                "unknown-variable",
                f"the variable {name} belongs to the query in parentheses, it cannot be seen here",
                place,
                "SELECT it there, and bind it again in the path behind the parenthesis",
                also=(("it is bound here:", self.hidden[name]),),
            )
            return
        if habit := VALUES.get(name.upper()) or foreign_patterns.VALUES.get(name.upper()):
            self.found.error(
                "unknown-variable", f"no block binds the variable {name}", place, habit
            )
            return
        none = "no block of this query binds a variable: S//book->x1 binds x1"
        hint = self.names_hint(name, self.places, "the variables are", none)
        self.found.error("unknown-variable", f"no block binds the variable {name}", place, hint)

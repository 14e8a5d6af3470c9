"""Single changes to an event pattern: what somebody may have meant whose pattern finds nothing.

In: a checked query. Out: queries that differ in one place, each with the words for the difference,
in groups of one kind. Some are no valid queries; whoever tries them checks them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from broker.why.softer import softened
from xscl import ast
from xscl.check.sites import conjuncts, homes, uses
from xscl.normal.lower import NOWHERE
from xscl.syntax.durations import format_microseconds
from xscl.syntax.printer import format_expression, format_pattern

Put = Callable[[ast.Pattern], ast.Query]
"""The query with another pattern in a place."""

_FEWER = 20
"""So many lower bounds of a group are tried."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A changed query; `said` completes "1 would match …"."""

    query: ast.Query
    said: str


@dataclass(frozen=True, slots=True)
class Window:
    """A finite window of a query, in microseconds, and the query with another one."""

    width: int
    widened: Callable[[int], ast.Query]


@dataclass(frozen=True, slots=True)
class Asked:
    """A conjunct of a query, and the query with another one in its place, or without it."""

    conjunct: ast.Expr
    put: Callable[[ast.Expr | None], ast.Query]


# -- places --------------------------------------------------------------------------------------


def _nodes(pattern: ast.Pattern, put: Put) -> Iterator[tuple[ast.Pattern, Put]]:
    """A pattern and all below it, each with what puts another in its place."""
    yield pattern, put
    match pattern:
        case ast.Join(left=left, right=right) | ast.Fold(left=left, right=right):
            yield from _nodes(left, lambda new: put(replace(pattern, left=new)))
            yield from _nodes(right, lambda new: put(replace(pattern, right=new)))
        case ast.Alternatives(branches=branches):
            for at, branch in enumerate(branches):
                yield from _nodes(branch, _branch(pattern, at, put))
        case ast.Negation() | ast.Group() | ast.Parenthesis():
            yield from _nodes(pattern.pattern, lambda new: put(replace(pattern, pattern=new)))


def _branch(pattern: ast.Alternatives, at: int, put: Put) -> Put:
    before, after = pattern.branches[:at], pattern.branches[at + 1 :]
    return lambda new: put(replace(pattern, branches=(*before, new, *after)))


def _places(query: ast.Query) -> Iterator[tuple[ast.Pattern, Put]]:
    return _nodes(query.pattern, lambda new: replace(query, pattern=new))


def asked(query: ast.Query) -> Iterator[Asked]:
    """The conjuncts of all its predicates but HAVING."""
    for expr, put in _predicates(query):
        parts = () if expr is None else conjuncts(expr)
        for at, part in enumerate(parts):
            yield Asked(part, _part(parts, at, put))


def _predicates(
    query: ast.Query,
) -> Iterator[tuple[ast.Expr | None, Callable[[ast.Expr | None], ast.Query]]]:
    yield query.where, lambda new: replace(query, where=new)
    for node, put in _places(query):
        yield from _of_node(node, put)


def _of_node(
    node: ast.Pattern, put: Put
) -> Iterator[tuple[ast.Expr | None, Callable[[ast.Expr | None], ast.Query]]]:
    match node:
        case ast.Join(predicate=predicate):
            yield predicate, lambda new: put(replace(node, predicate=new))
        case ast.Parenthesis(where=where):
            yield where, lambda new: put(replace(node, where=new))
        case ast.Fold():
            yield node.filter, lambda new: put(replace(node, filter=new))
            yield node.proceed, lambda new: put(replace(node, proceed=new))


def _part(
    parts: tuple[ast.Expr, ...], at: int, put: Callable[[ast.Expr | None], ast.Query]
) -> Callable[[ast.Expr | None], ast.Query]:
    others = parts[:at], parts[at + 1 :]
    return lambda new: put(_all((*others[0], *(() if new is None else (new,)), *others[1])))


def _all(parts: tuple[ast.Expr, ...]) -> ast.Expr | None:
    flat = tuple([each for part in parts for each in conjuncts(part)])
    if len(flat) > 1:
        return ast.And(flat, span=NOWHERE)
    return flat[0] if flat else None


def windows(query: ast.Query) -> Iterator[Window]:
    """Its finite windows."""
    if query.within is not None and query.within.microseconds is not None:
        yield Window(
            query.within.microseconds, lambda width: replace(query, within=_duration(width))
        )
    for node, put in _places(query):
        yield from _windows_of(node, put)


def _windows_of(node: ast.Pattern, put: Put) -> Iterator[Window]:
    match node:
        case ast.Join(window=ast.Duration(microseconds=int(width))):
            yield Window(width, lambda new: put(replace(node, window=_duration(new))))
        case ast.Parenthesis(within=ast.Duration(microseconds=int(width))):
            yield Window(width, lambda new: put(replace(node, within=_duration(new))))


def _duration(width: int) -> ast.Duration:
    return ast.Duration(width, span=NOWHERE)


# -- changes -------------------------------------------------------------------------------------


def without_nots(query: ast.Query) -> Iterator[Edit]:
    """Each NOT left out, with what is asked of it."""
    yield from _left_out(query, lambda part: isinstance(part, ast.Negation))


def without_items(query: ast.Query) -> Iterator[Edit]:
    """Each operand left out, with what is asked of it; the result is what is left."""
    yield from _left_out(
        replace(query, select=None), lambda part: not isinstance(part, ast.Negation)
    )


def _left_out(query: ast.Query, wanted: Callable[[ast.Pattern], bool]) -> Iterator[Edit]:
    for node, put in _places(query):
        if isinstance(node, ast.Join):
            for gone, kept in ((node.right, node.left), (node.left, node.right)):
                if wanted(gone):
                    left = _without(put(kept), _bound(gone))
                    yield Edit(left, f"without {format_pattern(gone)}")


def _without(query: ast.Query, gone: frozenset[str]) -> ast.Query:
    """A query without the conjuncts that name variables which are gone."""
    while True:
        of = next((each for each in asked(query) if gone & _named(each.conjunct)), None)
        if of is None:
            return query
        query = of.put(None)


def _named(part: ast.Expr) -> frozenset[str]:
    return frozenset([use.variable for use in uses(part)])


def _bound(pattern: ast.Pattern) -> frozenset[str]:
    return frozenset([name for name, _ in homes(pattern)])


def turned(query: ast.Query) -> Iterator[Edit]:
    """Two neighbours in a list exchanged; then JOIN in the place of FOLLOWED BY."""
    lists = [
        (node, put)
        for node, put in _places(query)
        if isinstance(node, ast.Join) and node.kind != "JOIN"
    ]
    for node, put in lists:
        left, right = node.left, node.right
        if isinstance(left, ast.Join) and left.kind == node.kind:
            first, made = left.right, replace(node, left=replace(left, right=right))
            made = replace(made, right=first)
        else:
            first, made = left, replace(node, left=right, right=left)
        if not isinstance(right, ast.Negation) and not isinstance(first, ast.Negation):
            yield Edit(
                put(made),
                f"the other way round, {format_pattern(right)} before {format_pattern(first)}",
            )
    for node, put in lists:
        if not node.after:
            yield Edit(put(replace(node, kind="JOIN")), f"with JOIN instead of {node.kind}")


def softer(query: ast.Query) -> Iterator[Edit]:
    """Each conjunct in a form that asks for less."""
    for each in asked(query):
        old = format_expression(each.conjunct)
        for new in softened(each.conjunct):
            yield Edit(each.put(new), f"with {format_expression(new)} instead of {old}")


def chosen(query: ast.Query) -> Iterator[Edit]:
    """What NEXT chooses: with conjuncts of WHERE in its braces, or any instead of the soonest."""
    nexts = [
        (node, put)
        for node, put in _places(query)
        if isinstance(node, ast.Join) and node.kind == "NEXT"
    ]
    for node, put in nexts:
        parts = () if query.where is None else conjuncts(query.where)
        for at, part in enumerate(parts):
            if _named(part) & _bound(node.right):
                before = () if node.predicate is None else (node.predicate,)
                made = put(replace(node, predicate=_all((*before, part))))
                yield Edit(
                    replace(made, where=_all((*parts[:at], *parts[at + 1 :]))),
                    f"with {format_expression(part)} in the braces of NEXT, which choose, and not"
                    " in WHERE, which judges what was chosen",
                )
    for node, put in nexts:
        yield Edit(
            put(replace(node, kind="FOLLOWED BY")),
            "with FOLLOWED BY instead of NEXT, which takes the soonest only",
        )


def selected(query: ast.Query) -> Iterator[Edit]:
    """Other strategies, and without PARTITION BY."""
    strategy = query.strategy
    if strategy is not None and strategy.selection in ast.RUNS:
        old = f"USING {strategy.selection}"
        if strategy.selection != "SKIP TILL NEXT MATCH":
            yield Edit(
                replace(query, strategy=replace(strategy, selection="SKIP TILL NEXT MATCH")),
                f"with USING SKIP TILL NEXT MATCH instead of {old}",
            )
        left = None if strategy.choosing is None else replace(strategy, selection=None)
        yield Edit(replace(query, strategy=left), f"without {old}")
    if query.partition:
        paths = ", ".join([format_expression(path) for path in query.partition])
        yield Edit(replace(query, partition=()), f"without PARTITION BY {paths}")


def fewer(query: ast.Query) -> Iterator[Edit]:
    """Groups of fewer elements, the most first."""
    for node, put in _places(query):
        if isinstance(node, ast.Group):
            for least in [*range(node.least - 1, 0, -1)][:_FEWER]:
                new = replace(node, least=least, most=None)
                yield Edit(
                    put(new), f"with {format_pattern(new)} instead of {format_pattern(node)}"
                )


def window_said(old: int, new: str) -> str:
    """The words for a wider window."""
    return f"within {new} instead of {format_microseconds(old)}"

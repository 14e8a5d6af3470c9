"""An event pattern for people, in one sentence; its picture is `broker/cli/remote/drawing.py`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from broker.why.picture import kind_of, selected
from broker.why.telling import block_name
from xscl import ast
from xscl.check.program import ResolvedQuery
from xscl.syntax.printer import format_duration, format_expression


def pattern_sentence(resolved: ResolvedQuery) -> str:
    """What a query with an event pattern finds. Blocks have the names A, B, … in their order."""
    query = resolved.query
    found = _told(query.pattern, map(block_name, count()))
    asked = [format_expression(each) for each in _predicates(query.pattern)]
    if query.where is not None:
        asked.append(format_expression(query.where))
    if asked:
        found += f", where {' and '.join(asked)}"
    if query.within is not None:
        found += f", all within {format_duration(query.within)}"
    if query.partition:
        keys = ", ".join([format_expression(each) for each in query.partition])
        found += f", by itself for each {keys}"
    publishes = f"; it publishes the stream {query.publish}" if query.publish else ""
    return f"finds {found}; a match shows {selected(query)}{publishes}"


def _told(pattern: ast.Pattern, names: Iterator[str]) -> str:
    match pattern:
        case ast.Block():
            return f"{kind_of(pattern)} ({next(names)})"
        case ast.Nested():
            return f"what a query finds ({next(names)})"
        case ast.Negation():
            return f"no {_bare(_told(pattern.pattern, names))}"
        case ast.Group():
            return f"{_times(pattern)} of ({_told(pattern.pattern, names)})"
        case ast.Parenthesis():
            inner = _told(pattern.pattern, names)
            where = f", where {format_expression(pattern.where)}" if pattern.where else ""
            window = f", all within {format_duration(pattern.within)}" if pattern.within else ""
            return f"({inner}{where}{window})"
        case ast.Alternatives():
            return f"either {' or '.join([_told(each, names) for each in pattern.branches])}"
        case ast.Fold():
            left, right = _told(pattern.left, names), _told(pattern.right, names)
            return f"{left}, and then one after the other each {_bare(right)}"
    left, right = _told(pattern.left, names), _told(pattern.right, names)
    window = f" within {format_duration(pattern.window)}" if pattern.window else ""
    if pattern.kind == "FOLLOWED BY":
        return f"{left}, followed{window} by {right}"
    if pattern.kind == "NEXT":
        return f"{left}, and the next {_bare(right)}{window}"
    apart = f" at most {format_duration(pattern.window)} apart" if pattern.window else ""
    return f"{left} and {right}{apart or ' in any order'}"


def _bare(told: str) -> str:
    """Without its article."""
    return told.removeprefix("a ").removeprefix("an ")


def _times(group: ast.Group) -> str:
    if group.most is None:
        return f"{group.least} or more"
    return str(group.least) if group.most == group.least else f"{group.least} to {group.most}"


def _predicates(pattern: ast.Pattern) -> Iterator[ast.Expr]:
    """What stands in the braces of operators, but of those that are judged by themselves."""
    match pattern:
        case ast.Join():
            yield from _predicates(pattern.left)
            yield from _predicates(pattern.right)
            if pattern.predicate is not None:
                yield pattern.predicate
        case ast.Fold():
            yield from _predicates(pattern.left)
            yield from _predicates(pattern.right)
            yield from filter(None, (pattern.filter, pattern.proceed))
        case ast.Group() | ast.Negation() | ast.Parenthesis():
            yield from _predicates(pattern.pattern)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from _predicates(branch)

"""Accessors for a query's syntax tree: its blocks, its predicates, the variables that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xscl import ast


def terms(pattern: ast.Pattern) -> Iterator[ast.Block | ast.Nested]:
    """The blocks, and the paths into nested queries, from left to right."""
    if isinstance(pattern, ast.Join):
        yield from terms(pattern.left)
        yield from terms(pattern.right)
    else:
        assert isinstance(pattern, ast.Block | ast.Nested), "of Part 1"
        yield pattern


def predicates(pattern: ast.Pattern) -> Iterator[ast.Expr]:
    if isinstance(pattern, ast.Join):
        yield from predicates(pattern.left)
        yield from predicates(pattern.right)
        if pattern.predicate is not None:
            yield pattern.predicate


def conjuncts(predicates: Iterable[ast.Expr]) -> Iterator[ast.Expr]:
    for predicate in predicates:
        if isinstance(predicate, ast.And):
            yield from conjuncts(predicate.parts)
        else:
            yield predicate


def bound_in(steps: Iterable[ast.Step]) -> Iterator[str]:
    """The variables that steps and their filters bind, in order of appearance."""
    for step in steps:
        if step.variable is not None:
            yield step.variable
        for expr in step.filters:
            for path in paths(expr):
                yield from bound_in(path.steps)


def variables(expr: ast.Expr) -> list[str]:
    """The variables that a predicate or an item reads, in order of first appearance."""
    return list(dict.fromkeys(p.variable for p in paths(expr) if p.variable is not None))


def joined(predicate: ast.Expr) -> tuple[str, ...]:
    """The two variables of an equality between variables, if it is one."""
    match predicate:
        case ast.Comparison(
            op="=",
            left=ast.Path(variable=str(one), steps=()),
            right=ast.Path(variable=str(other), steps=()),
        ) if one != other:
            return one, other
    return ()


def selected(select: tuple[ast.SelectItem, ...] | ast.Element) -> tuple[str, ...]:
    """The variables that SELECT names, in order of first appearance."""
    if isinstance(select, ast.Element):
        attributes = [part for _, parts in select.attributes for part in parts]
        found: list[str] = []
        for part in (*attributes, *select.content):
            if isinstance(part, ast.Element):
                found += selected(part)
            elif not isinstance(part, str):
                found += variables(part)
    else:
        found = [name for item in select for name in variables(item.expr)]
    return tuple(dict.fromkeys(found))


def paths(expr: ast.Expr) -> Iterator[ast.Path]:
    match expr:
        case ast.Path():
            yield expr
        case ast.Call(args=parts) | ast.And(parts=parts) | ast.Or(parts=parts):
            for part in parts:
                yield from paths(part)
        case ast.Not(part=part):
            yield from paths(part)
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            yield from paths(left)
            yield from paths(right)

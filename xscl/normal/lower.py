"""From the syntax tree to the intermediate form: namespaces for prefixes, parameters for
literals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from xscl import ast
from xscl.errors import Source, Span
from xscl.kinds import goes_beyond, parts, positional
from xscl.normal import ir
from xscl.normal.canonical import canonical_filters
from xscl.syntax.printer import marked_expression

_COMPARATORS = {each.value: each for each in ir.Comparator}
_CALCULATIONS = {each.value: each for each in ir.Calculation}

NOWHERE = Span(Source("", ""), 0, 0)
"""The span of nodes that are no longer part of a text."""

Literal = ast.String | ast.Number | ast.Duration


class Lowering:
    """Converts parts of one query to the intermediate form.

    `namespaces` maps prefixes to namespace names. Literals of `query` become parameters; without a
    query they stay constants.
    """

    def __init__(self, namespaces: Mapping[str, str], query: ast.Query | None = None) -> None:
        self._namespaces = namespaces
        found = () if query is None else literals_of(query)
        # By identity, since equal literals occur in several places.
        self._numbers = {id(literal): index for index, literal in enumerate(found)}

    def window(self, duration: ast.Duration | None) -> int | None:
        """The index of a window among the literals; None: no bound."""
        return None if duration is None else self._numbers.get(id(duration))

    def test(self, test: ast.Test) -> ir.Test:
        namespace = None if test.prefix is None else self._namespaces[test.prefix]
        assert test.kind in ("element", "attribute", "text", "self")
        return ir.Test(test.kind, test.name, namespace)

    def steps(self, steps: Sequence[ast.Step]) -> tuple[ir.Step, ...]:
        """Steps without variables."""
        return tuple([ir.Step(s.axis, self.test(s.test), self._filters(s)) for s in steps])

    def _filters(self, step: ast.Step) -> tuple[ir.Expr, ...]:
        if not step.filters:
            return ()
        return canonical_filters(map(self.filter, standing_filters(step)))

    def filter(self, part: ast.Expr) -> ir.Expr:
        """A filter of a step."""
        return self.beyond(part) if goes_beyond(part) else self.expression(part)

    def expression(self, expr: ast.Expr) -> ir.Expr:
        """A predicate, an item of SELECT, or a filter that plain steps downwards can evaluate."""
        match expr:
            case ast.String() | ast.Number():
                return self._literal(expr)
            case ast.Path():
                return self._path(expr)
            case ast.Call():
                return ir.Call(expr.name, self._all(expr.args))
            case ast.Comparison():
                left, right = self.expression(expr.left), self.expression(expr.right)
                return ir.Comparison(_COMPARATORS[expr.op], left, right)
            case ast.Arithmetic():
                left, right = self.expression(expr.left), self.expression(expr.right)
                return ir.Arithmetic(_CALCULATIONS[expr.op], left, right)
            case ast.And():
                return ir.And(self._all(expr.parts))
            case ast.Or():
                return ir.Or(self._all(expr.parts))
            case ast.Not():
                return ir.Not(self.expression(expr.part))
            case _:
                raise TypeError(f"{type(expr).__name__} goes beyond plain steps")

    def beyond(self, expr: ast.Expr) -> ir.Beyond:
        """A whole filter, for the evaluator on numbered documents."""
        literals: list[ir.Expr] = []

        def placed(node: Any) -> Any:
            match node:
                case ast.String():
                    literals.append(self._literal(node))
                    return ast.String("", span=NOWHERE)
                case ast.Number():
                    literals.append(self._literal(node))
                    return ast.Number(0.0, span=NOWHERE)
                case ast.Test():
                    namespace = None if node.prefix is None else self._namespaces[node.prefix]
                    return replace(node, prefix=namespace)
            return rebuilt(node, placed)

        return ir.Beyond(placed(expr), tuple(literals))

    def _all(self, parts: Sequence[ast.Expr]) -> tuple[ir.Expr, ...]:
        return tuple([self.expression(part) for part in parts])

    def _literal(self, literal: ast.String | ast.Number) -> ir.Expr:
        index = self._numbers.get(id(literal))
        if index is not None:
            return ir.Parameter(index, isinstance(literal, ast.Number))
        if isinstance(literal, ast.String):
            return ir.String(literal.value)
        return ir.Number(literal.value)

    def _path(self, path: ast.Path) -> ir.Expr:
        steps = self.steps(path.steps)
        if path.variable is None:
            return ir.Path(steps)
        return ir.VariablePath(path.variable, steps, self._written(path))

    def _written(self, path: ast.Path) -> ir.Written:
        """The text of a path as the printer writes it, split at literals."""
        pieces: list[str | ir.Parameter] = [*marked_expression(path)]
        for place, literal in zip(range(1, len(pieces), 2), _expression(path), strict=True):
            lowered = self._literal(literal) if not isinstance(literal, ast.Duration) else None
            if isinstance(lowered, ir.Parameter):
                pieces[place] = lowered
        return tuple(pieces)

    def select(self, select: tuple[ast.SelectItem, ...] | ast.Element | None) -> ir.Select:
        if isinstance(select, ast.Element):
            return self._element(select)
        if select is None:
            return None
        return tuple([ir.Item(self.expression(item.expr), item.name) for item in select])

    def _element(self, element: ast.Element) -> ir.Element:
        attributes = tuple(
            (name, tuple([p if isinstance(p, str) else self.expression(p) for p in parts]))
            for name, parts in element.attributes
        )
        content = tuple(
            part
            if isinstance(part, str)
            else self._element(part)
            if isinstance(part, ast.Element)
            else self.expression(part)
            for part in element.content
        )
        return ir.Element(element.name, attributes, content)


# -- filters that go beyond plain steps --------------------------------------------------------


def standing_filters(step: ast.Step) -> tuple[ast.Expr, ...]:
    """The filters of a step in a form whose order no longer matters: a positional filter becomes a
    `Selected`, which includes the filters before it."""
    if not any(positional(part) for part in step.filters):
        return step.filters
    found = list(step.filters)
    for at, part in enumerate(step.filters):
        if positional(part):
            before = unbound(step.filters[: at + 1])
            found[at] = ast.Selected(
                ast.Step("/", step.test, None, before, span=NOWHERE), span=NOWHERE
            )
    return tuple(found)


def unbound(node: Any) -> Any:
    """A part of a syntax tree without the variables that it binds. Literals stay the same objects,
    as they are identified by them."""
    if isinstance(node, ast.String | ast.Number):
        return node
    if isinstance(node, ast.Step):
        return replace(node, variable=None, filters=unbound(node.filters))
    return rebuilt(node, unbound)


def rebuilt(node: Any, change: Callable[[Any], Any]) -> Any:
    """A part of a syntax tree with `change` applied to its parts, without spans."""
    if isinstance(node, tuple):
        return tuple([change(part) for part in node])
    if not is_dataclass(node) or isinstance(node, ast.Test):
        return node
    kind: Any = type(node)
    return kind(
        *[change(getattr(node, f.name)) for f in fields(node) if not f.kw_only], span=NOWHERE
    )


def complete(expr: ir.Expr) -> ast.Expr:
    """A filter without parameters as a syntax tree with namespace names for prefixes, the input of
    the evaluator on numbered documents."""
    match expr:
        case ir.String(value=text):
            return ast.String(text, span=NOWHERE)
        case ir.Number(value=number):
            return ast.Number(number, span=NOWHERE)
        case ir.Path(steps=steps):
            return ast.Path(None, complete_steps(steps), span=NOWHERE)
        case ir.Beyond():
            return _completed(expr)
        case ir.Call(name=name, args=args):
            return ast.Call(name, _each(args), span=NOWHERE)
        case ir.Arithmetic(calculation=calculation, left=left, right=right):
            return ast.Arithmetic(calculation.value, complete(left), complete(right), span=NOWHERE)
        case ir.Comparison(comparator=comparator, left=left, right=right):
            return ast.Comparison(comparator.value, complete(left), complete(right), span=NOWHERE)
        case ir.And(parts=parts):
            return ast.And(_each(parts), span=NOWHERE)
        case ir.Or(parts=parts):
            return ast.Or(_each(parts), span=NOWHERE)
        case ir.Not(part=part):
            return ast.Not(complete(part), span=NOWHERE)
        case _:
            raise TypeError(f"{type(expr).__name__} has no value at a node")


def complete_steps(steps: Sequence[ir.Step]) -> tuple[ast.Step, ...]:
    """Steps without parameters as those of a syntax tree, like `complete`."""
    return tuple(
        ast.Step(
            step.axis,
            ast.Test(step.test.kind, step.test.name, step.test.namespace),
            None,
            _each(step.filters),
            span=NOWHERE,
        )
        for step in steps
    )


def _each(parts: Sequence[ir.Expr]) -> tuple[ast.Expr, ...]:
    return tuple(map(complete, parts))


def _completed(beyond: ir.Beyond) -> ast.Expr:
    """The form of a filter with its literals."""
    literals = map(complete, beyond.literals)

    def placed(node: Any) -> Any:
        if isinstance(node, ast.String | ast.Number):
            return next(literals)
        return rebuilt(node, placed)

    found: ast.Expr = placed(beyond.form)
    return found


# -- literals, in the order of the canonical text --------------------------------------------


def literals_of(query: ast.Query) -> Iterator[Literal]:
    """The literals of a query in the order of its canonical text, without those of nested queries,
    whose text identifies a stream."""
    if isinstance(query.select, ast.Element):
        yield from _constructor(query.select)
    for item in query.select or () if not isinstance(query.select, ast.Element) else ():
        yield from _expression(item.expr)
    yield from _pattern(query.pattern)
    for path in query.partition:
        yield from _expression(path)
    yield from _judged(query.where, query.within)
    yield from _window(query.wait)
    if query.over is not None:
        for key in query.over.keys:
            yield from _expression(key)
        yield from _window(query.over.window)
        if query.over.having is not None:
            yield from _expression(query.over.having)


def _constructor(element: ast.Element) -> Iterator[Literal]:
    for part in [*(p for _, value in element.attributes for p in value), *element.content]:
        if isinstance(part, ast.Element):
            yield from _constructor(part)
        elif not isinstance(part, str):
            yield from _expression(part)


def _pattern(pattern: ast.Pattern) -> Iterator[Literal]:
    match pattern:
        case ast.Block() | ast.Nested():
            for step in pattern.steps:
                for part in step.filters:
                    yield from _expression(part)
        case ast.Join():
            yield from _pattern(pattern.left)
            yield from _judged(pattern.predicate, pattern.window)
            yield from _pattern(pattern.right)
        case ast.Fold():
            yield from _pattern(pattern.left)
            values = [each for step in pattern.iterations for each in (step.expr, step.initial)]
            for each in (pattern.filter, pattern.proceed, *values):
                if each is not None:
                    yield from _expression(each)
            yield from _pattern(pattern.right)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from _pattern(branch)
        case ast.Negation() | ast.Group():
            yield from _pattern(pattern.pattern)
        case ast.Parenthesis():
            yield from _pattern(pattern.pattern)
            yield from _judged(pattern.where, pattern.within)


def _judged(predicate: ast.Expr | None, window: ast.Duration | None) -> Iterator[Literal]:
    if predicate is not None:
        yield from _expression(predicate)
    yield from _window(window)


def _window(duration: ast.Duration | None) -> Iterator[Literal]:
    if duration is not None and duration.microseconds is not None:
        yield duration


def _expression(expr: ast.Expr) -> Iterator[Literal]:
    match expr:
        case ast.String() | ast.Number():
            yield expr
        case ast.Path(steps=steps):
            for step in steps:
                for part in step.filters:
                    yield from _expression(part)
        case ast.Filtered(part=part, filters=filters, steps=steps):
            yield from _expression(part)
            for each in (*filters, ast.Path(None, steps, span=NOWHERE)):
                yield from _expression(each)
        case _:
            for part in parts(expr):
                yield from _expression(part)

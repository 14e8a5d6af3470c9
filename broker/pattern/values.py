"""Expressions of a pattern, compiled: from a syntax tree to a function of a scope."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker.pattern.comparing import some_compare
from broker.pattern.instances import Row
from broker.pattern.sliding import Column
from broker.pattern.sums import total
from broker.pattern.trying import TooMuch, choices
from xscl import ast
from xscl.functions.comparing import COMPARE
from xscl.functions.elements import DURATION, ELEMENT_FUNCTIONS
from xscl.functions.table import FUNCTIONS, arithmetic, convert, to_number, to_string
from xscl.functions.texts import TextTooLong
from xscl.kinds import nested
from xscl.syntax.printer import format_expression

SECOND = 1_000_000

Value = Any
"""A string, a number, a boolean, or a list of texts: those of nodes."""


class NotAsked(Exception):
    """The conjunct names what is absent, or asks for the first of nothing."""


@dataclass(slots=True)
class Scope:
    """What variables stand for: `single` documents, `several` of elements (None in one that does
    not bind the variable), and `computed` values of FOLD. `current` are the documents of the
    element or the step that is asked about; `several` are then those before it. `length` is how
    long the match lasts, or has lasted so far, in microseconds. Of the variables in `windowed`
    functions range over the window of OVER, and bare ones are the match's own."""

    single: Mapping[str, Row]
    several: Mapping[str, Sequence[Row | None]] = field(default_factory=dict)
    computed: Mapping[str, Value] = field(default_factory=dict)
    current: Mapping[str, Row] | None = None
    length: int = 0
    windowed: frozenset[str] = frozenset()

    def bound(self, name: str) -> Row | None:
        if self.current is not None and name in self.current:
            return self.current[name]
        return self.single.get(name)


# -- what an expression reads ------------------------------------------------------------------


class Leaf(NamedTuple):
    """A part of an expression: `read` gives the texts that it stands for, or with `number` the one
    number. Raises NotAsked."""

    read: Callable[[Scope], Sequence[Any]]
    number: bool = False


Given = Sequence[Any]
"""For each leaf of an expression its value: one text or number, or a list of texts."""


def path_text(path: ast.Path) -> str:
    """What the values of a path are known by."""
    return format_expression(path)


def paths(expr: ast.Expr) -> list[ast.Path]:
    """The paths from variables in an expression."""
    found = [part for part in nested(expr) if isinstance(part, ast.Path)]
    return [path for path in found if path.variable is not None]


def names(expr: ast.Expr) -> frozenset[str]:
    """The variables that an expression names."""
    return frozenset([path.variable for path in paths(expr) if path.variable is not None])


def lasts(expr: ast.Expr) -> bool:
    """Whether an expression asks how long the match is."""
    return any(
        isinstance(part, ast.Call) and part.name == DURATION and not part.args
        for part in nested(expr)
    )


def _path(path: ast.Path) -> Leaf:
    name, text = path.variable, path_text(path)
    assert name is not None

    def texts(scope: Scope) -> Sequence[Any]:
        if scope.computed and name in scope.computed:
            return _listed(scope.computed[name])
        row = scope.single.get(name) if scope.current is None else scope.bound(name)
        if row is None:
            if scope.current is not None or name not in scope.several or name in scope.windowed:
                raise NotAsked
            return [
                t for each in scope.several[name] if each is not None for t in each.values[text]
            ]
        return row.values[text]

    return Leaf(texts)


def _listed(value: Value) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _duration(args: Sequence[ast.Expr]) -> Leaf:
    if not args:
        return Leaf(lambda scope: (scope.length / SECOND,), True)
    path = args[0]
    assert isinstance(path, ast.Path)
    name = path.variable
    assert name is not None

    def seconds(scope: Scope) -> Sequence[Any]:
        row = scope.bound(name)
        if row is None:
            raise NotAsked
        return ((row.end - row.start) / SECOND,)

    return Leaf(seconds, True)


_OF_NUMBERS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": total,
    "avg": lambda numbers: total(numbers) / len(numbers),
    "min": min,
    "max": max,
}


def _of_elements(call: ast.Call) -> Leaf:
    """A function over the elements of a group, of FOLD, or of OVER's window."""
    path, *others = call.args
    assert isinstance(path, ast.Path)
    name, text, function = path.variable, path_text(path), call.name
    assert name is not None
    instead = compile_value(others[0]) if others else None

    def elements(scope: Scope) -> Sequence[Row | None]:
        if name not in scope.several:
            raise NotAsked
        return scope.several[name]

    def node(scope: Scope) -> Sequence[Any]:
        row = first_or_last(function, elements(scope))
        if instead is not None:
            first = instead(scope)  # if that is absent, nothing is asked of any element
            return _listed(first) if row is None else row.values[text]
        if row is not None:
            return row.values[text]
        if scope.current is not None and function != "last":
            raise NotAsked
        return ()

    def number(scope: Scope) -> Sequence[Any]:
        found = elements(scope)
        if function == "count":
            return (float(_count(found, text if path.steps else None)),)
        numbers = _numbers(found, text)
        if not numbers and function != "sum":
            if scope.current is not None:
                raise NotAsked
            return (math.nan,)
        return (_OF_NUMBERS[function](numbers),)

    return Leaf(node) if ELEMENT_FUNCTIONS[function].result == "node" else Leaf(number, True)


def first_or_last(function: str, elements: Sequence[Row | None]) -> Row | None:
    """The first document of elements, or with another function's name the last one."""
    ordered = elements if function == "first" else reversed(elements)
    return next((row for row in ordered if row is not None), None)


def _count(elements: Sequence[Row | None], text: str | None) -> int:
    """How many documents there are, or of those with a value at a path."""
    if isinstance(elements, Column):
        return len(elements) if text is None else elements.count(text)
    rows = [row for row in elements if row is not None]
    return len(rows) if text is None else sum([bool(row.values[text]) for row in rows])


def _numbers(elements: Sequence[Row | None], text: str) -> list[float]:
    if isinstance(elements, Column):
        return elements.numbers(text)
    rows = [row for row in elements if row is not None]
    numbers = [to_number(each) for row in rows for each in row.values[text]]
    return [each for each in numbers if not math.isnan(each)]


# -- compiled ----------------------------------------------------------------------------------


class Compiler:
    """Collects the leaves of an expression; a compiled part is a function of their values."""

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []

    def leaf(self, leaf: Leaf) -> Callable[[Given], Value]:
        place = len(self.leaves)
        self.leaves.append(leaf)
        return lambda given: given[place]

    def value(self, expr: ast.Expr) -> Callable[[Given], Value]:
        match expr:
            case ast.String(value=text):
                return lambda given: text
            case ast.Number(value=number):
                return lambda given: number
            case ast.Path():
                return self.leaf(_path(expr))
            case ast.Call(name=name, args=args) if name == DURATION:
                return self.leaf(_duration(args))
            case ast.Call(name=name) if name in ELEMENT_FUNCTIONS:
                return self.leaf(_of_elements(expr))
            case ast.Call():
                return self._call(expr)
            case ast.Arithmetic(op=op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                return lambda given: arithmetic(
                    op, to_number(_one(a(given))), to_number(_one(b(given)))
                )
            case ast.Comparison():
                return self._comparison(expr)
            case ast.And(parts=parts):
                every = [self.value(part) for part in parts]
                return lambda given: all(bool(part(given)) for part in every)
            case ast.Or(parts=parts):
                some = [self.value(part) for part in parts]
                return lambda given: any(bool(part(given)) for part in some)
            case ast.Not(part=part):
                inner = self.value(part)
                return lambda given: not inner(given)
        raise TypeError(f"{type(expr).__name__} is no part of a predicate")

    def _call(self, call: ast.Call) -> Callable[[Given], Value]:
        function = FUNCTIONS[call.name]
        kinds = [function.parameter(place) for place in range(len(call.args))]
        args = [self.value(arg) for arg in call.args]
        return lambda given: function.call(
            *[convert(_one(arg(given)), kind) for arg, kind in zip(args, kinds, strict=True)]
        )

    def _comparison(self, expr: ast.Comparison) -> Callable[[Given], bool]:
        a, b, op = self.value(expr.left), self.value(expr.right), expr.op
        compare = COMPARE[op]
        relational = op not in ("=", "!=")

        def holds(given: Given) -> bool:
            x, y = a(given), b(given)
            number = relational or isinstance(x, float) or isinstance(y, float)
            plain: Callable[[Any], Any] = to_number if number else to_string
            if not (isinstance(x, list | tuple) or isinstance(y, list | tuple)):
                return compare(plain(x), plain(y))
            left, right = ([plain(each) for each in _listed(side)] for side in (x, y))
            return some_compare(op, left, right)

        return holds


def _one(value: Value) -> Value:
    """The first text of several, as functions take them."""
    if isinstance(value, list | tuple):
        return value[0] if value else ""
    return value


def compile_value(expr: ast.Expr) -> Callable[[Scope], Value]:
    """A function from a scope to the value of an expression. Raises NotAsked, TextTooLong."""
    compiler = Compiler()
    value = compiler.value(expr)
    leaves = compiler.leaves
    if isinstance(expr, ast.Path):
        return leaves[0].read

    def evaluate(scope: Scope) -> Value:
        return value([leaf.read(scope)[0] if leaf.number else leaf.read(scope) for leaf in leaves])

    return evaluate


def compile_each(expr: ast.Expr) -> Callable[[Scope], list[Value]]:
    """A function from a scope to the values of an expression, one for each choice of nodes: texts,
    numbers and booleans. What is absent or too long has none, and of too many only the first
    count."""
    compiler = Compiler()
    value = compiler.value(expr)
    leaves = compiler.leaves

    def each(scope: Scope) -> list[Value]:
        found: list[Value] = []
        try:
            for choice in choices(*[leaf.read(scope) for leaf in leaves]):
                found += _listed(value(choice))
        except (NotAsked, TextTooLong, TooMuch):
            pass
        return found

    return each


def compile_known(expr: ast.Expr) -> Callable[[Scope], Value]:
    """The same, where what is absent has no value, and what is too long neither."""
    evaluate = compile_value(expr)

    def known(scope: Scope) -> Value:
        try:
            return evaluate(scope)
        except (NotAsked, TextTooLong):
            return ()

    return known

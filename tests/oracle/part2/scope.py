"""Predicates of Part 2 over what a match has taken: values, and functions over several documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product

from tests.oracle.matches import Stored
from tests.oracle.part2.naming import ELEMENT, named
from tests.oracle.patterns import path_nodes
from tests.oracle.trees import Node
from tests.oracle.values import NodeSet, Value, to_number, truth, value
from xscl import ast

Bound = tuple[Stored, Node]
"""A variable's document and node."""
Bindings = Mapping[str, Bound]

SECOND = 1_000_000


class NotAsked(Exception):
    """The conjunct names what is absent, or asks for the first of nothing."""


@dataclass(frozen=True)
class Scope:
    """What variables stand for. `single`: a node; `several`: the nodes of the elements taken, None in
    those that do not bind it; `computed`: values of FOLD; all other variables are absent.

    `current` are the nodes of the element or of the step that is asked about; `several` are then
    those before it. `length` is the duration of the match, or so far, in microseconds. Functions range
    over those of `windowed` in the window of OVER, where bare ones are the match's own.
    """

    namespaces: Mapping[str, str]
    single: Bindings = field(default_factory=dict)
    several: Mapping[str, Sequence[Bound | None]] = field(default_factory=dict)
    computed: Mapping[str, Value] = field(default_factory=dict)
    current: Bindings | None = None
    length: int = 0
    windowed: frozenset[str] = frozenset()

    def holds(self, conjunct: ast.Expr) -> bool:
        """Whether a conjunct holds; one that is not asked does."""
        try:
            return self._truth(self.plain(conjunct))
        except NotAsked:
            return True

    def all(self, conjuncts: Sequence[ast.Expr]) -> bool:
        return all(map(self.holds, conjuncts))

    def value(self, expr: ast.Expr) -> Value:
        """The value of an expression; of absent variables it is that of no node."""
        plain = self.plain(expr)
        return value(plain, lambda path: self._texts(path))

    def known(self, expr: ast.Expr) -> Value:
        """The same; that of what is absent is no node."""
        try:
            return self.value(expr)
        except NotAsked:
            return NodeSet(())

    # -- existential truth, as in Part 1 -------------------------------------------------------

    def _truth(self, expr: ast.Expr) -> bool:
        match expr:
            case ast.And(parts=parts):
                return all(map(self._truth, parts))
            case ast.Or(parts=parts):
                return any(map(self._truth, parts))
            case ast.Not(part=part):
                return not self._truth(part)
        read = list(_paths(expr))
        for choice in product(*(self._texts(path) for path in read)):
            some = {id(path): [text] for path, text in zip(read, choice, strict=True)}
            if truth(expr, lambda path, some=some: some[id(path)]):  # type: ignore[misc]
                return True
        return False

    def _texts(self, path: ast.Path) -> list[str]:
        nodes = given(path)
        if nodes is not None:
            return [node.text for node in nodes]
        assert path.variable is not None
        bound = self.bound(path.variable)
        if bound is not None:
            return self._below(bound, path)
        if path.variable in self.windowed:
            return []
        every = self.several.get(path.variable, ())
        return [text for each in every if each is not None for text in self._below(each, path)]

    def bound(self, name: str) -> Bound | None:
        if self.current is not None and name in self.current:
            return self.current[name]
        return self.single.get(name)

    def _below(self, bound: Bound, path: ast.Path) -> list[str]:
        return [node.text for node in self._nodes(bound, path)]

    def _nodes(self, bound: Bound, path: ast.Path) -> list[Node]:
        document, node = bound
        if not path.steps:
            return [node]
        return path_nodes(document.tree, node, path.steps, self.namespaces)

    # -- functions over several documents ------------------------------------------------------

    def plain(self, expr: ast.Expr) -> ast.Expr:
        """The expression with values in the place of what Part 2 adds to the language."""
        match expr:
            case ast.Path(variable=str(name)):
                if name in self.computed:
                    return _literal(self.computed[name])
                if self.bound(name) is None and name not in self.several:
                    raise NotAsked
                if self.current is not None and self.bound(name) is None:
                    raise NotAsked  # an element of an OR that does not bind it
                if name in self.windowed and self.bound(name) is None:
                    raise NotAsked  # of a branch that was not taken
                return expr
            case ast.Call(name="duration", args=args):
                return ast.Number(self._duration(args) / SECOND, span=expr.span)
            case ast.Call(name=name, args=args) if name in ELEMENT:
                return self._of_several(expr)
            case ast.Call(args=args):
                return replace(expr, args=tuple(map(self.plain, args)))
            case ast.And(parts=parts) | ast.Or(parts=parts):
                return replace(expr, parts=tuple(map(self.plain, parts)))
            case ast.Not(part=part):
                return replace(expr, part=self.plain(part))
            case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
                return replace(expr, left=self.plain(left), right=self.plain(right))
        return expr

    def _duration(self, args: Sequence[ast.Expr]) -> int:
        if not args:
            return self.length
        path = args[0]
        assert isinstance(path, ast.Path)
        assert path.variable is not None
        bound = self.bound(path.variable)
        if bound is None:
            raise NotAsked
        return bound[0].end - bound[0].start

    def _of_several(self, call: ast.Call) -> ast.Expr:
        path = call.args[0]
        assert isinstance(path, ast.Path)
        assert path.variable is not None
        if path.variable not in self.several:
            raise NotAsked  # of a branch that is not taken
        taken = [each for each in self.several[path.variable] if each is not None]
        name = call.name
        if name == "count":
            counted = [b for b in taken if not path.steps or self._below(b, path)]
            return _literal(float(len(counted)))
        if name in ("prev", "first", "last"):
            first = self.plain(call.args[1]) if len(call.args) == 2 else None
            if taken:
                one = taken[0] if name == "first" else taken[-1]
                return _Given(self._nodes(one, path), call.span)
            if first is not None:
                return first
            self._unasked(name)
            return _Given((), call.span)
        numbers = [to_number(text) for each in taken for text in self._below(each, path)]
        numbers = [number for number in numbers if not math.isnan(number)]
        if name == "sum":
            return _literal(_total(numbers))
        if not numbers:
            self._unasked(name)
            return _literal(math.nan)
        if name == "avg":
            return _literal(_total(numbers) / len(numbers))
        return _literal(max(numbers) if name == "max" else min(numbers))

    def _unasked(self, name: str) -> None:
        """An element conjunct with prev, first, avg, min or max of nothing is not asked."""
        if self.current is not None and name != "last":
            raise NotAsked


class _Given(ast.Path):
    """A path whose nodes are known."""

    __slots__ = ("nodes",)
    nodes: tuple[Node, ...]

    def __init__(self, nodes: Sequence[Node], span: object) -> None:
        given = {"variable": None, "steps": (), "span": span, "nodes": tuple(nodes)}
        for name, one in given.items():
            object.__setattr__(self, name, one)


def given(path: ast.Path) -> list[Node] | None:
    """The nodes of a path that are known already."""
    return list(path.nodes) if isinstance(path, _Given) else None


def _text(text: str) -> Node:
    return Node(-2, "text", None, text)


def _literal(of: Value) -> ast.Expr:
    if isinstance(of, NodeSet):
        return _Given([_text(text) for text in of.texts], None)
    if isinstance(of, str):
        return ast.String(of, span=_NOWHERE.span)
    return ast.Number(float(of), span=_NOWHERE.span)


_NOWHERE = ast.Number(0.0, span=None)  # type: ignore[arg-type]


def _paths(expr: ast.Expr) -> list[ast.Path]:
    match expr:
        case ast.Path():
            return [expr]
        case ast.Call(args=parts):
            return [path for part in parts for path in _paths(part)]
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            return [*_paths(left), *_paths(right)]
    return []


def answers(conjunct: ast.Expr, known: set[str]) -> bool:
    """Whether all that it names is known."""
    return named(conjunct) <= known


def _total(numbers: list[float]) -> float:
    """The exact sum of numbers, as a number."""
    infinite = [number for number in numbers if math.isinf(number)]
    if infinite:
        return sum(infinite)
    exact = sum(map(Fraction, numbers), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf

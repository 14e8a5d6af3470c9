"""Filters with constants, indexed: which of very many constants does a value satisfy?

Most subscriptions narrow a block by a constant: this author, that keyword, a price above. Trying
each subscription's filter on each document would cost as much as there are subscriptions. An
`Atom` is the indexable part of a filter: a comparison of a *subject* (a value computed at a node)
with a constant. A `ConstantIndex` holds the constants that all filters compare one subject with,
and answers for a value with a look-up each for equality and for every length of prefix and suffix,
a bisection for ranges, and a pass or a few of Aho-Corasick automata for `contains`. A constant comes
and goes at about the same cost however many there are.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xscl import ast
from xscl.functions.table import FUNCTIONS, to_number
from xscl.stage1.document import string_value
from xscl.stage1.filters import Node, as_text, compile_value, element_tag, text_of
from xscl.stage1.runs import Bounds, Keywords

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SEARCHES = ("contains", "starts-with", "ends-with")
_PREFERENCE = ("=", "contains", "starts-with", "ends-with", ">", ">=", "<", "<=")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared with constants: an expression over a node, of all nodes or of the first."""

    expr: ast.Expr
    first: bool
    numeric: bool


@dataclass(frozen=True, slots=True)
class Atom:
    """`op` is a comparison, or `contains`, `starts-with`, `ends-with`; the constant is on the right."""

    subject: Subject
    op: str
    constant: str | float

    def selectivity(self) -> tuple[int, int]:
        """Smaller is better as the one filter that decides whether the others are looked at."""
        length = len(self.constant) if isinstance(self.constant, str) else 0
        return (_PREFERENCE.index(self.op), -length)


def atom_of(part: ast.Expr) -> Atom | None:
    """The atom that a filter is, or None where it is none that an index serves."""
    match part:
        case ast.Comparison(op=op, left=left, right=right) if op in _MIRRORED:
            if isinstance(left, ast.String | ast.Number):
                left, right, op = right, left, _MIRRORED[op]  # type: ignore[assignment]
            if not isinstance(right, ast.String | ast.Number) or not _is_subject(left):
                return None
            numeric = op != "=" or isinstance(right, ast.Number) or _gives_number(left)
            constant = to_number(right.value) if numeric else right.value
            if constant != constant:
                return None
            return Atom(Subject(left, not isinstance(left, ast.Path), numeric), op, constant)
        case ast.Call(name=name, args=(subject, ast.String(value=text))) if name in _SEARCHES:
            if not text or not _is_subject(subject):
                return None
            return Atom(Subject(subject, True, False), name, text)
        case ast.Path(variable=None, steps=(*above, last)) if len(last.filters) == 1:
            # ./author[. = 'X'] is an author that equals X; ./a[contains(., 'X')] any that contains.
            inner = atom_of(last.filters[0])
            if inner is None or not _only_here(inner.subject.expr):
                return None
            path = ast.Path(None, (*above, replace(last, filters=())), span=part.span)
            if isinstance(inner.subject.expr, ast.Path):
                return Atom(Subject(path, False, inner.subject.numeric), inner.op, inner.constant)
    return None


def _is_subject(expr: ast.Expr) -> bool:
    """A path, or functions of one path and constants."""
    if isinstance(expr, ast.Call):
        if FUNCTIONS[expr.name].result == "boolean":
            return False
        return all(_is_subject(a) or isinstance(a, ast.String | ast.Number) for a in expr.args)
    return isinstance(expr, ast.Path)


def _only_here(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Path) and not expr.steps


def _gives_number(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Call) and FUNCTIONS[expr.name].result == "number"


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """An atom that is tried by itself; `index` computes its subject."""

    index: ConstantIndex
    op: str
    constant: str | float


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": operator.contains,
    "starts-with": str.startswith,
    "ends-with": str.endswith,
}


def holds(check: Check, values: Sequence[str | float]) -> bool:
    """Whether an atom holds for what its subject is at a node."""
    test, constant = _HOLDS[check.op], check.constant
    return any(test(value, constant) for value in values)


def reader(subject: Subject) -> Callable[[Node], Sequence[str | float]]:
    """A function that says what a subject is at a node: strings, or numbers where it is numeric."""
    first, numeric = subject.first, subject.numeric
    compute = compile_value(subject.expr)
    match subject.expr:
        case ast.Path(steps=(ast.Step(axis="/", test=test, filters=()),)) if test.kind == "element":
            # Most subjects are a child: a shorter way to the same.
            tag = element_tag(test)

            def child(node: Node) -> Sequence[str | float]:
                for found in () if isinstance(node, str) else node.iterchildren(tag):
                    text = string_value(found) if len(found) else found.text or ""
                    return [to_number(text)] if numeric else [text]
                return [to_number("")] if numeric else [""]

            def children(node: Node) -> Sequence[str | float]:
                every = () if isinstance(node, str) else node.iterchildren(tag)
                texts = [string_value(found) for found in every]
                return [*map(to_number, texts)] if numeric else texts

            return child if first else children

    def read(node: Node) -> Sequence[str | float]:
        value = compute(node)
        if isinstance(value, float) and numeric:
            return [value]
        if isinstance(value, list) and not first:
            texts = [*map(text_of, value)]
        else:
            texts = [as_text(value)]
        return [*map(to_number, texts)] if numeric else texts

    return read


class ConstantIndex:
    """The constants that filters compare one subject with, each with a number of its own."""

    __slots__ = (
        *("__weakref__", "_bounds", "_keywords", "_lengths", "_next", "_numbers", "_uses"),
        *("subject", "values"),
    )

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.values = reader(subject)
        self._next = 0
        self._numbers: dict[str, dict[str | float, int]] = {}
        """By operator and constant."""
        self._uses: dict[int, int] = {}
        """By number, the uses of a constant, for those used more than once."""
        self._lengths: dict[str, Counter[int]] = {}
        self._bounds: dict[str, Bounds] = {}
        self._keywords: Keywords | None = None

    def add(self, op: str, constant: str | float) -> int:
        """The number of a constant under an operator."""
        numbers = self._numbers.setdefault(op, {})
        number = numbers.get(constant)
        if number is not None:
            self._uses[number] = self._uses.get(number, 1) + 1
            return number
        number = numbers[constant] = self._next
        self._next += 1
        if op == "contains":
            if self._keywords is None:
                self._keywords = Keywords(numbers)
            self._keywords.add(str(constant))
        elif op in _SEARCHES:
            self._lengths.setdefault(op, Counter())[len(str(constant))] += 1
        elif op != "=":
            self._bounds.setdefault(op, Bounds()).add(float(constant), number)
        return number

    def remove(self, op: str, constant: str | float) -> int:
        """Take back one `add`; the number that it gave."""
        number = self._numbers[op][constant]
        uses = self._uses.pop(number, 1) - 1
        if uses > 1:
            self._uses[number] = uses
        if uses:
            return number
        del self._numbers[op][constant]
        if self._keywords is not None and op == "contains":
            self._keywords.remove()
        elif op in _SEARCHES:
            self._lengths[op] -= Counter([len(str(constant))])
        elif op != "=":
            self._bounds[op].remove(float(constant), number)
        return number

    def satisfied(self, values: Sequence[str | float]) -> set[int]:
        """The numbers of the constants that some of these values satisfy."""
        found: set[int] = set()
        equal = self._numbers.get("=")
        for value in values:
            if equal is not None and value in equal:
                found.add(equal[value])
            if isinstance(value, float):
                for op, bounds in self._bounds.items():
                    bounds.find(op, value, found)
                continue
            for op, lengths in self._lengths.items():
                affixes = self._numbers[op]
                for length in lengths:
                    part = value[:length] if op == "starts-with" else value[-length:]
                    number = affixes.get(part)
                    if number is not None:
                        found.add(number)
            if self._keywords is not None:
                self._keywords.find(value, found)
        return found

"""Filters with constants, indexed: which of very many constants does a value satisfy?

Most subscriptions narrow a block by a constant: this author, that keyword, a price above. Trying
each subscription's filter on each document would cost as much as there are subscriptions. An
`Atom` is the indexable part of a filter: a comparison of a *subject* (a value computed at a node)
with a constant. A `ConstantIndex` holds the constants that all filters compare one subject with,
and answers for a value with a look-up each for equality and for every length of prefix and suffix,
a bisection for ranges, and one pass of an Aho-Corasick automaton for `contains`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import ahocorasick_rs

from xscl import ast
from xscl.filters import Node, Value, as_text, compile_value, text_of
from xscl.functions import FUNCTIONS, to_number

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


class ConstantIndex:
    """The constants that filters compare one subject with, each with a number of its own."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._compute = compile_value(subject.expr)
        self._numbers: dict[tuple[str, str | float], int] = {}
        self._uses: dict[int, int] = {}
        self._next = 0
        self._equal: dict[str | float, int] = {}
        self._affixes: dict[str, dict[str, int]] = {"starts-with": {}, "ends-with": {}}
        self._lengths: dict[str, Counter[int]] = {op: Counter() for op in self._affixes}
        self._ranges: dict[str, list[tuple[float, int]]] = {op: [] for op in ("<", "<=", ">", ">=")}
        self._words: dict[str, int] = {}
        self._search: tuple[ahocorasick_rs.AhoCorasick, list[int]] | None = None

    def add(self, op: str, constant: str | float) -> int:
        """The number of a constant under an operator."""
        number = self._numbers.get((op, constant))
        if number is not None:
            self._uses[number] += 1
            return number
        number = self._numbers[op, constant] = self._next
        self._next += 1
        self._uses[number] = 1
        if op == "=":
            self._equal[constant] = number
        elif op == "contains":
            self._words[str(constant)] = number
            self._search = None
        elif op in self._affixes:
            self._affixes[op][str(constant)] = number
            self._lengths[op][len(str(constant))] += 1
        else:
            insort(self._ranges[op], (float(constant), number))
        return number

    def remove(self, op: str, constant: str | float) -> None:
        number = self._numbers[op, constant]
        self._uses[number] -= 1
        if self._uses[number]:
            return
        del self._uses[number], self._numbers[op, constant]
        if op == "=":
            del self._equal[constant]
        elif op == "contains":
            del self._words[str(constant)]
            self._search = None
        elif op in self._affixes:
            del self._affixes[op][str(constant)]
            self._lengths[op] -= Counter([len(str(constant))])
        else:
            self._ranges[op].remove((float(constant), number))

    def __len__(self) -> int:
        return len(self._numbers)

    def satisfied(self, node: Node) -> set[int]:
        """The numbers of the constants that the subject's value at a node satisfies."""
        found: set[int] = set()
        for value in self._values(self._compute(node)):
            number = self._equal.get(value)
            if number is not None:
                found.add(number)
            if isinstance(value, float):
                self._in_range(value, found)
            else:
                self._in_text(value, found)
        return found

    def _values(self, value: Value) -> Sequence[str | float]:
        if isinstance(value, float) and self.subject.numeric:
            return [value]
        if isinstance(value, list) and not self.subject.first:
            texts = [text_of(node) for node in value]
        else:
            texts = [as_text(value)]
        return [to_number(text) for text in texts] if self.subject.numeric else texts

    def _in_range(self, value: float, found: set[int]) -> None:
        if value != value:
            return
        below, above = (value, -1), (value, self._next)
        ranges = self._ranges
        found.update(n for _, n in ranges[">"][: bisect_left(ranges[">"], below)])
        found.update(n for _, n in ranges[">="][: bisect_right(ranges[">="], above)])
        found.update(n for _, n in ranges["<"][bisect_right(ranges["<"], above) :])
        found.update(n for _, n in ranges["<="][bisect_left(ranges["<="], below) :])

    def _in_text(self, value: str, found: set[int]) -> None:
        for op, affixes in self._affixes.items():
            for length in self._lengths[op]:
                part = value[:length] if op == "starts-with" else value[-length:]
                number = affixes.get(part)
                if number is not None:
                    found.add(number)
        if self._words:
            if self._search is None:
                automaton = ahocorasick_rs.AhoCorasick(list(self._words))
                self._search = (automaton, list(self._words.values()))
            automaton, numbers = self._search
            for index, _, _ in automaton.find_matches_as_indexes(value, overlapping=True):
                found.add(numbers[index])

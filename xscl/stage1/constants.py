"""Filters with constants, indexed: finds which of very many constants a value satisfies.

Most subscriptions narrow a block by a constant: an author, a keyword, a minimum price. Evaluating
the filter of each subscription on each document would cost time linear in the subscriptions. An
`Atom` is the indexable part of a filter: a comparison of a *subject* (a value computed at a node)
with a constant. A `ConstantIndex` holds all constants with which filters compare one subject. It
finds those that a value satisfies by one look-up for equality and for each length of a prefix or
suffix, by bisection for ranges, and by a few passes of Aho-Corasick automata for `contains`. The
cost of adding and removing a constant hardly depends on their number.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from xscl.compact import Uses
from xscl.functions.table import FUNCTIONS, to_number
from xscl.normal import ir
from xscl.normal.bind import Literals
from xscl.stage1.document import string_value
from xscl.stage1.filters import Value, as_text, bounded, compile_value, element_tag, text_of
from xscl.stage1.runs import Bounds, Keywords
from xscl.stage1.states import name_key
from xscl.stage1.tree import Node


class Search(Enum):
    """Functions that search a text for a constant; the value of a member is the function's name."""

    CONTAINS = "contains"
    STARTS_WITH = "starts-with"
    ENDS_WITH = "ends-with"

    __hash__ = object.__hash__  # members are single


_Comparator = ir.Comparator
_MIRRORED = {
    _Comparator.EQUAL: _Comparator.EQUAL,
    _Comparator.LESS: _Comparator.GREATER,
    _Comparator.AT_MOST: _Comparator.AT_LEAST,
    _Comparator.GREATER: _Comparator.LESS,
    _Comparator.AT_LEAST: _Comparator.AT_MOST,
}
_SEARCHES = {search.value: search for search in Search}

Test = ir.Comparator | Search
"""How an indexed value is tested against a constant."""

_PREFERENCE: tuple[Test, ...] = (
    *(_Comparator.EQUAL, Search.CONTAINS, Search.STARTS_WITH, Search.ENDS_WITH),
    *(_Comparator.GREATER, _Comparator.AT_LEAST, _Comparator.LESS, _Comparator.AT_MOST),
)


def selectivity(test: Test, constant: str | float) -> tuple[int, int]:
    """A rank: the atom of the smallest rank decides whether the other filters are evaluated."""
    return (_PREFERENCE.index(test), -len(constant) if isinstance(constant, str) else 0)


@dataclass(frozen=True, slots=True)
class Subject:
    """The expression over a node that is compared with constants; `first`: its first node only."""

    expr: ir.Expr
    first: bool
    numeric: bool


@dataclass(frozen=True, slots=True)
class Atom:
    """A subject on the left, a constant on the right."""

    subject: Subject
    test: Test
    constant: str | float

    def selectivity(self) -> tuple[int, int]:
        return selectivity(self.test, self.constant)


def atom_of(part: ir.Expr) -> Atom | None:
    """The filter as an atom, None if no index serves it."""
    if ir.looks_around(part):
        return None
    match part:
        case ir.Comparison(comparator=test, left=left, right=right) if test in _MIRRORED:
            if isinstance(left, ir.String | ir.Number):
                left, right, test = right, left, _MIRRORED[test]
            if not isinstance(right, ir.String | ir.Number) or not _is_subject(left):
                return None
            numeric = test.relational or isinstance(right, ir.Number) or _gives_number(left)
            constant = to_number(right.value) if numeric else right.value
            if constant != constant:
                return None
            first = not isinstance(left, ir.Path) and not ir.is_several(left)
            return Atom(Subject(left, first, numeric), test, constant)
        case ir.Call(name=name, args=(subject, ir.String(value=text))) if name in _SEARCHES:
            if not text or not _is_subject(subject):
                return None
            return Atom(Subject(subject, True, False), _SEARCHES[name], text)
        case ir.Path(steps=(*above, last)) if len(last.filters) == 1:
            # ./author[. = 'X'] is ./author = 'X', and likewise for contains().
            inner = atom_of(last.filters[0])
            if inner is None or not _only_here(inner.subject.expr):
                return None
            path = ir.Path((*above, replace(last, filters=())))
            if isinstance(inner.subject.expr, ir.Path):
                return Atom(Subject(path, False, inner.subject.numeric), inner.test, inner.constant)
    return None


def is_unvarying(expr: ir.Expr) -> bool:
    """Whether a subject has no constants of its own: a path without filters, functions of it."""
    match expr:
        case ir.Path(steps=steps):
            return not any(step.filters for step in steps)
        case ir.Call(args=args):
            return all(map(is_unvarying, args))
    return False


def constant_of(part: ir.Expr, numeric: bool) -> str | float | None:
    """The constant of a filter that differs from an atom in its constant only; None if that makes
    it none. `numeric` is of the atom's subject."""
    match part:
        case ir.Comparison(left=ir.String() | ir.Number() as found) | ir.Comparison(right=found):
            assert isinstance(found, ir.String | ir.Number)
            constant = to_number(found.value) if numeric else found.value
            return constant if constant == constant else None
        case ir.Call(args=(_, ir.String(value=text))):
            return text or None
        case ir.Path(steps=(*_, last)):
            return constant_of(last.filters[0], numeric)
    return None


def constants_of(
    part: ir.Expr, numeric: bool, literals: Sequence[Literals]
) -> Sequence[str | float | None]:
    """The constants of very many filters that differ in their literals only, with a parameter for
    it, as `constant_of` has them."""
    match part:
        case ir.Comparison(left=ir.Parameter() as found) | ir.Comparison(right=found):
            if not isinstance(found, ir.Parameter):
                return [constant_of(part, numeric)] * len(literals)
            index = found.index
            if not numeric and not found.numeric:
                return [own[index][1:-1] for own in literals]
            values = [own[index] if found.numeric else own[index][1:-1] for own in literals]
            numbers = [to_number(float(each) if found.numeric else each) for each in values]
            return [each if each == each else None for each in numbers]
        case ir.Call(args=(_, ir.Parameter(index=index))):
            return [own[index][1:-1] or None for own in literals]
        case ir.Path(steps=(*_, last)):
            return constants_of(last.filters[0], numeric, literals)
    return [constant_of(part, numeric)] * len(literals)


def _is_subject(expr: ir.Expr) -> bool:
    """A path, or functions of one path and constants."""
    if isinstance(expr, ir.Call):
        if FUNCTIONS[expr.name].result == "boolean":
            return False
        return all(_is_subject(a) or isinstance(a, ir.String | ir.Number) for a in expr.args)
    return isinstance(expr, ir.Path)


def _only_here(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Path) and not expr.steps


def _gives_number(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Call) and FUNCTIONS[expr.name].result == "number"


@dataclass(slots=True, eq=False)
class Check:
    """An atom that is evaluated on its own; `index` computes its subject. Not frozen, which would
    take three times as long to make."""

    index: ConstantIndex
    test: Test
    constant: str | float

    def __reduce__(self) -> tuple[object, ...]:
        return Check, (self.index, self.test, self.constant)


_NONE: frozenset[int] = frozenset()
_NO_TEXT = [""]

HOLDS: dict[Test, Callable[[Any, Any], bool]] = {
    _Comparator.EQUAL: operator.eq,
    _Comparator.LESS: operator.lt,
    _Comparator.AT_MOST: operator.le,
    _Comparator.GREATER: operator.gt,
    _Comparator.AT_LEAST: operator.ge,
    Search.CONTAINS: operator.contains,
    Search.STARTS_WITH: str.startswith,
    Search.ENDS_WITH: str.endswith,
}
"""Whether a value and a constant satisfy a test."""


def reader(subject: Subject) -> Callable[[Node], Sequence[str | float]]:
    """A function from a node to the values of a subject: strings, or numbers if it is numeric."""
    first, numeric = subject.first, subject.numeric
    compute: Callable[[Node], Value] = bounded(subject.expr, compile_value(subject.expr), [])
    match subject.expr:
        case ir.Path(steps=(ir.Step(axis="/", test=test, filters=()),)) if test.kind == "element":
            # Most subjects are a child: a faster function for these.
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


def child_of(subject: Subject) -> str | None:
    """The key of the name test (`label_keys`) of a subject that is a child's string value."""
    match subject.expr:
        case ir.Path(steps=(ir.Step(axis="/", test=test, filters=()),)) if test.kind == "element":
            return name_key(test) if test.name else None
    return None


class ConstantIndex:
    """The constants with which filters compare one subject, each with a number of its own. `child`
    is the key of the name test of a subject that is a child's string value, None of others."""

    __slots__ = (
        *("__weakref__", "_bounds", "_keywords", "_lengths", "_next", "_numbers", "_uses"),
        *("child", "subject", "values"),
    )

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.values = reader(subject)
        self.child = child_of(subject)
        self._next = 0
        self._numbers: dict[Test, dict[str | float, int]] = {}
        """By test and constant."""
        self._uses: Uses[int] = Uses()
        """By the number of a constant."""
        self._lengths: dict[Test, Counter[int]] = {}
        self._bounds: dict[Test, Bounds] = {}
        self._keywords: Keywords | None = None

    def __getstate__(self) -> dict[str, object]:
        skipped = ("__weakref__", "child", "values")
        return {name: getattr(self, name) for name in self.__slots__ if name not in skipped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.values = reader(self.subject)
        self.child = child_of(self.subject)

    def add(self, test: Test, constant: str | float) -> int:
        """Add a constant of a test, if it is new; returns its number."""
        numbers = self._numbers.setdefault(test, {})
        number = numbers.get(constant)
        if number is not None:
            self._uses.add(number)
            return number
        number = numbers[constant] = self._next
        self._next += 1
        if test is Search.CONTAINS:
            if self._keywords is None:
                self._keywords = Keywords(numbers)
            self._keywords.add(str(constant))
        elif isinstance(test, Search):
            self._lengths.setdefault(test, Counter())[len(str(constant))] += 1
        elif test is not _Comparator.EQUAL:
            bounds = self._bounds.get(test)
            if bounds is None:
                bounds = self._bounds[test] = Bounds(test)
            bounds.add(float(constant), number)
        return number

    def add_all(self, test: Test, constants: Sequence[str | float]) -> Sequence[int]:
        """Add constants of a test, as `add` does; returns their numbers."""
        numbers, different = self._numbers.setdefault(test, {}), {*constants}
        if (
            test is not _Comparator.EQUAL
            or len(different) < len(constants)
            or not numbers.keys().isdisjoint(different)
        ):
            return [self.add(test, constant) for constant in constants]
        first = self._next
        self._next += len(constants)
        numbers.update(zip(constants, range(first, self._next), strict=True))
        return range(first, self._next)

    def numbers(self, tests: Sequence[Test], constants: Sequence[str | float]) -> list[int]:
        """The numbers of constants that were added, each of a test."""
        known = self._numbers
        return [known[test][constant] for test, constant in zip(tests, constants, strict=True)]

    def remove(self, test: Test, constant: str | float) -> int:
        """Undo one `add`; returns the number of the constant."""
        number = self._numbers[test][constant]
        if not self._uses.remove(number):
            return number
        del self._numbers[test][constant]
        if self._keywords is not None and test is Search.CONTAINS:
            self._keywords.remove()
        elif isinstance(test, Search):
            self._lengths[test] -= Counter([len(str(constant))])
        elif test is not _Comparator.EQUAL:
            self._bounds[test].remove(float(constant), number)
        return number

    def satisfied_by(self, texts: Sequence[str]) -> AbstractSet[int]:
        """The numbers of the constants that a node satisfies of which the children that are the
        subject have these string values."""
        subject = self.subject
        if subject.first:
            texts = texts[:1] or _NO_TEXT
        return self.satisfied([*map(to_number, texts)] if subject.numeric else texts)

    def satisfied(self, values: Sequence[str | float]) -> AbstractSet[int]:
        """The numbers of the constants that some of these values satisfy."""
        numbers = self._numbers
        equal = numbers.get(_Comparator.EQUAL)
        if len(values) == 1 and equal is not None and len(numbers) == 1:
            number = equal.get(values[0])
            return _NONE if number is None else {number}
        found: set[int] = set()
        for value in values:
            if equal is not None and value in equal:
                found.add(equal[value])
            if isinstance(value, float):
                for bounds in self._bounds.values():
                    bounds.find(value, found)
                continue
            for test, lengths in self._lengths.items():
                affixes = self._numbers[test]
                for length in lengths:
                    part = value[:length] if test is Search.STARTS_WITH else value[-length:]
                    number = affixes.get(part)
                    if number is not None:
                        found.add(number)
            if self._keywords is not None:
                self._keywords.find(value, found)
        return found


Asked = tuple[ConstantIndex, int]
"""An index of constants, and the number of the node that has its subject."""

Satisfied = dict[Asked, AbstractSet[int]]
"""The constants that nodes of a document satisfy, as far as they were asked for."""


def satisfied_by(known: Satisfied, asked: Asked, node: Node) -> AbstractSet[int]:
    """The constants of an index that a node satisfies."""
    found = known.get(asked)
    if found is None:
        index, _ = asked
        found = known[asked] = index.satisfied(index.values(node))
    return found

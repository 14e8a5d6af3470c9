"""Holes: a query with placeholders where its constants and windows stand.

Goes in: canonical text, or a query. Comes out: the text cut at its literals, and a query that is
equal but for placeholders in their places. What later passes make of such a query is *opened*: it
becomes a function that makes the same of other literals.

A literal is a string, a number, or a window with its unit, as the printer writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from xscl import ast
from xscl.normal.treepattern import NOWHERE, Definition, canonical_filters
from xscl.syntax.durations import microseconds
from xscl.syntax.printer import format_query

Literals = tuple[str, ...]
"""The literals of a query as written, in the order of its canonical text."""

Make = Callable[[Literals], Any]

# What stands before a literal keeps the primes of variables and the digits of names apart.
_LITERAL = re.compile(
    r"""(?<=[ (\[{])('[^']*'|"[^"]*"|-?[0-9]+(?:\.[0-9]+)?"""
    r"(?: (?:ms|s|min|h|days?|weeks?)(?=[ }]|$))?)"
)
_MARK = "\ue000"
_NUMBER = 8_765_432_100_000_000
_SECONDS = 8_765_432_101


class Unfit(Exception):
    """What a query means depends on its literals in more places than can be opened."""


def cut(text: str) -> tuple[str, Literals]:
    """Canonical text as what is fixed, and its literals. Two texts with equal fixed parts differ in
    the values of their literals only."""
    pieces = _LITERAL.split(text)
    literals = tuple(pieces[1::2])
    kinds = "".join([_kind(literal) for literal in literals])
    return f"{kinds}\0" + "\0".join(pieces[::2]), literals


def _kind(literal: str) -> str:
    if literal[0] in "'\"":
        return "s"
    return "w" if literal[-1].isalpha() else "n"


@lru_cache(maxsize=4_096)
def window_of(literal: str) -> int:
    """The microseconds of a window with its unit."""
    digits, unit = literal.split(" ")
    value = microseconds(digits, unit)
    assert value is not None  # it was printed
    return value


@dataclass(frozen=True, slots=True)
class Holes:
    """Placeholders, by what stands in the query; values are indices of `Literals`."""

    strings: dict[str, int] = field(default_factory=dict)
    numbers: dict[float, int] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)

    def make(self, node: Any, ordered: bool = True) -> Make | None:
        """What makes a part of a syntax tree from literals, None where it has no holes.

        Raises `Unfit` where filters would stand in another order for other literals; not with
        `ordered`, for parts in which they stand as they were written.
        """
        if isinstance(node, ast.String):
            return self._string(node)
        if isinstance(node, ast.Number):
            return self._number(node)
        if isinstance(node, tuple):
            makes = [self.make(part, ordered) for part in node]
            return _sequence(node, makes) if any(makes) else None
        if not is_dataclass(node):
            return None
        parts = [getattr(node, f.name) for f in fields(node) if not f.kw_only]
        makes = [self.make(part, ordered) for part in parts]
        if not any(makes):
            return None
        if isinstance(node, ast.Step) and not ordered and _undecided(node.filters):
            raise Unfit
        made = _sequence(parts, makes)
        kind: Any = type(node)
        return lambda literals: kind(*made(literals), span=NOWHERE)

    def _string(self, node: ast.String) -> Make | None:
        hole = self.strings.get(node.value)
        if hole is None:
            return None
        return lambda literals: ast.String(literals[hole][1:-1], span=NOWHERE)

    def _number(self, node: ast.Number) -> Make | None:
        hole = self.numbers.get(node.value)
        if hole is None:
            return None
        return lambda literals: ast.Number(float(literals[hole]), span=NOWHERE)

    def step(self, step: ast.Step) -> Make | None:
        """What makes a step of a definition, whose own filters are in canonical order."""
        makes = [self.make(part, ordered=False) for part in step.filters]
        if not any(makes):
            return None
        made, sort = _sequence(step.filters, makes), _undecided(step.filters)

        def build(literals: Literals) -> ast.Step:
            filters = made(literals)
            if sort:
                filters = canonical_filters(filters)
            return ast.Step(step.axis, step.test, step.variable, filters, span=NOWHERE)

        return build

    def settled(self, definition: Definition) -> bool:
        """Whether the filters of a definition stand in one order whatever the literals are."""
        return not any(
            _undecided(step.filters) and self.step(step) is not None for step in definition.steps
        )

    def text(self, text: str) -> tuple[str, tuple[int, ...]]:
        """A text with holes as a format of `%`, and the holes in their order."""
        pieces = _LITERAL.split(text)
        try:
            order = tuple(self.texts[piece] for piece in pieces[1::2])
        except KeyError:
            raise Unfit from None
        if self.texts and any(has_hole(piece) for piece in pieces[::2]):
            raise Unfit
        return "%s".join(piece.replace("%", "%%") for piece in pieces[::2]), order


def has_hole(text: str) -> bool:
    """Whether a text may hold a placeholder."""
    return _MARK in text or "8765432" in text


def _sequence(parts: Sequence[Any], makes: Sequence[Make | None]) -> Make:
    pairs = tuple(zip(parts, makes, strict=True))
    return lambda literals: tuple(
        [part if make is None else make(literals) for part, make in pairs]
    )


_HOLE = re.compile(r"(?:String|Number)\(value=")


def _undecided(filters: Sequence[ast.Expr]) -> bool:
    """Whether a literal decides in which order filters stand, or whether they are two: their
    canonical order is that of their representation, in which these two agree up to a literal."""
    fixed = [_HOLE.split(repr(part), maxsplit=1) for part in filters]
    for (one, *hole), (two, *other) in pairwise(fixed):
        if (hole and two.startswith(one)) or (other and one.startswith(two)):
            return True
    return False


def punch(query: ast.Query, fixed: str) -> tuple[ast.Query, Holes]:
    """The query with placeholders for literals; `fixed` is what `cut` says of its text.

    Raises `Unfit` where the literals of the query are not those of the text.
    """
    punched: list[Any] = []

    def change(node: Any) -> Any:
        number = len(punched)
        if isinstance(node, ast.String):
            punched.append(f"{_MARK}{number}{_MARK}")
            return ast.String(punched[-1], span=NOWHERE)
        if isinstance(node, ast.Number):
            punched.append(float(_NUMBER + number))
            return ast.Number(punched[-1], span=NOWHERE)
        # A number of seconds that is none of minutes, so that it is written as one of seconds.
        punched.append((_SECONDS + 60 * number) * 1_000_000)
        return ast.Duration(punched[-1], span=NOWHERE)

    open_query = _replaced(query, change)
    written, literals = cut(format_query(replace(open_query, publish=None)))
    if written != fixed or len(literals) != len(punched):
        raise Unfit
    found = Holes()
    known = {_written(value): value for value in punched}
    for index, literal in enumerate(literals):
        value = known.pop(literal, None)
        if value is None:
            raise Unfit
        found.texts[literal] = index
        if isinstance(value, str):
            found.strings[value] = index
        elif isinstance(value, float):
            found.numbers[value] = index
        else:
            found.windows[value] = index
    return open_query, found


def _written(value: str | float | int) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return str(int(value)) if isinstance(value, float) else f"{value // 1_000_000} s"


def _replaced(node: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(node, ast.String | ast.Number):
        return change(node)
    if isinstance(node, ast.Duration):
        return node if node.microseconds is None else change(node)
    if isinstance(node, ast.Nested):
        raise Unfit
    if isinstance(node, tuple):
        return tuple(_replaced(part, change) for part in node)
    if not is_dataclass(node):
        return node
    parts = {
        f.name: _replaced(getattr(node, f.name), change) for f in fields(node) if not f.kw_only
    }
    return replace(node, **parts)  # type: ignore[type-var]


def placeless(node: Any) -> Any:
    """A part of a syntax tree without places, which would keep the whole text in memory."""
    if isinstance(node, tuple):
        return tuple(placeless(part) for part in node)
    if not is_dataclass(node):
        return node
    parts = [placeless(getattr(node, f.name)) for f in fields(node) if not f.kw_only]
    kind: Any = type(node)
    return kind(*parts) if isinstance(node, ast.Test) else kind(*parts, span=NOWHERE)

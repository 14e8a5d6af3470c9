"""Which literals of a statement are free: any other of that kind in their place would do as well.

The tree and the outcome of all checks are the same then, but for constants with which one node is
compared and that may exclude each other: those are looked at, each time (`may_hold`).

Why this is exact: a literal is free only if it is a token, as the tree shows. The text before it is
the same, apart from other free literals. So the tokens before it are the same, and it begins where
a token begins. No token depends on more of the text behind it than one character, which here is a
quotation mark or a digit. A property test compares with reading every statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from xscl import ast
from xscl.syntax.bounds import Value, excluding, is_position, of_filters, of_one_node
from xscl.syntax.durations import LONGEST, UNITS, format_microseconds

_WHOLE = re.compile(r"[1-9][0-9]{0,11}")
_WINDOW = re.compile(r"([1-9][0-9]{0,11})[ \t\r\n]+([A-Za-z]+)")
_Literal = ast.String | ast.Number | ast.Duration
_FREE_CALLS = frozenset(["contains", "starts-with", "ends-with"])
"""Functions whose checks look at no string."""


@dataclass(frozen=True, slots=True)
class Free:
    """A free literal: its place among the literals of the text, and among those of the tree in the
    order of the text. `unit` is that of a window, in microseconds; 0 for others."""

    place: int
    number: int
    is_string: bool
    unit: int = 0

    def canonical(self, written: str) -> str | None:
        """The literal as canonical text has it, None where this one is not free here."""
        if self.is_string:
            if written[0] not in "'\"":
                return None
            return written if written[0] == "'" or "'" in written else f"'{written[1:-1]}'"
        if _WHOLE.fullmatch(written) is None:
            return None
        if not self.unit:
            return written
        value = int(written) * self.unit
        return None if value > LONGEST else format_microseconds(value)


@dataclass(frozen=True, slots=True)
class Side:
    """A comparison with a constant, which is the free literal of this number or is `fixed`."""

    free: int | None
    op: str
    fixed: ast.String | ast.Number

    def value(self, own: Sequence[str]) -> Value:
        """The constant, where the free literals are `own`."""
        if self.free is None:
            return self.fixed.value
        literal = own[self.free]
        return literal[1:-1] if isinstance(self.fixed, ast.String) else float(literal)


class NotAlone(Exception):
    """What is found of a query may depend on more than its own parts, one by one."""


def free_literals(
    begins: int, key: str, literals: Sequence[str], query: ast.Query
) -> tuple[tuple[Free, ...], tuple[tuple[Side, ...], ...], int]:
    """The free literals of a statement that begins there, has this text between its literals, and
    was read as this query; the comparisons of one node that are to be looked at, and how many
    literals its tree has in all. Raises NotAlone."""
    places: dict[int, tuple[int, str]] = {}
    at = begins
    between = key.split("\0")
    for place, literal in enumerate(literals):
        at += len(between[place])
        places[at] = place, literal
        at += len(literal)
    nodes = sorted(_literals(query, None), key=lambda pair: pair[0].span.start)
    found: list[Free] = []
    own: dict[int, int] = {}
    for number, (node, parent) in enumerate(nodes):
        place, literal = places.get(node.span.start, (-1, ""))
        if _is_free(node, parent, literal):
            unit = UNITS[_unit(node)] if isinstance(node, ast.Duration) else 0
            own[id(node)] = len(found)
            found.append(Free(place, number, isinstance(node, ast.String), unit))
    compared = [
        tuple([Side(own.get(id(each.literal)), *each[:2]) for each in bounds])
        for conjunction in _conjunctions(query)
        for bounds in of_one_node(conjunction)
    ]
    return tuple(found), tuple(compared), len(nodes)


def may_hold(compared: Iterable[Sequence[Side]], own: Sequence[str]) -> bool:
    """Whether no two comparisons of one node exclude each other."""
    return all(
        excluding([(each.op, each.value(own)) for each in bounds]) is None for bounds in compared
    )


def _conjunctions(node: Any) -> Iterator[Sequence[ast.Expr]]:
    """The parts of the conjunctions of a tree."""
    if isinstance(node, tuple):
        for each in node:
            yield from _conjunctions(each)
    elif is_dataclass(node):
        if isinstance(node, ast.And):
            yield node.parts
        elif isinstance(node, ast.Step):
            yield of_filters(node.filters)
        for field in fields(node):
            if field.compare:
                yield from _conjunctions(getattr(node, field.name))


def _is_free(node: _Literal, parent: object, literal: str) -> bool:
    """Whether a literal of the tree is that one of the text, and any other would do as well."""
    written = node.span.text
    if isinstance(node, ast.Duration):
        return _unit(node) in UNITS and written.startswith(literal + written[len(literal)])
    if written != literal:
        return False
    if isinstance(node, ast.Number):
        if not isinstance(parent, ast.Comparison) or any(
            map(is_position, (parent.left, parent.right))
        ):
            return False
        return _WHOLE.fullmatch(written) is not None
    if isinstance(parent, ast.Comparison):
        return parent.op in ("=", "!=")
    return isinstance(parent, ast.Call) and parent.name in _FREE_CALLS


def _unit(window: ast.Duration) -> str:
    """The unit of a window that is written as a whole number and a unit, "" for others."""
    found = _WINDOW.fullmatch(window.span.text)
    return "" if found is None else found[2].lower()


def _literals(node: Any, parent: object) -> Iterator[tuple[_Literal, object]]:
    """The literals of a tree, each with what it stands in.

    Raises NotAlone for names that the file defines; for a JOIN, whose sides are compared; and for
    queries in FROM and constructors, whose literals are none of the query's own.
    """
    match node:
        case ast.Duration(microseconds=None, name=None):
            return
        case ast.String() | ast.Number() | ast.Duration(name=None):
            yield node, parent
        case (
            ast.Duration()
            | ast.Test(prefix=str())
            | ast.Nested()
            | ast.Element()
            | ast.Join(kind="JOIN")
        ):
            raise NotAlone
        case tuple():
            for each in node:
                yield from _literals(each, parent)
        case _ if is_dataclass(node):
            for field in fields(node):
                if field.compare:
                    yield from _literals(getattr(node, field.name), node)

"""Binding: constants in the place of parameters.

A tree with parameters is bound to the literals of very many queries. So it is compiled once into a
function of a query's literals, which are given as they are written, in the order of its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from xscl.normal import ir
from xscl.normal.canonical import canonical_filters, settled
from xscl.syntax.durations import microseconds

Literals = tuple[str, ...]
"""The literals of a query as its canonical text has them, in order."""

Bind = Callable[[Literals], Any]


def string_of(literal: str) -> str:
    """The value of a string literal."""
    return literal[1:-1]


@lru_cache(maxsize=4_096)
def window_of(literal: str) -> int:
    """The length in microseconds of a window literal."""
    digits, unit = literal.split(" ")
    value = microseconds(digits, unit)
    assert value is not None  # it was printed
    return value


def binder(node: Any) -> Bind | None:
    """The function from literals to a part of the intermediate form without parameters; None if the
    part has none, so that it is the same for all literals."""
    if isinstance(node, ir.Parameter):
        index = node.index
        if node.numeric:
            return lambda literals: ir.Number(float(literals[index]))
        return lambda literals: ir.String(literals[index][1:-1])
    if isinstance(node, ir.Step):
        return _step(node)
    if isinstance(node, tuple):
        binds = [binder(part) for part in node]
        return _sequence(node, binds) if any(binds) else None
    if not is_dataclass(node):
        return None
    parts = [getattr(node, f.name) for f in fields(node)]
    binds = [binder(part) for part in parts]
    if not any(binds):
        return None
    bound = _sequence(parts, binds)
    kind: Any = type(node)
    return lambda literals: kind(*bound(literals))


def _step(step: ir.Step) -> Bind | None:
    """The binder of a step. If the canonical order of its filters depends on the literals, they are
    sorted again."""
    binds = [binder(part) for part in step.filters]
    if not any(binds):
        return None
    axis, test, bound = step.axis, step.test, _sequence(step.filters, binds)
    if settled(step.filters):
        return lambda literals: ir.Step(axis, test, bound(literals))
    return lambda literals: ir.Step(axis, test, canonical_filters(bound(literals)))


def _sequence(parts: Sequence[Any], binds: Sequence[Bind | None]) -> Bind:
    pairs = tuple(zip(parts, binds, strict=True))
    return lambda literals: tuple(
        [part if bind is None else bind(literals) for part, bind in pairs]
    )

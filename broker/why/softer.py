"""Softer forms of predicates: what somebody may have meant who wrote one that nothing satisfies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isnan

from xscl import ast
from xscl.functions.table import FUNCTIONS, to_number
from xscl.normal.lower import NOWHERE

_SOFTER = ("normalize-space", "lower-case", "words", "url", "number")
_CUTTING = (("substring-after", " "), ("substring-before", " "), ("substring-before", "%"))
_TEXTS = ("contains", "starts-with", "ends-with")
_PART = 3
"""Characters that a part of a text has at least."""


def softened(part: ast.Expr) -> Iterator[ast.Expr]:
    """Forms of a predicate that ask for less: that ignore case, blanks, signs, tracking parameters,
    compare dates and numbers as such, cut off what stands beside a number, or ask for a part."""
    match part:
        case ast.Comparison(op=op, right=ast.Number()) if op != "!=":
            yield from _of_number(part)
        case ast.Comparison():
            yield from _of_comparison(part)
        case ast.Call(name=called) if called in _TEXTS:
            yield from _of_part(part)
        case ast.Call(name="matches", args=(text, ast.String(value=pattern))):
            anywhere = pattern.removeprefix("^").removesuffix("$")
            for inner in (text, _applied("lower-case", text)):
                for wanted in (pattern, anywhere, anywhere.lower()):
                    yield _call("matches", inner, wanted)


def _of_number(part: ast.Comparison) -> Iterator[ast.Expr]:
    for name, sign in _CUTTING:
        if _applies(name, part.left):
            yield replace(part, left=_call(name, part.left, sign))


def _of_comparison(part: ast.Comparison) -> Iterator[ast.Expr]:
    op, left, right = part.op, part.left, part.right
    names = (*_SOFTER, "date") if op == "=" else ("date",) if op != "!=" else ()
    for name in names:
        if _applies(name, left) and _applies(name, right):
            yield replace(part, left=_applied(name, left), right=_applied(name, right))
    if op == "=" and isinstance(right, ast.String):
        yield from _containing(left, right.value)
    if op not in ("=", "!=") and isinstance(right, ast.Path):
        for name, sign in _CUTTING:
            if _applies(name, left):
                yield replace(part, left=_call(name, left, sign), right=_call(name, right, sign))
    if op not in ("=", "!=") and isinstance(right, ast.String):
        # A number with its currency, on both sides.
        for name, sign in _CUTTING:
            number = to_number(str(FUNCTIONS[name].call(right.value, sign)))
            if _applies(name, left) and not isnan(number):
                bare = ast.Number(number, span=NOWHERE)
                yield replace(part, left=_call(name, left, sign), right=bare)


def _of_part(part: ast.Call) -> Iterator[ast.Expr]:
    for name in _SOFTER[:3]:
        if all(_applies(name, each) for each in part.args):
            yield replace(part, args=tuple([_applied(name, each) for each in part.args]))
    text = part.args[1]
    if part.name != "contains" and isinstance(text, ast.String):
        yield from _containing(part.args[0], text.value)


def _containing(left: ast.Expr, text: str) -> Iterator[ast.Expr]:
    """Forms that ask for a part of a text: without the signs of patterns of SQL and shells, and
    without blanks."""
    part = text.strip("%*").strip()
    if len(part) < _PART or not _applies("lower-case", left):
        return
    yield _call("contains", left, part)
    yield _call("contains", _applied("lower-case", left), part.lower())
    bare = ast.Call("translate", (left, _string(" "), _string("")), span=NOWHERE)
    yield ast.Comparison("=", bare, _string(part.replace(" ", "")), span=NOWHERE)


def _call(name: str, left: ast.Expr, text: str) -> ast.Call:
    return ast.Call(name, (left, _string(text)), span=NOWHERE)


def _string(text: str) -> ast.String:
    return ast.String(text, span=NOWHERE)


def _applies(name: str, expr: ast.Expr) -> bool:
    """Whether a function may be put around an operand: not where it is there, or there is a
    number."""
    match expr:
        case ast.Path() | ast.String():
            return True
        case ast.Call(name=inner):
            function = FUNCTIONS.get(inner)
            known = function is not None and function.result == "string" and not function.several
            return known and inner != name
    return False


def _applied(name: str, expr: ast.Expr) -> ast.Expr:
    if isinstance(expr, ast.String):
        made = FUNCTIONS[name].call(expr.value) if name not in ("date", "number") else None
        if isinstance(made, str):
            return ast.String(made, span=NOWHERE)
    return ast.Call(name, (expr,), span=NOWHERE)

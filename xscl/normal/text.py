"""Canonical text of the intermediate form, with the parameters in it.

It has the syntax of the language, with namespace names for prefixes. Equal texts are equal
expressions, so definitions are identified by their texts, in the state too: a change of the form
needs a migration of states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

from xscl.normal import ir
from xscl.syntax.printer import format_number, marked_expression, quoted

_OR, _AND, _COMPARISON, _SUM, _PRODUCT, _ATOM = 1, 2, 3, 5, 6, 7
_POWER = {ir.Calculation.PLUS: _SUM, ir.Calculation.MINUS: _SUM}

Out = Callable[[str | ir.Parameter], object]


def written(expr: ir.Expr) -> ir.Written:
    """The text of an expression."""
    return _collected(lambda out: _expression(expr, 0, out))


def written_steps(steps: Sequence[ir.Step]) -> ir.Written:
    """The text of steps, each with its axis."""
    return _collected(lambda out: _steps(steps, out))


def joined(pieces: Iterable[str | ir.Parameter]) -> ir.Written:
    """The text with neighbouring strings merged."""
    found: list[str | ir.Parameter] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        elif piece != "":
            found.append(piece)
    return tuple(found)


def filled(text: ir.Written, literals: Sequence[str]) -> str:
    """The text with parameters replaced by literals, as these are written."""
    return "".join([piece if isinstance(piece, str) else literals[piece.index] for piece in text])


def plain(text: ir.Written) -> str:
    """The text, a parameter as `$` and its number."""
    return "".join([piece if isinstance(piece, str) else f"${piece.index}" for piece in text])


def _collected(write: Callable[[Out], object]) -> ir.Written:
    found: list[str | ir.Parameter] = []
    write(found.append)
    return joined(found)


def _steps(steps: Sequence[ir.Step], out: Out) -> None:
    for step in steps:
        out(step.axis)
        _step(step, out)


def _step(step: ir.Step, out: Out) -> None:
    test = step.test
    if test.kind == "self":
        out(".")
    elif test.kind == "text":
        out("text()")
    else:
        name = test.name or "*"
        if test.namespace is not None:
            name = f"{test.namespace}:{name}"
        out(f"@{name}" if test.kind == "attribute" else name)
    for part in step.filters:
        out("[")
        _expression(part, 0, out)
        out("]")


def _relative(steps: Sequence[ir.Step], out: Out) -> None:
    """A path from the node; a first step `.` with filters is written without another `.`."""
    if steps and steps[0].axis == "/" and steps[0].test.kind == "self" and steps[0].filters:
        _step(steps[0], out)
        steps = steps[1:]
    else:
        out(".")
    _steps(steps, out)


def _expression(expr: ir.Expr, power: int, out: Out) -> None:
    """The expression, in parentheses if it binds no tighter than `power`."""
    own = _power(expr)
    if own <= power:
        out("(")
    match expr:
        case ir.Comparison():
            _infix((expr.left, expr.right), (own, own), f" {expr.comparator.value} ", out)
        case ir.Arithmetic():
            _infix((expr.left, expr.right), (own - 1, own), f" {expr.calculation.value} ", out)
        case ir.And():
            _infix(expr.parts, [own] * len(expr.parts), " and ", out)
        case ir.Or():
            _infix(expr.parts, [own] * len(expr.parts), " or ", out)
        case ir.Not():
            out("not(")
            _expression(expr.part, 0, out)
            out(")")
        case ir.Call():
            out(f"{expr.name}(")
            _infix(expr.args, [0] * len(expr.args), ", ", out)
            out(")")
        case _:
            _leaf(expr, out)
    if own <= power:
        out(")")


def _infix(parts: Sequence[ir.Expr], powers: Sequence[int], between: str, out: Out) -> None:
    for number, (part, power) in enumerate(zip(parts, powers, strict=True)):
        if number:
            out(between)
        _expression(part, power, out)


def _power(expr: ir.Expr) -> int:
    match expr:
        case ir.Comparison():
            return _COMPARISON
        case ir.Arithmetic():
            return _POWER.get(expr.calculation, _PRODUCT)
        case ir.And():
            return _AND
        case ir.Or():
            return _OR
        case _:
            return _ATOM


def _leaf(leaf: ir.Leaf, out: Out) -> None:
    match leaf:
        case ir.String():
            out(quoted(leaf.value))
        case ir.Number():
            out(format_number(leaf.value))
        case ir.Parameter():
            out(leaf)
        case ir.Path():
            _relative(leaf.steps, out)
        case ir.Beyond():
            pieces = marked_expression(leaf.form, in_filter=True)
            for piece, literal in zip_longest(pieces[::2], leaf.literals):
                out(piece)
                if literal is not None:
                    _expression(literal, 0, out)
        case ir.VariablePath():
            out(leaf.variable)
            _steps(leaf.steps, out)
        case ir.NodeValue():
            out(f"value({leaf.node})")
        case ir.SomeNode():
            out(f"some({leaf.path})")

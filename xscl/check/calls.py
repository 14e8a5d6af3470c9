"""What may be wrong with a call itself: its name, the number of its arguments, its pattern.

In: calls. Out: errors, or None. The arguments are checked by whoever walks through the expression.
"""

from __future__ import annotations

from typing import TypeGuard

import re2

from xscl import ast
from xscl.errors import Diagnostic
from xscl.functions.elements import DURATION, ELEMENT_FUNCTIONS
from xscl.functions.nodes import NODE_FUNCTIONS, NodeFunction
from xscl.functions.table import FUNCTIONS, Function, compile_pattern
from xscl.syntax import foreign, foreign_patterns
from xscl.syntax.nearest import did_you_mean


def is_of_elements(call: ast.Call) -> bool:
    """Whether it is over the documents of a group, an iteration or a window, or duration()."""
    return call.name in ELEMENT_FUNCTIONS or call.name == DURATION


def gives_several(part: ast.Expr) -> TypeGuard[ast.Call]:
    """Whether a part is a call of a function that gives several strings."""
    return isinstance(part, ast.Call) and part.name in FUNCTIONS and FUNCTIONS[part.name].several


def wrong_call(call: ast.Call, function: Function | NodeFunction) -> Diagnostic | None:
    """An error in the number of arguments, or in a regular expression that is a literal."""
    count = len(call.args)
    if count < function.least or (function.most is not None and count > function.most):
        return Diagnostic(
            "arity", f"{call.name}() takes {_arity(function)}, not {count}", call.span
        )
    return _wrong_pattern(call) if call.name in ("matches", "tokenize") else None


def _wrong_pattern(call: ast.Call) -> Diagnostic | None:
    written = call.args[1]
    if not isinstance(written, ast.String):
        return None
    try:
        pattern = compile_pattern(written.value)
    except re2.error as error:
        reason = error.args[0]
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        message = f"this is no RE2 regular expression: {reason}"
        return Diagnostic("bad-pattern", message, written.span)
    if call.name == "tokenize" and pattern.search("") is not None:
        message = "this separates nothing: it finds the empty text"
        return Diagnostic("bad-pattern", message, written.span)
    return None


def wrong_count_of_elements(call: ast.Call) -> Diagnostic | None:
    """An error in the number of arguments of a call over elements."""
    name = call.name
    least, most = (0, 1) if name == DURATION else (1, ELEMENT_FUNCTIONS[name].most)
    if least <= len(call.args) <= most:
        return None
    takes = "a variable" if most == 1 else "a variable, and what stands for it where it has none"
    optional = "" if least else "nothing or "
    return Diagnostic("arity", f"{name}() takes {optional}{takes}", call.span)


def wrong_elements(call: ast.Call) -> Diagnostic | None:
    """An error in the first argument of a call over elements, which must be a path."""
    name = call.name
    timed = name == DURATION
    path = call.args[0] if call.args else None
    if path is None or (isinstance(path, ast.Path) and not (timed and path.steps)):
        return None
    example = f"{name}(x)" if timed else f"{name}(x) or {name}(x/price)"
    return Diagnostic("not-nodes", f"{name}() needs a variable: {example}", path.span)


def unknown_function(call: ast.Call) -> Diagnostic:
    """The error for a function that does not exist, or not where it is called."""
    message, hint = _unknown(call.name)
    return Diagnostic("unknown-function", message, call.span, hint)


def _unknown(name: str) -> tuple[str, str]:
    if name in NODE_FUNCTIONS:
        hint = foreign.FUNCTIONS.get(name) or "filter the step: S//item[position() < 3]"
        return f"the function {name}() stands in filters only", hint
    if name in ELEMENT_FUNCTIONS or name == DURATION:
        message = f"the function {name}() stands in predicates and in SELECT, not in filters"
        if name == DURATION:
            return message, "write WHERE duration() < 60"
        return message, f"bind the node, [./price->p], and write WHERE {name}(p) > 1"
    lower = name.lower()
    known = (*FUNCTIONS, *ELEMENT_FUNCTIONS, DURATION)
    near = foreign.FUNCTIONS.get(lower) or foreign_patterns.FUNCTIONS.get(lower)
    if "." in name:
        near = foreign_patterns.member(lower.rpartition(".")[2])
    near = near or did_you_mean(name, known) or did_you_mean(lower, known)
    return f"there is no function {name}()", near or "the functions are " + ", ".join(known)


def _arity(function: Function | NodeFunction) -> str:
    least, most = function.least, function.most
    if most is None:
        return f"{least} or more arguments"
    if least == most:
        return f"{least} argument" + ("s" if least != 1 else "")
    return f"{least} to {most} arguments"

"""Conditions of SQL rewritten in this language: `x LIKE 'a%'` is `starts-with(x, 'a')`.

In: the text from an operator of SQL on, and the operand before it. Out: the condition to write
instead, if the operands determine it. It is used for hints, after an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from xscl import ast
from xscl.syntax.printer import format_expression, quoted

#: The first words of operators of SQL, in capitals.
FOREIGN_OPERATORS = frozenset(
    [
        *("LIKE", "ILIKE", "CONTAINS", "STARTS", "ENDS", "MATCHES", "REGEXP", "RLIKE"),
        *("IN", "BETWEEN", "IS", "NOT"),
    ]
)

_STRING = r"""'[^'\n]*'|"[^"\n]*\""""
_LITERAL = rf"{_STRING}|-?[0-9]+(?:\.[0-9]+)?"
_OPERAND = rf"{_LITERAL}|[\w./@]+"
_OPERATOR = re.compile(
    rf"""(?P<not>NOT\s+)?(?:
        (?P<like>I?LIKE)\s+(?P<pattern>{_STRING})
      | (?P<call>CONTAINS|STARTS(?:\s+WITH)?|ENDS(?:\s+WITH)?|MATCHES|REGEXP|RLIKE)
        \s+(?P<text>{_STRING})
      | IN\s*\(\s*(?P<in>(?:{_LITERAL})(?:\s*,\s*(?:{_LITERAL}))*)\s*\)
      | BETWEEN\s+(?P<low>{_OPERAND})\s+AND\s+(?P<high>{_OPERAND})
      | IS\s+(?P<some>NOT\s+)?(?P<null>NULL)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_FUNCTIONS = {"CONTAINS": "contains", "STARTS": "starts-with", "ENDS": "ends-with"}
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")


@dataclass(frozen=True, slots=True)
class Rewriting:
    """An operator of SQL, the equivalent condition, and where its last operand ends."""

    operator: str
    condition: str
    end: int


def rewrite(text: str, start: int, left: ast.Expr, in_filter: bool) -> Rewriting | None:
    """The condition of `left` and the operator at `start`, None if there is no equivalent."""
    found = _OPERATOR.match(text, start, start + 500)
    if found is None:
        return None
    operand = format_expression(left, in_filter)
    negated = found["not"] is not None
    either = f" {'or' if in_filter else 'OR'} "
    if found["like"]:
        if not found["pattern"][1:-1].strip("%"):
            return None
        condition = _like(operand, found["pattern"][1:-1], found["like"].upper() == "ILIKE")
    elif found["call"]:
        word = found["call"].split()[0].upper()
        condition = f"{_FUNCTIONS.get(word, 'matches')}({operand}, {found['text']})"
    elif found["in"]:
        values = re.findall(_LITERAL, found["in"])
        condition = either.join(f"{operand} = {value}" for value in values)
        if negated and len(values) > 1 and not in_filter:
            condition = f"({condition})"
    elif found["null"]:
        if not isinstance(left, ast.Path) or not left.steps:
            return None
        negated, condition = not found["some"], operand
    else:
        both = f" {'and' if in_filter else 'AND'} "
        condition = f"{operand} >= {found['low']}{both}{operand} <= {found['high']}"
        if negated and not in_filter:
            condition = f"({condition})"
    if negated:
        condition = f"not({condition})" if in_filter else f"NOT {condition}"
    values = [found[name] for name in ("pattern", "text", "in", "low") if found[name]]
    operator = found[0].partition(values[0])[0].rstrip(" (") if values else found[0]
    return Rewriting(" ".join(operator.upper().split()), condition, found.end())


def _like(operand: str, pattern: str, folded: bool) -> str:
    """The condition for a LIKE pattern, in which % is any text and _ is one character."""
    core = pattern.strip("%")
    if "_" in pattern or "%" in core:
        return f"matches({operand}, {quoted(_regular(pattern, folded))})"
    if folded:
        operand, core = f"lower-case({operand})", core.lower()
    format_condition: Callable[[str], str] = {
        (True, True): f"contains({operand}, {{}})".format,
        (False, True): f"starts-with({operand}, {{}})".format,
        (True, False): f"ends-with({operand}, {{}})".format,
        (False, False): f"{operand} = {{}}".format,
    }[pattern.startswith("%"), pattern.endswith("%")]
    return format_condition(quoted(core))


def _regular(pattern: str, folded: bool) -> str:
    """The LIKE pattern as a regular expression, which need not match the whole text."""
    text = _SPECIAL.sub(r"\\\1", pattern).replace("%", ".*").replace("_", ".")
    text = f"^{text}$".removeprefix("^.*").removesuffix(".*$")
    return f"(?i){text}" if folded else text

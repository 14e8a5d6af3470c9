"""Conditions of SQL as this language writes them: `x LIKE 'a%'` is `starts-with(x, 'a')`.

Goes in: the text from an operator that this language has not, and the operand before it. Comes out:
the condition to write instead, where what stands behind the operator says which. Asked only once
something is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from xscl import ast
from xscl.syntax.printer import format_expression, quoted

#: What an operator of SQL may begin with, in capitals.
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
class Rewritten:
    """An operator of SQL, the condition that says it here, and where what belongs to it ends."""

    operator: str
    condition: str
    end: int


def rewritten(text: str, start: int, left: ast.Expr, in_filter: bool) -> Rewritten | None:
    """What is meant by `left` and the operator at `start`, None where that cannot be said."""
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
    return Rewritten(" ".join(operator.upper().split()), condition, found.end())


def _like(operand: str, pattern: str, folded: bool) -> str:
    """A pattern with % for any text and _ for one character."""
    core = pattern.strip("%")
    if "_" in pattern or "%" in core:
        return f"matches({operand}, {quoted(_regular(pattern, folded))})"
    if folded:
        operand, core = f"lower-case({operand})", core.lower()
    written: Callable[[str], str] = {
        (True, True): f"contains({operand}, {{}})".format,
        (False, True): f"starts-with({operand}, {{}})".format,
        (True, False): f"ends-with({operand}, {{}})".format,
        (False, False): f"{operand} = {{}}".format,
    }[pattern.startswith("%"), pattern.endswith("%")]
    return written(quoted(core))


def _regular(pattern: str, folded: bool) -> str:
    """The pattern as a regular expression, which is sought anywhere."""
    text = _SPECIAL.sub(r"\\\1", pattern).replace("%", ".*").replace("_", ".")
    text = f"^{text}$".removeprefix("^.*").removesuffix(".*$")
    return f"(?i){text}" if folded else text

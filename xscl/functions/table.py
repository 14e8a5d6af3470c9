"""The functions of the language: one table of names, arities and kinds, and their implementations.

Arguments and results are `str`, `float` and `bool`, already converted; callers turn nodes into
them. Strings and numbers are XPath 1.0's: a string converts by `to_number`, a number by
`to_string`, and a text that is not a number converts to NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import re2

from xscl.functions.dates import date
from xscl.functions.texts import LONGEST, TextTooLong, url, words

Kind = Literal["string", "number", "boolean"]
Value = str | float | bool

_NUMBER = re.compile(r"[ \t\r\n]*+(-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++))[ \t\r\n]*+")
_BLANKS = re.compile(r"[ \t\r\n]+")
_XML_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function.

    It takes `least` to `most` arguments (`most` is None where there is no limit), the nth of the
    kind `parameters[n]` (the last kind repeats), and gives a `result`. The kind "any" takes a
    string or a number as it is. `call` expects its arguments converted. With `several` the result
    is a list of strings: a comparison holds if it holds for one of them, and no function accepts
    the list as an argument.
    """

    name: str
    parameters: tuple[Literal["string", "number", "any"], ...]
    least: int
    most: int | None
    result: Kind
    call: Callable[..., Any]
    several: bool = False

    def parameter(self, index: int) -> Literal["string", "number", "any"]:
        return self.parameters[min(index, len(self.parameters) - 1)]


# -- conversions -----------------------------------------------------------------------------


def to_number(value: str | float) -> float:
    """XPath 1.0 number(): optional minus and digits with a point; no exponent, no plus; else NaN.

    A boolean is 1 or 0.
    """
    if not isinstance(value, str):
        return float(value)
    return _known_number(value) if len(value) <= _SHORT else _number(value)


def _number(text: str) -> float:
    found = _NUMBER.fullmatch(text)
    return float(found[1]) if found else math.nan


_SHORT = 24
"""Letters of a text up to which its number is remembered: the same one is compared again and
again."""
_known_number = lru_cache(1 << 14)(_number)


def to_string(value: str | float) -> str:
    """XPath 1.0 string(): a number in decimal notation, never with an exponent.

    As many digits as tell the number from all other doubles; "NaN", "Infinity", "-Infinity", and
    "0" for both zeros; "true" and "false" for booleans.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == int(value):
        return str(int(Decimal(repr(value))))
    return format(Decimal(repr(value)), "f")


def convert(value: str | float, kind: Literal["string", "number", "any"]) -> str | float:
    """The value converted to the kind of a parameter."""
    if kind == "string":
        return to_string(value)
    return to_number(value) if kind == "number" else value


def arithmetic(op: str, a: float, b: float) -> float:
    """XPath 1.0 arithmetic on doubles: division by zero is infinite or NaN, `mod` keeps the
    sign."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "div":
            if b == 0:
                if a == 0 or a != a:
                    return float("nan")
                same_sign = (a > 0) == (str(b)[0] != "-")
                return float("inf") if same_sign else float("-inf")
            return a / b
        case _:
            if b == 0 or math.isinf(a) or a != a or b != b:
                return float("nan")
            return math.fmod(a, b)


# -- functions -------------------------------------------------------------------------------


def _contains(text: str, part: str) -> bool:
    return part in text


def _starts_with(text: str, part: str) -> bool:
    return text.startswith(part)


def _ends_with(text: str, part: str) -> bool:
    return text.endswith(part)


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re2._Regexp:
    """The RE2 pattern, compiled once. Raises `re2.error` if RE2 rejects it."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _matches(text: str, pattern: str) -> bool:
    """Whether RE2 finds the pattern anywhere in the text; a pattern it rejects is found nowhere."""
    try:
        return compile_pattern(pattern).search(text) is not None
    except re2.error:
        return False


def _tokenize(text: str, separators: str) -> list[str]:
    """The parts of the text between matches of the RE2 pattern, stripped, without empty ones. The
    result is empty for a pattern that RE2 rejects, and a match of the empty text separates nothing.
    """
    try:
        pattern = compile_pattern(separators)
    except re2.error:
        return []
    parts, end = [], 0
    if pattern.search("") is None:
        for found in pattern.finditer(text):
            parts.append(text[end : found.start()])
            end = found.end()
    parts.append(text[end:])
    return [token for part in parts if (token := _normalize_space(part))]


def _string_length(text: str) -> float:
    return float(len(text))


def _normalize_space(text: str) -> str:
    return _BLANKS.sub(" ", text).strip(_XML_BLANKS)


def _concat(*texts: str) -> str:
    """Raises TextTooLong."""
    if sum(map(len, texts)) > LONGEST:
        raise TextTooLong
    return "".join(texts)


def _round(value: float) -> float:
    """XPath 1.0 round(): the nearest integer, halves towards positive infinity."""
    if not math.isfinite(value):
        return value
    below = math.floor(value)
    return _signed(below + 1 if value - below >= 0.5 else below, value)


def _signed(whole: int, value: float) -> float:
    """The result of rounding as a number; a zero keeps the sign of `value`."""
    return float(whole) if whole else math.copysign(0.0, value)


def _substring(text: str, start: float, length: float | None = None) -> str:
    """XPath 1.0, section 4.2: the characters whose position p, counted from 1, satisfies
    p >= round(start) and p < round(start) + round(length); NaN satisfies nothing."""
    first = _round(start)
    end = math.inf if length is None else first + _round(length)
    if first != first or end != end:
        return ""
    low = max(first, 1.0)
    high = min(end, len(text) + 1.0)
    return text[int(low) - 1 : int(high) - 1] if low < high else ""


def _floor(value: float) -> float:
    return _signed(math.floor(value), value) if math.isfinite(value) else value


def _ceiling(value: float) -> float:
    return _signed(math.ceil(value), value) if math.isfinite(value) else value


def _substring_before(text: str, part: str) -> str:
    before, found, _ = text.partition(part) if part else ("", "", "")
    return before if found else ""


def _substring_after(text: str, part: str) -> str:
    return text.partition(part)[2] if part else text


def _translate(text: str, old: str, new: str) -> str:
    """XPath 1.0, section 4.2: the first occurrence of a character in `old` decides."""
    table = {
        ord(each): new[at] if at < len(new) else None for at, each in reversed([*enumerate(old)])
    }
    return text.translate(table)


_STRING: tuple[Literal["string", "number", "any"], ...] = ("string",)

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        function.name: function
        for function in (
            Function("contains", _STRING, 2, 2, "boolean", _contains),
            Function("starts-with", _STRING, 2, 2, "boolean", _starts_with),
            Function("ends-with", _STRING, 2, 2, "boolean", _ends_with),
            Function("matches", _STRING, 2, 2, "boolean", _matches),
            Function("string-length", _STRING, 1, 1, "number", _string_length),
            Function("normalize-space", _STRING, 1, 1, "string", _normalize_space),
            Function("lower-case", _STRING, 1, 1, "string", str.lower),
            Function("upper-case", _STRING, 1, 1, "string", str.upper),
            Function("concat", _STRING, 2, None, "string", _concat),
            Function("substring", ("string", "number"), 2, 3, "string", _substring),
            Function("substring-before", _STRING, 2, 2, "string", _substring_before),
            Function("substring-after", _STRING, 2, 2, "string", _substring_after),
            Function("translate", _STRING, 3, 3, "string", _translate),
            Function("string", ("any",), 1, 1, "string", to_string),
            Function("number", ("any",), 1, 1, "number", to_number),
            Function("round", ("number",), 1, 1, "number", _round),
            Function("floor", ("number",), 1, 1, "number", _floor),
            Function("ceiling", ("number",), 1, 1, "number", _ceiling),
            Function("date", _STRING, 1, 1, "number", date),
            Function("url", _STRING, 1, 1, "string", url),
            Function("words", _STRING, 1, 1, "string", words),
            Function("tokenize", _STRING, 2, 2, "string", _tokenize, several=True),
        )
    }
)

"""Values of XSCL expressions, in the simplest way: XPath 1.0 semantics over Python values.

In goes an expression and a function that gives the string values of a path's nodes in document
order; out comes a `NodeSet`, a string, a number or a truth value. Nothing here knows of trees,
and nothing is shared with the engine.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from xscl import ast


@dataclass(frozen=True, slots=True)
class NodeSet:
    """The string values of some nodes, in document order."""

    texts: tuple[str, ...]


Value = NodeSet | str | float | bool
Paths = Callable[[ast.Path], Sequence[str]]

BLANK = " \t\r\n"
TRACKING = re.compile(r"utm_.*|fbclid|gclid")


def truth(expr: ast.Expr, paths: Paths) -> bool:
    """Does a filter or predicate hold? A path alone asks whether it has any node."""
    match expr:
        case ast.And(parts=parts):
            return all(truth(part, paths) for part in parts)
        case ast.Or(parts=parts):
            return any(truth(part, paths) for part in parts)
        case ast.Not(part=part):
            return not truth(part, paths)
        case ast.Path():
            return bool(paths(expr))
        case ast.Comparison(op=op, left=left, right=right):
            return compare(op, value(left, paths), value(right, paths))
    result = value(expr, paths)
    assert isinstance(result, bool), f"not a truth value: {expr}"
    return result


def value(expr: ast.Expr, paths: Paths) -> Value:
    match expr:
        case ast.String(value=text):
            return text
        case ast.Number(value=number):
            return float(number)
        case ast.Path():
            return NodeSet(tuple(paths(expr)))
        case ast.Arithmetic(op=op, left=left, right=right):
            return arithmetic(op, to_number(value(left, paths)), to_number(value(right, paths)))
        case ast.Call(name=name, args=args):
            return FUNCTIONS[name](*(value(arg, paths) for arg in args))
    raise AssertionError(f"not an operand: {expr}")


# -- comparison and conversion ---------------------------------------------------------------


def compare(op: str, left: Value, right: Value) -> bool:
    """Some pair of the two sides' values satisfies `op`."""
    as_numbers = op not in ("=", "!=") or isinstance(left, float) or isinstance(right, float)
    return any(_pair(op, a, b, as_numbers) for a in _each(left) for b in _each(right))


def _each(side: Value) -> Sequence[str | float]:
    if isinstance(side, NodeSet):
        return side.texts
    assert not isinstance(side, bool)
    return (side,)


def _pair(op: str, a: str | float, b: str | float, as_numbers: bool) -> bool:
    if not as_numbers:
        return (a == b) if op == "=" else (a != b)
    x, y = to_number(a), to_number(b)
    # Python's float comparison is IEEE's: every one with a NaN is false, save !=.
    return {"=": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]


def to_string(item: Value) -> str:
    """XPath string(): the first node's string value, "" of no node."""
    if isinstance(item, NodeSet):
        return item.texts[0] if item.texts else ""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return item
    if math.isnan(item):
        return "NaN"
    if math.isinf(item):
        return "Infinity" if item > 0 else "-Infinity"
    if item == int(item):
        return str(int(item))
    return format(Decimal(repr(item)), "f")


def to_number(item: Value) -> float:
    """XPath number(): digits with an optional point and minus, blanks around; else NaN."""
    if isinstance(item, float):
        return item
    if isinstance(item, bool):
        return 1.0 if item else 0.0
    text = to_string(item).strip(BLANK)
    return float(text) if re.fullmatch(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)", text) else math.nan


def arithmetic(op: str, a: float, b: float) -> float:
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    if op == "div":
        if b != 0:
            return a / b
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1, b)
    if b == 0 or math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.fmod(a, b)


# -- functions -------------------------------------------------------------------------------


def normalize_space(item: Value) -> str:
    return " ".join(re.split(f"[{BLANK}]+", to_string(item).strip(BLANK)))


def substring(item: Value, start: Value, length: Value | None = None) -> str:
    """The characters whose position p (from 1) has round(start) <= p < round(start) +
    round(length)."""
    text, first = to_string(item), _round(to_number(start))
    end = math.inf if length is None else first + _round(to_number(length))
    return "".join(c for p, c in enumerate(text, 1) if first <= p < end)


def substring_before(item: Value, part: Value) -> str:
    text, sought = to_string(item), to_string(part)
    return text[: text.find(sought)] if sought in text else ""


def substring_after(item: Value, part: Value) -> str:
    text, sought = to_string(item), to_string(part)
    return text[text.find(sought) + len(sought) :] if sought in text else ""


def translate(item: Value, old: Value, new: Value) -> str:
    """Each character of `old` by that of `new` in the same place, where it stands first in
    `old`."""
    before, after = to_string(old), to_string(new)
    places = [(c, before.find(c)) for c in to_string(item)]
    return "".join(c if at < 0 else after[at : at + 1] for c, at in places)


def tokenize(item: Value, pattern: Value) -> NodeSet:
    """The parts between what the pattern finds, blanks normalised, without empty ones."""
    parts = re.split(f"(?:{to_string(pattern)})", to_string(item))
    return NodeSet(tuple(found for part in parts if (found := normalize_space(part))))


def _whole(number: float, to: Callable[[float], int]) -> float:
    """An integer near a number; a zero keeps the number's sign, as IEEE's does."""
    if math.isnan(number) or math.isinf(number):
        return number
    return float(to(number)) or math.copysign(0.0, number)


def _round(number: float) -> float:
    return number if math.isnan(number) or math.isinf(number) else float(math.floor(number + 0.5))


def date(item: Value) -> float:
    """Seconds since 1970 of an ISO or RFC 822 date, in UTC where it names no zone; else NaN."""
    text = to_string(item).strip(BLANK)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = read(text)
        except ValueError:
            continue
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return math.nan


def url(item: Value) -> str:
    text = to_string(item).strip(BLANK)
    parts = urlsplit(text)
    if not parts.netloc:
        return text
    kept = [
        pair
        for pair in parse_qsl(parts.query, keep_blank_values=True)
        if not TRACKING.fullmatch(pair[0])
    ]
    path = parts.path.removesuffix("/")
    return urlunsplit((parts.scheme, parts.netloc.lower(), path, urlencode(kept), ""))


def words(item: Value) -> str:
    kept = (" " if unicodedata.category(c)[0] in "PZC" else c for c in to_string(item).casefold())
    return " ".join("".join(kept).split())


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "contains": lambda a, b: to_string(b) in to_string(a),
    "starts-with": lambda a, b: to_string(a).startswith(to_string(b)),
    "ends-with": lambda a, b: to_string(a).endswith(to_string(b)),
    "matches": lambda a, b: re.search(to_string(b), to_string(a)) is not None,
    "string-length": lambda a: float(len(to_string(a))),
    "normalize-space": normalize_space,
    "lower-case": lambda a: to_string(a).lower(),
    "upper-case": lambda a: to_string(a).upper(),
    "concat": lambda *items: "".join(to_string(item) for item in items),
    "substring": substring,
    "substring-before": substring_before,
    "substring-after": substring_after,
    "translate": translate,
    "string": to_string,
    "number": to_number,
    "round": lambda a: _whole(to_number(a), lambda number: math.floor(number + 0.5)),
    "floor": lambda a: _whole(to_number(a), math.floor),
    "ceiling": lambda a: _whole(to_number(a), math.ceil),
    "date": date,
    "url": url,
    "words": words,
    "tokenize": tokenize,
}

"""Durations of windows: their units, exact parsing, and canonical form."""

from __future__ import annotations

from fractions import Fraction

_MS = 1_000
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY

#: Microseconds of each unit.
UNITS = {
    "ms": _MS,
    "s": _SECOND,
    "second": _SECOND,
    "seconds": _SECOND,
    "min": _MINUTE,
    "minute": _MINUTE,
    "minutes": _MINUTE,
    "h": _HOUR,
    "hour": _HOUR,
    "hours": _HOUR,
    "d": _DAY,
    "day": _DAY,
    "days": _DAY,
    "week": _WEEK,
    "weeks": _WEEK,
}

#: The longest window, 2**62 microseconds: the sum of a timestamp and a window fits into 64 bits.
LONGEST = 1 << 62

#: More digits than any window needs, and fewer than Python refuses to convert.
MOST_DIGITS = 40

_PRINTED = (("week", _WEEK), ("day", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", _SECOND))


def microseconds(digits: str, unit: str) -> int | None:
    """The exact number of microseconds, None if it is not whole. `unit` is a key of `UNITS`.

    `digits` is a number of at most `MOST_DIGITS` characters.
    """
    if digits.isdigit():
        return int(digits) * UNITS[unit]
    exact = Fraction(digits.rstrip(".") or "0") * UNITS[unit]
    return exact.numerator if exact.denominator == 1 else None


def format_microseconds(value: int | None) -> str:
    """The duration in the largest unit that divides it: 129600000000 is "36 h", None "INFINITY"."""
    if value is None:
        return "INFINITY"
    if value:
        for name, size in _PRINTED:
            if value % size == 0:
                count = value // size
                plural = "s" if count != 1 and name in ("week", "day") else ""
                return f"{count} {name}{plural}"
    whole, part = divmod(value, _MS)
    if part:
        return f"{whole}.{part:03d}".rstrip("0") + " ms"
    return f"{whole} ms" if value else "0 s"

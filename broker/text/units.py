"""Durations and sizes as people write them: in options, in settings, and in what is shown."""

from __future__ import annotations

import re

from broker.model import UNBOUNDED

FOREVER = UNBOUNDED
"""The duration INFINITY, in microseconds."""

_NUMBER = r"([0-9]+(?:\.[0-9]*)?)"
_DURATION = re.compile(_NUMBER + r"\s*([A-Za-z]*)")
_SIZE = re.compile(_NUMBER + r"\s*([kKMGT]?)(i?)[bB]?")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_LARGEST = 2**63


def parse_duration(text: object) -> int:
    """A duration as XSCL writes it, in microseconds; a bare number is one of seconds.

    ValueError, with what to write instead, for anything else.
    """
    from xscl.syntax.durations import MOST_DIGITS, UNITS, microseconds

    if not isinstance(text, str):
        raise ValueError("a duration is a text with a unit, as '90 s', '2 days' or 'INFINITY'")
    plain = text.strip()
    if plain.upper() == "INFINITY":
        return FOREVER
    found = _DURATION.fullmatch(plain)
    unit = found[2].lower() or "s" if found else ""
    size = None
    if found and unit in UNITS and len(found[1]) <= MOST_DIGITS:
        size = microseconds(found[1], unit)
    if size is None or size > FOREVER:
        raise ValueError(f"{text!r} is no duration; write for instance 90 s, 2 days or INFINITY")
    return size


def finite(value: int) -> int:
    """The duration, if it is positive and finite; else ValueError."""
    if value >= FOREVER:
        raise ValueError("INFINITY is too long here")
    if not value:
        raise ValueError("it must be longer than nothing")
    return value


def format_duration(value: int) -> str:
    """In the largest unit that divides it: "36 h"."""
    from xscl.syntax.durations import format_microseconds

    return format_microseconds(None if value >= FOREVER else value)


def rough_duration(seconds: float) -> str:
    """Rounded to the largest unit of which there are at least two: "3 min"."""
    whole = max(0, int(seconds))
    size = next((size for size in (86_400, 3_600, 60) if whole >= 2 * size), 1)
    return format_duration(whole // size * size * 1_000_000)


def duration_up(microseconds: int) -> str:
    """Rounded up to the largest unit of which there are at least two, or just one, so that it
    serves as a window: "9 days"."""
    sizes = [s * 1_000_000 for s in (86_400, 3_600, 60, 1)]
    size = next((s for s in sizes if microseconds >= 2 * s or microseconds == s), 1)
    return format_duration(-(-microseconds // size) * size)


def parse_size(text: str) -> int:
    """A size such as 100 MB (of 1000 each) or 100 MiB (of 1024 each), in bytes.

    ValueError, with what to write instead, for anything else.
    """
    from xscl.syntax.durations import MOST_DIGITS

    found = _SIZE.fullmatch(text.strip())
    size = -1.0
    if found and len(found[1]) <= MOST_DIGITS:
        size = float(found[1]) * (1024 if found[3] else 1000) ** _POWERS[found[2].lower()]
    if not 0 <= size < _LARGEST:
        raise ValueError(f"{text!r} is no size; write for instance 100 MB or 2 GB")
    return round(size)


def format_size(value: float) -> str:
    """With at most one decimal: "2 GB", "1.5 MB"."""
    units = ["TB", "GB", "MB", "kB", "bytes"]
    while value >= 999.95 and len(units) > 1:
        value /= 1000
        units.pop()
    return f"{value:.1f}".removesuffix(".0") + f" {units[-1]}"

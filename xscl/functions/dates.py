"""Dates as text: ISO 8601 and RFC 822, to seconds since the Unix epoch."""

from __future__ import annotations

import math
import re
from datetime import date as Day
from datetime import timedelta

_EPOCH = Day(1970, 1, 1).toordinal()

_ISO = re.compile(
    r"""(\d{4})
    (?: -(?P<month>\d\d)(?:-(?P<day>\d\d))? | (?P<month2>\d\d)(?P<day2>\d\d)
      | -?W(?P<week>\d\d)(?:-?(?P<weekday>[1-7]))? | -?(?P<ordinal>\d{3}) )?
    (?: [Tt ] (?P<hour>\d\d) (?: :?(?P<minute>\d\d) (?: :?(?P<second>\d\d) )? )?
        (?: [.,](?P<fraction>\d+) )?
        \s* (?P<zone> [Zz] | [+-]\d\d(?::?\d\d)? )?
    )?""",
    re.VERBOSE | re.ASCII,
)
_RFC = re.compile(
    r"""(?:[A-Za-z]+,?\s+)? (?P<day>\d\d?) [\s-]+ (?P<month>[A-Za-z]{3})[A-Za-z]*\.? [\s-]+
    (?P<year>\d{4}|\d\d)
    (?: \s+ (?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?
        (?: \s* (?P<zone> [+-]\d\d:?\d\d | [A-Za-z]{1,5} ) )?
    )?
    \s* (?:\([^()]*\))?""",
    re.VERBOSE | re.ASCII,
)
_MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
#: RFC 822, section 5, without the military letters but Z, which RFC 2822 declares meaningless.
_ZONES = {
    "UT": 0, "UTC": 0, "GMT": 0, "Z": 0,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip


def date(text: str) -> float:
    """Seconds since 1970-01-01T00:00:00Z of a date in ISO 8601 or RFC 822; NaN if it is neither.

    ISO 8601 with its calendar, week and ordinal dates, extended and basic, and what it leaves out
    (a bare year begins with its first second). RFC 822 as feeds write it: the weekday, seconds and
    zone may be missing, the year may have two digits (00 to 49 are 2000 to 2049). A date without a
    zone is UTC. A leap second is the second after it.
    """
    text = text.strip()
    if found := _ISO.fullmatch(text):
        return _iso(found)
    if found := _RFC.fullmatch(text):
        return _rfc(found)
    return math.nan


def _iso(found: re.Match[str]) -> float:
    part = found.groupdict()
    year = int(found[1])
    try:
        if part["week"]:
            day = Day.fromisocalendar(year, int(part["week"]), int(part["weekday"] or 1))
        elif part["ordinal"]:
            day = Day(year, 1, 1) + timedelta(days=int(part["ordinal"]) - 1)
            if day.year != year:
                return math.nan
        else:
            month, number = part["month"] or part["month2"], part["day"] or part["day2"]
            day = Day(year, int(month or 1), int(number or 1))
    except (ValueError, OverflowError):
        return math.nan
    return _seconds(day, part, _offset(part["zone"]))


def _rfc(found: re.Match[str]) -> float:
    part = found.groupdict()
    month = _MONTHS.get(part["month"].lower())
    if month is None:
        return math.nan
    year = int(part["year"])
    if len(part["year"]) == 2:
        year += 2000 if year < 50 else 1900
    try:
        day = Day(year, month, int(part["day"]))
    except ValueError:
        return math.nan
    return _seconds(day, part, _offset(part["zone"]))


def _offset(zone: str | None) -> int | None:
    """Seconds east of Greenwich, None for a zone that does not exist."""
    if zone is None:
        return 0
    if zone[0] not in "+-":
        hours = _ZONES.get(zone.upper())
        return None if hours is None else hours * 3600
    digits = zone[1:].replace(":", "")
    hour, minute = int(digits[:2]), int(digits[2:] or 0)
    if hour > 23 or minute > 59:
        return None
    return (hour * 3600 + minute * 60) * (-1 if zone[0] == "-" else 1)


def _seconds(day: Day, part: dict[str, str | None], offset: int | None) -> float:
    hour, minute = int(part["hour"] or 0), int(part["minute"] or 0)
    second = int(part["second"] or 0)
    fraction = float("0." + part["fraction"]) if part["fraction"] else 0.0
    midnight = hour == 24 and minute == second == 0 and not fraction
    if offset is None or (hour > 23 and not midnight) or minute > 59 or second > 60:
        return math.nan
    # A fraction belongs to the smallest unit that was written.
    unit = 1 if part["second"] else 60 if part["minute"] else 3600
    days = day.toordinal() - _EPOCH
    return days * 86400 + hour * 3600 + minute * 60 + second + fraction * unit - offset

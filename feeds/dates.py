"""Dates as feeds write them, where they can mean one moment only.

In: the text of a date. Out: microseconds since the epoch, or None. Every form that dateutil reads
is read, unless the text is ambiguous. No clock: the same text always means the same, so a year of
two digits is one of 1950 to 2049 (RFC 5322, 4.3).

dateutil returns a date whenever it can: it takes 10/11/12 for a day, and fills in what a text
leaves out from a default. So it is called several times, with other defaults and another order of
day and month, and a date counts only if all calls return the same.
"""

from __future__ import annotations

import calendar
import contextlib
import itertools
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from dateutil.parser import isoparser, parser, parserinfo
from feedparser.datetimes.greek import _parse_date_greek
from feedparser.datetimes.hungarian import _parse_date_hungarian
from feedparser.datetimes.korean import _parse_date_nate, _parse_date_onblog

LONGEST = 100
"""Characters; a longer text is not read as a date."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Days that share no year, month or day, so that what a text leaves out differs.
_DEFAULTS = (datetime(1904, 1, 1), datetime(1908, 2, 2))

# As nearly all of RSS has it, and as the standard library reads it.
_RFC_5322 = re.compile(
    r"(?:[A-Z][a-z]{2},? )?\d\d? [A-Z][a-z]{2} [1-9]\d{3} \d\d:\d\d(?::\d\d)?"
    r" (?:[+-]\d\d[0-5]\d|GMT|[ECMP][SD]T)"
)
# ISO 8601 with a whole year in front. YYYYMM is no form of it, and may be YYMMDD.
_ISO_LIKE = re.compile(r"\d{4}(?!\d\d(?!\d))[\dW-]{0,6}(?:[T ].*)?")
_YEAR_FIRST = re.compile(r"(?:[A-Z]{3,9},?\s+)?(?:\d{4}|\d{8}|\d{12}|\d{14})(?!\d)")
_MONTH = re.compile(r"JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC")
_OFFSET = r"[+-]\d\d:?[0-5]\d"
# A comment, or a name beside the offset that counts: 10:00 +0100 (CET), 10:00 GMT+0100 (Central
# ...)
_COMMENT = re.compile(rf"({_OFFSET}|\s[A-Z]{{2,5}})\s*\([^()]*\)$|({_OFFSET})\s+[A-Z]{{2,5}}$")
# To dateutil GMT+1 would be the zone that GMT is one hour ahead of.
_GMT_OFFSET = re.compile(rf"\s(?:GMT|UTC|UT)(?={_OFFSET}$)")
# EST-1, two times of day, 60 minutes of an offset and more, four numbers of a day, the first
# century.
_DOUBTFUL = re.compile(
    r":\d\d\s*(?!AM|PM)[A-Z]{2,}\s?[+-]\s?\d"
    r"|:\d\d.*\s\d\d?:\d\d"
    r"|:\d\d\s*[+-]\d\d:?[6-9]\d$"
    r"|\d[-/.]\d+[-/.]\d+[-/.]\d"
    r"|(?:^|\s)00\d\d(?:\s|$)"
)

# The zone of a date in another language, if it is a name.
_LAST_NAME = re.compile(r"\b[A-Z]+$", re.ASCII)

_HOUR = 3_600
_FARTHEST = timedelta(hours=14)
_RFC_822 = {
    "UT": 0, "GMT": 0, "UTC": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5,
    "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
# Abbreviations of the tz database (2020 and later) that have one offset only, wherever they are
# used.
_ONE_OFFSET = {
    "ACDT": 10.5, "ACST": 9.5, "ADT": -3, "AEDT": 11, "AEST": 10, "AKDT": -8, "AKST": -9, "AST": -4,
    "AWST": 8, "BST": 1, "CAT": 2, "CEST": 2, "CET": 1, "EAT": 3, "EEST": 3, "EET": 2, "HDT": -9,
    "HKT": 8, "HST": -10, "IDT": 3, "JST": 9, "KST": 9, "MEST": 2, "MET": 1, "MSK": 3, "NDT": -2.5,
    "NST": -3.5, "NZDT": 13, "NZST": 12, "PKT": 5, "SAST": 2, "SST": -11, "WAT": 1, "WEST": 1,
    "WET": 0, "WIB": 7, "WIT": 9, "WITA": 8,
}  # fmt: skip
OFFSETS = {name: round(hours * _HOUR) for name, hours in (_ONE_OFFSET | _RFC_822).items()}
"""Seconds east of Greenwich of the names of zones that have one meaning."""
# Names of a zone in winter and in summer.
_PREVAILING = {
    "AT": "America/Halifax", "ET": "America/New_York", "CT": "America/Chicago",
    "MT": "America/Denver", "PT": "America/Los_Angeles",
}  # fmt: skip


class _Info(parserinfo):  # type: ignore[misc]
    """dateutil's vocabulary, without words that mean something else in feeds (A, M and P are
    military zones)."""

    JUMP = (" ", ".", ",", ";", "-", "/", "at", "on", "t", "of", "st", "nd", "rd", "th")
    AMPM = (("am",), ("pm",))
    UTCZONE = ("UTC", "GMT", "UT", "Z")
    WEEKDAYS = (
        ("Mon", "Monday"),
        ("Tue", "Tues", "Tuesday"),
        ("Wed", "Weds", "Wednesday"),
        ("Thu", "Thur", "Thurs", "Thursday"),
        ("Fri", "Friday"),
        ("Sat", "Saturday"),
        ("Sun", "Sunday"),
    )

    def convertyear(self, year: int, century_specified: bool = False) -> int:
        if year >= 100 or century_specified:
            return year
        return year + (2000 if year < 50 else 1900)


_PARSER = parser(_Info())
_ISO = isoparser()


@lru_cache(4_096)
def read_date(text: str) -> int | None:
    """A date in microseconds since the epoch, None unless it can mean one moment only.

    Without a zone it is UTC, without a time of day the first moment of its day (of its month or
    year where it is an ISO date that names no more). Names of zones count in capitals or not; one
    that is unknown, or means several, makes the date unreadable.
    """
    text = " ".join(text.split())
    if not 4 <= len(text) <= LONGEST:
        return None
    if not text.isascii():
        return _read_foreign(text)
    try:
        if _RFC_5322.fullmatch(text):
            return _microseconds(parsedate_to_datetime(text))
        if _ISO_LIKE.fullmatch(text):
            return _microseconds(datetime.fromisoformat(text))
    except ValueError:
        pass
    text = text.upper()
    if _ISO_LIKE.fullmatch(text):
        try:
            return _microseconds(_ISO.isoparse(text))
        except ValueError:
            pass
    return _read_other(text)


def _read_foreign(text: str) -> int | None:
    """A date with Greek, Hungarian or Korean names, of which feedparser knows some forms."""
    zone = _LAST_NAME.search(text.upper())
    if zone is not None and zone[0] not in _RFC_822:
        return None
    for read in (_parse_date_greek, _parse_date_hungarian, _parse_date_nate, _parse_date_onblog):
        with contextlib.suppress(ValueError, KeyError, OverflowError, AttributeError):
            if moment := read(text):
                return calendar.timegm(moment) * 1_000_000
    return None


def _read_other(text: str) -> int | None:
    text = _COMMENT.sub(lambda found: found[1] or found[2], text)
    text = _GMT_OFFSET.sub("", text).replace(" ETC/", " ").replace(".M.", "M")
    if _DOUBTFUL.search(text):
        return None
    # Whether the year comes first, and the day before the month.
    year_first = _YEAR_FIRST.match(text) is not None
    orders = [(year_first, False)] * 2
    if not year_first and not _MONTH.search(text):
        orders = [
            (year_first, day_first) for year_first in (False, True) for day_first in (False, True)
        ]
    moments = set()
    for (year_first, day_first), default in zip(orders, itertools.cycle(_DEFAULTS), strict=False):
        try:
            moment = _PARSER.parse(
                text, default, tzinfos=_zone, yearfirst=year_first, dayfirst=day_first
            )
            moments.add(_microseconds(moment))
        except (ValueError, OverflowError, TypeError, AttributeError):  # what dateutil raises
            return None
    return moments.pop() if len(moments) == 1 else None


def _zone(name: str | None, offset: int | None) -> tzinfo:
    """The zone of a name or an offset in seconds, UTC for neither. ValueError if it means
    nothing."""
    if offset is not None and (name is None or name not in OFFSETS or OFFSETS[name] == offset):
        return timezone(timedelta(seconds=offset))
    if name is None:
        return UTC
    if name in _PREVAILING:
        return ZoneInfo(_PREVAILING[name])
    if name not in OFFSETS:
        raise ValueError("an unknown or ambiguous zone")
    return timezone(timedelta(seconds=OFFSETS[name]))


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if abs(moment.utcoffset() or timedelta()) > _FARTHEST:
        raise ValueError("there is no such zone")
    return (moment - _EPOCH) // timedelta(microseconds=1)

"""When to fetch a feed again: by its publisher's wish, its rate of new items, and its failures.

In: numbers and header fields. Out: seconds to wait, and items per day. No I/O and no clock; random
numbers from 0 to 1 are passed in as `chance`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

DAY = 86_400.0
LONGEST_WAIT = DAY
"""Seconds: no publisher's wish, no failure and no Retry-After delays a fetch for longer."""
SLOWEST = 32.0
"""A feed without new items is fetched after this many times the shortest interval."""
SHARE = 8.0
"""A feed is fetched this many times between two new items, within the other bounds."""
PUSHED_WAIT = 6 * 3600.0
"""Seconds between two fetches of a feed whose hub pushes; they find items that the hub lost."""
JITTER = 0.1

_RATE_DAYS = 7.0
_FIRST_GUESS = 1.0


def regular_wait(
    interval: float,
    items_per_day: float | None,
    wish: float,
    chance: float,
    *,
    pushed: bool = False,
) -> float:
    """Seconds until the next fetch of a feed whose last fetch succeeded.

    `interval` is the shortest time between two fetches. A feed with few new items is fetched less
    often, and no feed before the `wish` of its publisher (seconds, 0 for none). Up to a tenth is
    added by `chance`, so that feeds which were first fetched together drift apart.
    """
    wait = interval
    if items_per_day is not None:
        gap = DAY / SHARE / max(items_per_day, 1e-9)
        wait = min(max(interval, gap), SLOWEST * interval, max(interval, LONGEST_WAIT))
    if pushed:
        wait = max(wait, PUSHED_WAIT)
    return max(wait, min(wish, LONGEST_WAIT)) * (1 + JITTER * chance)


def failure_wait(interval: float, errors: int, retry_after: float | None, chance: float) -> float:
    """Seconds until the next fetch after `errors` failures in a row (1 for the first).

    Twice as long each time, up to a day; half of it is random (`chance`), so that feeds which
    failed together are not retried together. Never sooner than Retry-After says, up to a day.
    """
    longest = min(interval * 2.0 ** min(errors, 20), max(interval, LONGEST_WAIT))
    wait = longest / 2 * (1 + chance)
    return max(wait, interval, min(retry_after or 0.0, LONGEST_WAIT))


def longest_wait(interval: float) -> float:
    """The longest wait there can be, in seconds; a later due time was set by a wrong clock."""
    return max(interval, LONGEST_WAIT) * (1 + JITTER) + interval


def retry_after(value: str, now: float) -> float | None:
    """Seconds to wait, from a number of seconds or a date (RFC 9110, 10.2.3); None for neither."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    moment = _seconds(value)
    return None if moment is None else max(0.0, moment - now)


def freshness(headers: Mapping[str, str]) -> float:
    """Seconds for which a response is fresh (RFC 9111, 4.2), 0 if it does not say; the names of
    `headers` are in lower case."""
    parts = (part.partition("=") for part in headers.get("cache-control", "").split(","))
    directives = {name.strip().lower(): value.strip().strip('"') for name, _, value in parts}
    if "no-cache" in directives or "no-store" in directives:
        return 0.0
    if "max-age" in directives:
        age = _number(headers.get("age", ""))
        return max(0.0, _number(directives["max-age"]) - age)
    expires, date = _seconds(headers.get("expires", "")), _seconds(headers.get("date", ""))
    return 0.0 if expires is None or date is None else max(0.0, expires - date)


def first_rate(times: Iterable[float], now: float) -> float:
    """Items per day, from the dates (seconds) of the items of the first document of a feed.

    The greater of two estimates: what `next_rate` would be now had it counted these items as they
    came, and their number over their time span, since a document holds the newest few only.
    """
    ages = [(now - time) / DAY for time in times if time <= now]
    if not ages:
        return _FIRST_GUESS
    watched = sum(math.exp(-age / _RATE_DAYS) for age in ages) / _RATE_DAYS
    return max(watched, (len(ages) - 1) / max(*ages, 0.01) if len(ages) > 1 else 0.0)


def next_rate(rate: float, new: int, elapsed: float) -> float:
    """Items per day after `new` more in `elapsed` seconds: an average in which the weight of older
    items decays over a week."""
    return rate * math.exp(-max(elapsed, 0.0) / DAY / _RATE_DAYS) + new / _RATE_DAYS


def _number(text: str) -> float:
    text = text.strip()
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0


def _seconds(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    except (ValueError, OverflowError):
        return None

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.schedule import (
    DAY,
    LONGEST_WAIT,
    PUSHED_WAIT,
    failure_wait,
    first_rate,
    freshness,
    longest_wait,
    next_rate,
    regular_wait,
    retry_after,
)

NOW = 1_791_187_200.0  # 2026-10-05T08:00:00Z


@pytest.mark.parametrize(
    ("items_per_day", "minutes"),
    [(None, 15), (1000.0, 15), (12.0, 15), (4.0, 45), (1.0, 180), (0.1, 480), (0.0, 480)],
)
def test_a_feed_is_asked_as_often_as_it_brings_something(
    items_per_day: float | None, minutes: float
) -> None:
    assert regular_wait(900.0, items_per_day, 0, 0.0) == minutes * 60


@pytest.mark.parametrize(
    ("wish", "wait"), [(0, 900), (60, 900), (3600, 3600), (604_800, LONGEST_WAIT)]
)
def test_never_before_the_publisher_wishes_but_once_a_day(wish: float, wait: float) -> None:
    assert regular_wait(900.0, 50.0, wish, 0.0) == wait


def test_a_pushed_feed_is_polled_at_longer_intervals() -> None:
    assert regular_wait(900.0, 50.0, 0, 0.0, pushed=True) == PUSHED_WAIT
    assert regular_wait(2 * DAY, 50.0, 0, 0.0, pushed=True) == 2 * DAY


@given(st.floats(1, 1e6), st.none() | st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1))
def test_a_wait_has_bounds(interval: float, rate: float | None, wish: float, chance: float) -> None:
    wait = regular_wait(interval, rate, wish, chance)
    assert interval <= wait <= 1.1 * max(LONGEST_WAIT, interval) <= longest_wait(interval)


@given(st.floats(1, 1e6), st.integers(1, 10**6), st.none() | st.floats(0, 1e9), st.floats(0, 1))
def test_a_failure_waits_within_bounds_and_as_long_as_asked(
    interval: float, errors: int, asked: float | None, chance: float
) -> None:
    wait = failure_wait(interval, errors, asked, chance)
    assert interval <= wait <= max(LONGEST_WAIT, interval) <= longest_wait(interval)
    assert wait >= min(asked or 0.0, LONGEST_WAIT)


def test_failures_wait_twice_as_long_each_time_with_chance() -> None:
    assert [failure_wait(60.0, errors, None, 0.0) for errors in (1, 2, 3)] == [60, 120, 240]
    assert [failure_wait(60.0, errors, None, 1.0) for errors in (1, 2, 3)] == [120, 240, 480]
    assert failure_wait(60.0, 1, 1000.0, 0.5) == 1000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Mon, 05 Oct 2026 08:05:00 GMT", 300.0),
        ("Mon, 05 Oct 2026 10:05:00 +0200", 300.0),
        ("Mon, 05 Oct 2026 08:05:00", 300.0),
        ("Mon, 05 Oct 2020 08:05:00 GMT", 0.0),
        ("9" * 400, 999_999_999.0),
        ("soon", None),
        ("Sun Sep 99 nonsense", None),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999999999", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("٣", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"cache-control": "public, max-age=600"}, 600.0),
        ({"cache-control": 'Max-Age="600"', "age": "100"}, 500.0),
        ({"cache-control": "max-age=600", "age": "900"}, 0.0),
        ({"cache-control": "no-cache, max-age=600"}, 0.0),
        ({"cache-control": "no-store"}, 0.0),
        ({"cache-control": "max-age=soon"}, 0.0),
        (
            {"expires": "Mon, 05 Oct 2026 09:00:00 GMT", "date": "Mon, 05 Oct 2026 08:00:00 GMT"},
            3600.0,
        ),
        ({"expires": "0", "date": "Mon, 05 Oct 2026 08:00:00 GMT"}, 0.0),
        ({"expires": "Mon, 05 Oct 2026 09:00:00 GMT"}, 0.0),
        ({}, 0.0),
    ],
)
def test_freshness(headers: dict[str, str], seconds: float) -> None:
    assert freshness(headers) == seconds


def test_the_first_document_says_how_often_items_come() -> None:
    daily = [NOW - n * DAY for n in range(60)]
    assert first_rate(daily, NOW) == pytest.approx(1.0, rel=0.1)
    # The newest ten of a busy feed tell of an hour only.
    assert first_rate([NOW - n * 360 for n in range(10)], NOW) == pytest.approx(240, rel=0.15)
    assert first_rate([NOW - 300 * DAY], NOW) < 0.001
    assert first_rate([], NOW) == 1.0
    assert first_rate([NOW + DAY], NOW) == 1.0
    assert first_rate([NOW] * 5, NOW) < 1000


@pytest.mark.parametrize("per_day", [0.0, 0.5, 1.0, 20.0])
def test_the_rate_comes_to_what_the_feed_does(per_day: float) -> None:
    rate, owed = 5.0, 0.0
    for _ in range(40 * 4):
        owed += per_day / 4
        new, owed = int(owed), owed - int(owed)
        rate = next_rate(rate, new, DAY / 4)
    assert rate == pytest.approx(per_day, abs=0.1 + 0.1 * per_day)
    assert next_rate(rate, 0, -5.0) == rate


def test_a_week_without_items_leaves_a_third_of_the_rate() -> None:
    assert next_rate(10.0, 0, 7 * DAY) == pytest.approx(10 / math.e)
    assert next_rate(0.0, 7, 0.0) == pytest.approx(1.0)

"""Dates of feeds: those with exactly one meaning are read, others are not."""

from __future__ import annotations

import html
import re
import string
import time
import zoneinfo
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

import pytest
from feedparser.datetimes import _parse_date
from hypothesis import given
from hypothesis import strategies as st

from feeds.dates import _ONE_OFFSET, read_date
from feeds.item import iso8601
from tests.feeds.data import DATA, needs_data


def read(text: str) -> str | None:
    moment = read_date(text)
    return None if moment is None else iso8601(moment)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2020/1/10 14:33:00", "2020-01-10T14:33:00Z"),
        ("2020/12/31 10:00", "2020-12-31T10:00:00Z"),
        ("2020.01.10", "2020-01-10T00:00:00Z"),
        ("2020-W02-5", "2020-01-10T00:00:00Z"),
        ("2020-010", "2020-01-10T00:00:00Z"),
        ("2020-366", "2020-12-31T00:00:00Z"),
        ("20200110T101010Z", "2020-01-10T10:10:10Z"),
        ("20200110", "2020-01-10T00:00:00Z"),
        ("20200110101010", "2020-01-10T10:10:10Z"),
        ("2020", "2020-01-01T00:00:00Z"),
        ("2020-12", "2020-12-01T00:00:00Z"),
        ("2020-01-10T24:00:00Z", "2020-01-11T00:00:00Z"),
        ("Fri, 10 Jul 2020 10:00:00 CEST", "2020-07-10T08:00:00Z"),
        ("2020-07-10 10:00 cest", "2020-07-10T08:00:00Z"),
        ("Fri, 10 Jan 2020 10:00 PM", "2020-01-10T22:00:00Z"),
        ("Fri, 10 Jan 2020 12:30 a.m.", "2020-01-10T00:30:00Z"),
        ("January 10, 2020 at 10:00 PM -0500", "2020-01-11T03:00:00Z"),
        ("31/01/2020", "2020-01-31T00:00:00Z"),
        ("12/31/2020 10:00", "2020-12-31T10:00:00Z"),
        ("13.02.2020", "2020-02-13T00:00:00Z"),
        ("10-Jan-2020 10:10", "2020-01-10T10:10:00Z"),
        ("Tues, 05 Apr 2022 10:00:00 EST", "2022-04-05T15:00:00Z"),
        ("Fri Jan 10 2020 10:10:10 GMT+0100 (Central European Time)", "2020-01-10T09:10:10Z"),
        ("Fri, 10 Jan 2020 10:00:00 +0100 (CET)", "2020-01-10T09:00:00Z"),
        ("Fri, 10 Jan 2020 10:00:00 +0100 CET", "2020-01-10T09:00:00Z"),
        ("Sun Jul 15 01:16:00 EDT 2012", "2012-07-15T05:16:00Z"),
        ("10 Jan 76 10:00 GMT", "1976-01-10T10:00:00Z"),
        ("10 Jan 49 10:00 GMT", "2049-01-10T10:00:00Z"),
        # What feedparser's own tests ask of its readers of dates.
        ("Κυρ, 11 Ιούλ 2004 12:00:00 EST", "2004-07-11T17:00:00Z"),
        ("2004-július-13T9:15-05:00", "2004-07-13T14:15:00Z"),
        ("2004-05-25 오후 11:23:17", "2004-05-25T14:23:17Z"),
        ("2004년 05월 28일  01:31:15", "2004-05-27T16:31:15Z"),
        ("2003-12-31T10:14:55.1234Z", "2003-12-31T10:14:55.123400Z"),
        ("Fri, 2006/09/15 08:19:53 EDT", "2006-09-15T12:19:53Z"),
        ("Thu, 30 Apr 2015 08:57:00 MET", "2015-04-30T07:57:00Z"),
        ("Thu, 30 Apr 2015 08:57:00 MEST", "2015-04-30T06:57:00Z"),
        ("Thu, 01 Jan 04 19:48:21 GMT", "2004-01-01T19:48:21Z"),
        ("Thu,  5 Apr 2012 10:00:00 GMT", "2012-04-05T10:00:00Z"),
        ("Wed, 19 Aug 2009 18:28:00 Etc/GMT", "2009-08-19T18:28:00Z"),
        ("Wed, 19 Feb 2012 22:40:00 GMT-01:01", "2012-02-19T23:41:00Z"),
        ("Mon, 13 Feb, 2012 06:28:00 UTC", "2012-02-13T06:28:00Z"),
        ("Thu, 01 Jan 2004 00:00 GMT", "2004-01-01T00:00:00Z"),
        ("Thu, 01 Jan 2004", "2004-01-01T00:00:00Z"),
        ("Mon, 26 January 2004 16:31:00 AT", "2004-01-26T20:31:00Z"),
        ("Mon, 26 January 2004 16:31:00 ET", "2004-01-26T21:31:00Z"),
        ("Mon, 26 July 2004 16:31:00 PT", "2004-07-26T23:31:00Z"),
        ("Thu Aug 30 2012 17:26:16 +0200", "2012-08-30T15:26:16Z"),
        ("Sun Jan  4 16:29:06 2004", "2004-01-04T16:29:06Z"),
        ("Sun Jul 15 01:16:00 +0000 2012", "2012-07-15T01:16:00Z"),
        ("2004-07-08 23:56:58 -00:20", "2004-07-09T00:16:58Z"),
        ("2004-07-08 23:56:58.0", "2004-07-08T23:56:58Z"),
    ],
)
def test_what_can_mean_one_moment_only_is_read(text: str, moment: str) -> None:
    assert read(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        # Which is the day?
        "10/01/2020",
        "10.1.2020 10:00",
        "03-12-31",
        "031231",
        "200110",
        "202001",
        "1/2/3",
        # Which day, month or year?
        "",
        "yesterday",
        "Friday",
        "10 Jan",
        "Jan 2020",
        "10:00",
        "-0312",
        "1518478934",
        # Which zone?
        "Fri, 10 Jan 2020 10:00:00 IST",
        "Fri, 10 Jan 2020 10:00:00 XYZ",
        "Fri, 10 Jan 2020 10:00:00 A",
        "Fri, 10 Jan 2020 10:00:00 M",
        "Fri, 10 Jan 2020 10:00:00 N",
        "Fri, 10 Jan 2020 10:00:00 EST-1",
        "Fri, 10 Jan 2020 10:00:00 GMT+1",
        "Fri, 10 Jan 2020 10:00:00 (CET)",
        "Fri, 10 Jan 2020 10:00:00 +9999",
        "2020-01-10T10:00:00+99:99",
        "Fri, 11 Mar 2016 01:15:00 +3000",
        "Κυρ, 11 Ιούλ 2004 12:00:00 CEST",
        # No such time of day, or two of them.
        "2020-01-10T25:00:00Z",
        "2020-01-10 25:00",
        "10 Jan 2020 25:00:00 GMT",
        "2020-01-10T10:61:00Z",
        "10 Jan 2020 10:00 11:00",
        "Fri, 10 Jan 2020 13:00 PM",
        # No such day.
        "2020-02-30T10:00:00Z",
        "Mon, 45 Oct 2026 10:00:00 GMT",
        "2020-31-01",
        "2021-366",
        "2020-W54-1",
        "Mon, 01 Jan 0001 00:00:00 +0000",
        # What feedparser's own tests ask of its readers of dates.
        "Sun, 31 Dec 9999 23:59:59 -9999",
        "Sun, 16 Dec 2012 1:2:3:4 GMT",
        "Sun, 16 zzz 2012 11:47:32 GMT",
        "Sun, Dec x 2012 11:47:32 GMT",
        "Sun, 16 Dec zz 11:47:32 GMT",
        "Sun, 16 Dec 2012 11:47:32 +zz:00",
        "Sun, 16 Dec 2012 11:47:32 +00:zz",
        "2003-12-31T10:14:61Z",
        "22013",
        "013",
        "2013-01-27-01",
        "2013-01-28T11:30:00-06:00Textra",
        "2013-xx-27",
        "2013-01-28T09:00:00+00:xx",
    ],
)
def test_what_can_mean_several_moments_is_not_read(text: str) -> None:
    assert read(text) is None


_MOMENTS = st.datetimes(datetime(1951, 1, 1), datetime(2048, 12, 31)).map(
    lambda moment: moment.replace(microsecond=0)
)
_ZONES = st.integers(-11 * 60, 13 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
_SURE = [
    "%a, %d %b %Y %H:%M:%S %z",
    "%d %B %Y %H:%M:%S %z",
    "%a %b %d %H:%M:%S %z %Y",
    "%A, %d-%b-%y %H:%M:%S %z",
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y%m%dT%H%M%S%z",
    "%Y/%m/%d %H:%M:%S %z",
    "%Y.%m.%d %H:%M:%S %z",
    "%B %d, %Y %I:%M:%S %p %z",
    "%G-W%V-%uT%H:%M:%S%z",
    "%Y-%jT%H:%M:%S%z",
]
_UNSURE = ["%d/%m/%Y %H:%M:%S %z", "%m/%d/%Y %H:%M:%S %z", "%d.%m.%Y %H:%M %z", "%d-%m-%Y"]


@given(_MOMENTS, _ZONES, st.sampled_from(_SURE))
def test_a_form_that_is_sure_gives_the_moment(moment: datetime, zone: timezone, form: str) -> None:
    aware = moment.replace(tzinfo=zone)
    assert read(aware.strftime(form)) == iso8601(round(aware.timestamp()) * 1_000_000)


@given(_MOMENTS, st.sampled_from(_UNSURE))
def test_a_form_that_is_unsure_gives_that_moment_or_none(moment: datetime, form: str) -> None:
    aware = moment.replace(tzinfo=UTC)
    text = aware.strftime(form)
    meant = datetime.strptime(text, form).replace(tzinfo=UTC)
    found = read(text)
    assert found in (None, iso8601(round(meant.timestamp()) * 1_000_000))
    assert (found is None) == (moment.day <= 12 and moment.day != moment.month)


@given(
    st.one_of(
        st.text(string.digits + " :-/.,+TZeE", max_size=60),
        st.lists(
            st.sampled_from(
                ["10", "2020", "Jan", "Fri,", "10:00", "PM", "+0100", "GMT", "9" * 30, "1e99", "("]
            )
        ).map(" ".join),
        st.text(max_size=120),
    )
)
def test_no_text_fails(text: str) -> None:
    moment = read_date(text)
    assert moment is None or -(10**18) < moment < 10**18


@pytest.mark.parametrize(
    "text", [" " * 5_000_000, "1" * 5_000_000, "(" * 99, "1:" * 49, ":00 " * 24]
)
def test_no_text_takes_long(text: str) -> None:
    start = time.process_time()
    read_date(text)
    assert time.process_time() - start < 1.0


def test_a_name_of_a_zone_has_one_offset_in_the_tz_database() -> None:
    found = defaultdict(set)
    for name in zoneinfo.available_timezones() - {"Factory", "localtime"}:
        zone = zoneinfo.ZoneInfo(name)
        for month in range(12 * 2020 + 1, 12 * 2026 + 1):
            moment = datetime((month - 1) // 12, (month - 1) % 12 + 1, 15, 12, tzinfo=zone)
            offset = moment.utcoffset()
            assert offset is not None
            found[moment.tzname()].add(offset.total_seconds() / 3600)
    assert {name: {hours} for name, hours in _ONE_OFFSET.items()} == {
        name: found[name] for name in _ONE_OFFSET
    }


_FEEDS = [
    *("feeds_codehollow", "feeds_feedjira", "feeds_greatfire2015", "feeds_kagi200"),
    *("feeds_node_feedparser", "feeds_rbren", "feedparser_tests"),
]
_NOT_READ = {
    "Fri, 11 Mar 2016 01:15:00 +3000",  # feedparser: 30 hours east
    "1518478934",  # the 184th day of 2015
    "Mon, 01 Jan 0001 00:00:00 +0000",  # a placeholder
}


_DATE = re.compile(
    rb"<(?:\w+:)?(?:pubDate|published|updated|date|issued|modified|created)(?: [^>]*)?>([^<]+)<"
)


@cache
def real_dates() -> dict[str, time.struct_time | None]:
    """Every date that stands in real feeds, and feedparser's reading."""
    texts = {
        html.unescape(text.decode("latin-1").removeprefix("<![CDATA[").removesuffix("]]>")).strip()
        for folder in _FEEDS
        for path in (DATA / folder).rglob("*")
        if path.is_file() and not path.name.startswith("_")
        for text in _DATE.findall(path.read_bytes())
    }
    return {text: _parse_date(text) for text in texts}


@needs_data
def test_no_date_that_feedparser_reads_rightly_is_lost() -> None:
    dates = real_dates()
    assert len(dates) > 6_000
    lost = {text for text, parsed in dates.items() if parsed and read_date(text) is None}
    assert lost == _NOT_READ


@needs_data
def test_the_dates_of_real_feeds_are_read_as_feedparser_reads_them() -> None:
    differ = {
        text
        for text, parsed in real_dates().items()
        if parsed is not None
        and (moment := read_date(text)) is not None
        and time.gmtime(moment // 1_000_000)[:6] != parsed[:6]
    }
    assert differ == set()

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from feeds.fetch import Fetcher
from feeds.identity import ALL
from feeds.poll import Poller, Terms
from feeds.preferences import Preferences, PreferenceTable
from feeds.spool import Spool
from tests.feeds.data import rss
from tests.feeds.site import Site

A = Preferences("http://a.example/f", "Mine", "News/City", private=True, since=5)
B = Preferences("http://b.example/f", since=ALL)


def test_listings_are_kept_beside_the_spool(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    with Spool(path) as spool:
        spool.add(A.url)
        with PreferenceTable(path) as listings:
            listings.save([A, B])
        with PreferenceTable(path) as again:
            assert again.all() == {A.url: A, B.url: B}
            again.save([Preferences(A.url, "Other")])
            again.remove([B.url, "http://never.example/"])
            assert again.all() == {A.url: Preferences(A.url, "Other")}
        assert spool.add(A.url) is False
    with Spool(path) as spool:
        assert [feed.url for feed in spool.feeds()] == [A.url]


def test_all_or_none_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    Spool(path).close()
    with PreferenceTable(path) as listings:
        with pytest.raises(sqlite3.Error):
            listings.save([A, Preferences("x", title=None)])  # type: ignore[arg-type]
        assert listings.all() == {}


def test_terms_of_listed_feeds_and_of_others(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    Spool(path).close()
    with PreferenceTable(path) as listings:
        listings.save([A, B])
        assert listings.terms(A.url) == Terms(private=True, since=5)
        assert listings.terms(B.url) == Terms(private=False, since=ALL)
        assert listings.terms("http://typed.example/") == Terms()


def test_the_poller_keeps_to_the_terms(tmp_path: Path) -> None:
    """What a feed shows at first is no news, and a feed out of a list is on no private address."""
    clock = [1_791_187_200.0]
    dated = "<title>{0}</title><link>http://a.example/{0}</link><pubDate>{1}</pubDate>"
    old = dated.format("old", "Sun, 04 Oct 2026 08:00:00 GMT")
    new = dated.format("new", "Mon, 05 Oct 2026 07:00:00 GMT")
    late = dated.format("late", "Sat, 03 Oct 2026 08:00:00 GMT")
    day_ago = int((clock[0] - 86_000) * 1_000_000)
    with (
        Site({"/typed": rss(old, new), "/listed": rss(old)}) as site,
        Fetcher(allow_private=True) as fetcher,
        Spool(tmp_path / "spool.sqlite") as spool,
        PreferenceTable(spool.path) as listings,
    ):
        typed, listed = site.url("/typed"), site.url("/listed")
        listings.save([Preferences(typed, private=True, since=day_ago), Preferences(listed)])
        poller = Poller(spool, fetcher, [typed, listed], terms=listings.terms, now=lambda: clock[0])
        poller.fetch_wave()
        assert "private address" in str(spool.state(listed).problem)
        assert site.asked == ["/typed"]

        def ids() -> list[str]:
            return [row.id[-4:].strip("/") for row in spool.read(0, spool.last_seq())]

        assert ids() == ["new"]
        # What comes later is news, whatever its date; what was there does not come again.
        site.pages["/typed"] = rss(late, old, new)
        clock[0] += 7 * 86_400
        poller.fetch_wave()
        assert ids() == ["new", "late"]


def test_there_must_be_a_spool(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error):
        PreferenceTable(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []

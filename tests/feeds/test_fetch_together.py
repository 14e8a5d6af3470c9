"""Fetches of feeds of one host, of which one at a time is under way."""

from __future__ import annotations

import threading

import pytest

from feeds.fetch import Fetched, Fetcher, Request
from tests.feeds.data import rss
from tests.feeds.odd_server import OddServer, response
from tests.waiting import PATIENCE, until

FEED = rss("<title>t</title>")


def test_the_time_that_others_take_does_not_count() -> None:
    """A host that takes three times the limit for others, one after the other, has time for each."""
    over = threading.Event()
    answers = {f"/slow{n}": lambda _: over.wait(PATIENCE) for n in range(3)}
    with (
        OddServer({**answers, "/f": response("200 OK", FEED)}) as server,
        Fetcher(allow_private=True, max_seconds=1.0) as fetcher,
    ):
        found: dict[str, Fetched] = {}

        def get(path: str) -> None:
            found[path] = fetcher.fetch(Request(server.url(path)))

        threads = [threading.Thread(target=get, args=(path,)) for path in [*answers, "/f"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        over.set()
    assert found["/f"].outcome == "ok", found["/f"].problem
    assert {found[path].problem for path in answers} == {"fetch: took more than 1 s"}


def test_who_waits_too_long_for_others_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was sent, so nothing is known of the feed; it is tried later."""
    monkeypatch.setattr("feeds.fetch._OTHERS", 0.0)
    over = threading.Event()
    answers = {"/slow": lambda _: over.wait(PATIENCE)}
    with (
        OddServer({**answers, "/f": response("200 OK", FEED)}) as server,
        Fetcher(allow_private=True, timeout=PATIENCE) as fetcher,
    ):
        slow = threading.Thread(target=lambda: fetcher.fetch(Request(server.url("/slow"))))
        slow.start()
        until(lambda: bool(server.requests))
        fetched = fetcher.fetch(Request(server.url("/f")))
        over.set()
        slow.join(PATIENCE)
    assert (fetched.outcome, fetched.status) == ("busy", None)
    assert fetched.problem == "fetch: other fetches of its host take too long"

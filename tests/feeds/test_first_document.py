"""The first document of a feed: its items are history, those of later documents are new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from feeds.fetch import Fetcher
from feeds.poll import SECOND, Poller, Terms
from feeds.seen import FORGET_AFTER
from feeds.spool import Batch, FeedState, Spool
from tests.feeds.data import rss
from tests.feeds.odd_server import OddServer, response
from tests.feeds.spooling import A, batch, broken, item, rows

NOON = 1_791_201_600  # 5 October 2026, 12:00
SINCE = NOON * SECOND
PAST, FUTURE = item("past", 1), item("future", 30)


def fetched(*items: str, arrival: int = SINCE + 1) -> Batch:
    return replace(batch(A, *items, arrival=arrival), since=SINCE)


@pytest.mark.parametrize("news", [item("undated"), PAST, FUTURE])
def test_what_comes_after_an_empty_document_is_news(spool: Spool, news: str) -> None:
    assert spool.append(fetched()) == 0
    assert spool.append(fetched(news)) == 1


def test_it_is_news_also_after_all_that_was_seen_is_forgotten(spool: Spool) -> None:
    assert spool.append(fetched(item("1"))) == 0
    spool.append(fetched(arrival=SINCE + 2))
    spool.append(fetched(arrival=SINCE + 3 + FORGET_AFTER))
    assert spool.append(fetched(item("2"), arrival=SINCE + 4 + FORGET_AFTER)) == 1


def test_a_feed_that_could_not_be_read_so_far_shows_history(spool: Spool) -> None:
    spool.append(Batch(FeedState(A, A, errors=1, problem="fetch: no"), SINCE))
    spool.append(replace(broken(A, b"<html/>"), since=SINCE))
    assert spool.append(fetched(item("undated"), PAST, FUTURE)) == 0


def test_a_feed_that_is_added_again_brings_only_what_is_new(spool: Spool) -> None:
    assert spool.append(fetched(item("1"))) == 0
    spool.remove(A)
    spool.add(A)
    assert spool.append(fetched(item("2"), item("1"))) == 1
    assert [row.id for row in rows(spool)] == ["2"]


def test_a_feed_that_was_empty_when_it_was_fetched(tmp_path: Path) -> None:
    now = float(NOON)
    with (
        OddServer({"/f": response("200 OK", rss())}) as server,
        Fetcher(allow_private=True) as fetcher,
        Spool(tmp_path / "spool") as spool,
    ):
        poller = Poller(
            spool,
            fetcher,
            [server.url("/f")],
            terms=lambda url: Terms(since=SINCE),
            now=lambda: now,
        )
        assert (poller.fetch_wave().fetched, spool.last_seq()) == (1, 0)
        for name in ("1", "2"):
            now += 86_400
            server.answers["/f"] = response("200 OK", rss(item(name)))
            assert poller.fetch_wave().rows == 1
    assert [row.id for row in rows(Spool(tmp_path / "spool"))] == ["1", "2"]

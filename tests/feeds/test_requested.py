"""Requested history: never late, oldest first, and kept until all of it is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

from broker import Broker, Match
from broker.cli.replay import batches
from broker.shared_match import each_match
from feeds.requested import Requested
from feeds.spool import Batch, Spool
from tests.cli.serving import queries, serving
from tests.feeds.data import rss
from tests.feeds.site import Site
from tests.feeds.spooling import batch

DAY = 86_400_000_000
NOON = 1_791_201_600_000_000  # 5 October 2026, 12:00
NEWS, BLOG, SLOW = (f"http://{name}.example/f" for name in ("news", "blog", "slow"))
ALONE = (
    "alone: S//item->a[./title->t] FOLLOWED BY {t = u, 7 days} NOT S//item->b[./title->u] WAIT 0 s"
)
PAIR = "pair: S//item->a[./title->t] FOLLOWED BY {t = u, 7 days} S//item->b[./title->u];"


def item(title: str, at: int) -> str:
    date = format_datetime(datetime.fromtimestamp(at // 1_000_000, UTC), usegmt=True)
    return f"<guid>{title}-{at}</guid><title>{title}</title><pubDate>{date}</pubDate>"


def fetched(url: str, *items: str) -> Batch:
    found = batch(url, *items, arrival=NOON)
    return replace(found, state=replace(found.state, last_fetch=NOON))


class Matching:
    """A spool and an engine that reads it."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.broker = Broker()
        self.broker.subscribe(PAIR)
        self.broker.subscribe(ALONE)
        self.seconds = 0.0
        self.alone: list[str] = []
        self.broker.engine.expect(Requested(spool.path, lambda: self.seconds))

    def step(self, *wave: Batch) -> list[Match]:
        """Fetch a wave, match it one document at a time, and let go what may go after each."""
        engine = self.broker.engine
        self.spool.append(wave)
        found: list[Match] = []
        for row in list(self.spool.read(engine.position, self.spool.last_seq())):
            ((arrivals, _),) = batches(iter([row]), engine.matcher)
            matches = each_match(engine.apply(arrivals, NOON, row.seq))
            found += [match for match in matches if match.query == "pair"]
            self.alone += [match.documents[0].id for match in matches if match.query == "alone"]
            engine.retain()
        self.spool.trim(engine.position)
        return found

    def late(self) -> list[str]:
        return [letter.id for letter in self.broker.dead_letters()]

    def held(self) -> int:
        return len(self.broker.engine.store.rows("SELECT 1 FROM documents WHERE xml IS NOT NULL"))


@pytest.fixture
def matching(tmp_path: Path) -> Iterator[Matching]:
    with Spool(tmp_path / "spool.sqlite", now=lambda: NOON / 1e6) as spool:
        yield Matching(spool)


def test_what_was_asked_for_joins_however_old_it_is(matching: Matching) -> None:
    matching.step(fetched(NEWS, item("today", NOON)))
    matching.spool.add_all({BLOG: None, SLOW: None})
    assert matching.step(fetched(BLOG, item("tide", NOON - 60 * DAY))) == []
    assert matching.held() == 2, "nothing goes while the slow feed was not read"
    old = [item("tide", NOON - at * DAY) for at in (55, 58)]
    assert len(matching.step(fetched(SLOW, *old))) == 3
    assert matching.late() == []
    matching.broker.engine.retain()
    assert matching.held() == 1


def test_event_patterns_decide_when_all_of_it_is_there(matching: Matching) -> None:
    """What is absent from the first feed may be in the last, which comes much later."""
    tide, ebb, again = [
        item(name, NOON - at * DAY) for name, at in (("tide", 60), ("ebb", 59), ("tide", 58))
    ]
    matching.spool.add_all({BLOG: None, SLOW: None})
    matching.step(fetched(BLOG, tide, ebb), fetched(NEWS, item("today", NOON)))
    assert matching.alone == []
    matching.step(fetched(SLOW, again))
    assert matching.late() == []
    assert matching.alone == [f"ebb-{NOON - 59 * DAY}", f"tide-{NOON - 58 * DAY}"]


def test_event_patterns_decide_by_the_clock_when_a_feed_is_empty(matching: Matching) -> None:
    matching.spool.add_all({BLOG: None, SLOW: None})
    matching.step(fetched(BLOG, item("tide", NOON - 60 * DAY), item("today", NOON)))
    assert matching.alone == []
    matching.step(fetched(SLOW))
    found = each_match(matching.broker.engine.decide())
    assert found[0].documents[0].id == f"tide-{NOON - 60 * DAY}"


def test_it_is_admitted_oldest_first_and_before_what_is_new(matching: Matching) -> None:
    matching.step(fetched(NEWS, item("today", NOON)))
    blog, slow = ([item("a", NOON - at * DAY) for at in ages] for ages in ((50, 30), (40,)))
    matching.spool.append(
        [fetched(NEWS, item("new", NOON - DAY)), fetched(BLOG, *blog), fetched(SLOW, *slow)]
    )
    times = [(NOON - row.timestamp) // DAY for row in matching.spool.read(1, 9)]
    assert times == [50, 40, 30, 1]


def test_what_comes_later_may_be_late(matching: Matching) -> None:
    matching.step(fetched(NEWS, item("today", NOON)))
    matching.step(fetched(BLOG, item("old", NOON - 60 * DAY)))
    matching.step(fetched(BLOG, item("edited", NOON - 50 * DAY)))
    assert matching.late() == [f"edited-{NOON - 50 * DAY}"]


def test_a_feed_that_cannot_be_read_is_not_waited_for(matching: Matching) -> None:
    matching.step(fetched(NEWS, item("today", NOON)))
    matching.spool.add_all({BLOG: None, SLOW: None})
    matching.step(fetched(BLOG, item("tide", NOON - 60 * DAY)))
    assert matching.held() == 2
    failed = replace(fetched(SLOW), channel=None)
    matching.step(replace(failed, state=replace(failed.state, errors=1, problem="no")))
    matching.broker.engine.retain()
    assert matching.held() == 1


def test_nothing_is_waited_for_without_end(matching: Matching) -> None:
    matching.step(fetched(NEWS, item("today", NOON)))
    matching.spool.add(SLOW)
    matching.step(fetched(BLOG, item("tide", NOON - 60 * DAY)))
    assert matching.held() == 2
    matching.seconds = 3_601.0
    matching.broker.engine.retain()
    assert matching.held() == 1


def test_a_service_joins_the_history_of_blogs_beside_a_news_feed(tmp_path: Path) -> None:
    with Site({}) as site, serving(tmp_path / "state") as service:
        now = int(time.time()) * 1_000_000
        site.pages["/news"] = rss(item("today", now))
        site.pages["/blog"] = rss(item("tide", now - 90 * DAY), item("ebb", now - 400 * DAY))
        site.pages["/slow"] = rss(item("tide", now - 88 * DAY), item("ebb", now - 399 * DAY))
        service.done("subscribe", queries(tmp_path, PAIR))
        service.done("feeds", "add", site.url("/news"), "--since", "INFINITY", "--allow-private")
        service.until("/v1/status", lambda told: told["intake"]["applied"] == 1)
        service.done(
            "feeds",
            "add",
            site.url("/blog"),
            site.url("/slow"),
            "--since",
            "INFINITY",
            "--allow-private",
        )
        found = service.matched("pair", 2)
        assert sorted(match["values"]["t"] for match in found) == [["ebb"], ["tide"]]
        assert service.api.get("/v1/dead-letters").json() == []

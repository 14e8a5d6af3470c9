"""`broker feeds add --history`: a feed with all its older pages, also while a service runs."""

from __future__ import annotations

import email.utils
import time
from pathlib import Path

import pytest

from feeds.spool import Spool
from tests.cli.feeding import Broker
from tests.feeds.data import rss
from tests.feeds.site import Site
from tests.service.process import Process
from tests.waiting import until


def test_history_is_fetched_when_asked(mine: Broker, site: Site) -> None:
    older = rss("<guid>0</guid>")
    site.pages["/f"] = rss(
        "<guid>1</guid>",
        channel='<a:link xmlns:a="http://www.w3.org/2005/Atom" rel="prev-archive" href="/old"/>',
    )
    site.pages["/old"] = older
    url = site.url("/f")
    done = mine("add", url, "--history")
    assert done.returncode == 0, done.stderr
    assert f"{url}: 2 items, 1 older page\n" in done.stderr
    with Spool(mine.state / "spool.sqlite") as spool:
        assert [row.id for row in spool.read(0, 9)] == ["0", "1"]
    mine.poll()  # nothing is due, nothing comes twice
    assert site.asked == ["/f", "/old"]
    assert mine("add", site.url("/nothing"), "--history").returncode == 1


def dated(name: str, days: float) -> str:
    return f"<guid>{name}</guid><pubDate>{email.utils.formatdate(time.time() - 86_400 * days)}</pubDate>"


def test_a_running_service_gets_the_history_and_goes_on(tmp_path: Path) -> None:
    """It numbers what the command has read, in its own order, and asks for nothing meanwhile."""
    state, pages = tmp_path / "state", {}
    link = '<a:link xmlns:a="http://www.w3.org/2005/Atom" rel="prev-archive" href="/old"/>'
    pages["/f"] = rss(dated("new", 0.1), dated("week", 6), channel=link)
    pages["/old"] = rss(dated("old", 20), dated("older", 40))
    with Site(pages) as site, Process(state) as service:
        service.subscribe("all: S//item[./guid->g]")
        service.subscribe("others: S//a")
        service.publish("<a/>")
        until(lambda: service.matches(subscription="others"))
        url = site.url("/f")
        mine = Broker(state)
        assert mine("add", url, "--history", "--since", "7 days").returncode == 0
        published = [service.publish("<a/>")["last"] for _ in range(5)]
        until(lambda: len(service.matches(subscription="all")) == 2)
        published += [service.publish("<a/>")["last"] for _ in range(5)]
        assert len({*published}) == 10
        until(lambda: len(service.matches(subscription="others")) == published[-1] - 2)
        found = {match["documents"][0]["id"] for match in service.matches(subscription="all")}
        assert found == {"new", "week"}
        assert site.asked == ["/f", "/old"]
        assert not service.client.get("/v1/events").json()
        assert mine("refresh", url).returncode == 0
        until(lambda: site.asked == ["/f", "/old", "/f"])


def test_a_feed_whose_history_cannot_be_read_is_fetched_by_the_service(
    mine: Broker, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    url = site.url("/news.rss")
    with monkeypatch.context() as patch:
        patch.setattr("broker.cli.feeds.history.fetching", interrupted)
        assert mine("add", url, "--history").returncode == 130
    mine.poll()
    assert site.asked == ["/news.rss"]

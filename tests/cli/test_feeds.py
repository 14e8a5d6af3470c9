"""`broker feeds`, as a user types it, against real servers and a real spool."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from feeds.hubs import Subscription
from feeds.identity import ALL
from feeds.preferences import PreferenceTable
from feeds.spool import Spool
from tests.cli.feeding import NEWS, NO_NEWS, Broker, broker
from tests.cli.terminal import typed
from tests.cli.test_queries import broker as process
from tests.feeds.data import SAMPLES
from tests.feeds.site import Page, Site


def test_add_list_and_remove(mine: Broker, site: Site) -> None:
    url = site.url("/news.rss")
    path = SAMPLES / "gannet.rss"
    done = mine("add", url, path, "--folder", "News/City")
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"added: {url}\nadded: {path.as_uri()}\n{NO_NEWS}"
    assert mine("add", url).stderr == f"already there: {url}\n"
    assert [(feed["url"], feed["folder"], feed["typed"]) for feed in mine.listed()] == [
        (path.as_uri(), "News/City", True),
        (url, "News/City", True),
    ]
    assert site.asked == []
    assert mine("remove", path).stderr == f"removed: {path.as_uri()}\n"
    assert [feed["url"] for feed in mine.listed()] == [url]


def test_the_state_is_that_of_the_service_here_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BROKER_STATE", raising=False)
    done = broker("feeds", "add", "http://a.example/f")
    assert (done.returncode, "Missing option '--state'" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "broker-state").mkdir()
    assert broker("feeds", "add", "http://a.example/f").returncode == 0
    assert "http://a.example/f" in broker("feeds", "list").stdout
    assert broker("feeds", "remove", "http://a.example/f").returncode == 0
    done = broker("feeds", "list")
    assert (done.stdout, done.stderr) == (
        "",
        "no feeds; broker feeds add and broker feeds import add some\n",
    )


def test_a_file_has_one_address_whichever_way_it_is_named(
    mine: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    feed = tmp_path / "b.rss"
    feed.write_bytes(NEWS)
    monkeypatch.chdir(tmp_path / "a")
    assert mine("add", "../b.rss").stderr == f"added: {feed.as_uri()}\n{NO_NEWS}"
    assert mine("add", "../a/../b.rss").stderr == f"already there: {feed.as_uri()}\n"
    known = f"{tmp_path.as_uri()}/a/../b.rss"
    assert mine("add", known).stderr == f"added: {known}\n{NO_NEWS}", "as it was named before"
    assert mine("remove", known, "../b.rss").returncode == 0


def test_as_a_process_of_its_own(mine: Broker, site: Site) -> None:
    state = ("--state", mine.state)
    assert process("feeds", "add", "--allow-private", site.url("/news.rss"), *state).returncode == 0
    done = process("feeds", "list", "--format", "jsonl", *state)
    assert [json.loads(line) for line in done.stdout.splitlines()] == mine.listed()
    assert process("feeds", "remove", "http://a.example/", *state).returncode == 1
    assert process("feeds", "check").returncode == 2


def test_the_list_shows_how_feeds_are(mine: Broker, site: Site) -> None:
    well, ill, odd = (site.url(path) for path in ("/news.rss", "/nothing", "/news.atom"))
    mine("add", well, ill, odd)
    mine("pause", odd)
    mine.poll()
    by_url = {str(feed["url"]): feed for feed in mine.listed()}
    assert by_url[well]["errors"] == 0
    assert by_url[well]["problem"] is None
    assert by_url[well]["last_success"]
    assert by_url[ill]["errors"] == 1
    assert by_url[ill]["problem"] == "fetch: not found (404)"
    assert by_url[odd]["status"] == "paused"
    done = mine("list")
    header, *lines = done.stdout.splitlines()
    assert re.split("  +", header) == [
        *("STATUS", "LAST SUCCESS", "NEXT FETCH", "ERRORS", "ITEMS/DAY", "TITLE", "URL", "REASON"),
    ]
    address = re.compile(r"http://\S+")
    assert {address.findall(line)[0]: line.split()[0] for line in lines} == {
        well: "ok",
        ill: "failing",
        odd: "paused",
    }
    assert len({line.index("http://") for line in lines}) == 1  # columns line up
    assert re.search(f"{ill} +fetch: not found .404.$", "\n".join(lines), re.MULTILINE)
    assert done.stderr == ""
    assert mine("resume", odd).returncode == 0
    mine.poll()
    assert {feed["status"] for feed in mine.listed()} == {"active"}


def test_logins_are_kept_apart_and_not_shown(mine: Broker, site: Site) -> None:
    typed = site.url("/login").replace("http://", "http://ann:s3cret@")
    done = mine("add", typed)
    assert mine("check").returncode == 1
    shown = done.stderr + mine("list").stdout + json.dumps(mine.listed()) + mine("export").stdout
    assert site.url("/login") in shown
    assert "s3cret" not in shown
    assert "ann" not in shown


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("example.org/feed", "no such file (the address of a feed begins with https://)"),
        ("ftp://a.example/f", "a 'ftp:' address is not fetched, only http and https"),
        ("http://[a/", "not an address (write it as https://host/path)"),
        ("http:///f", "not an address (write it as https://host/path)"),
        ("http://a example/f", "not an address (write it as https://host/path)"),
        ("http://a.example:99999/f", "not an address (write it as https://host/path)"),
    ],
)
def test_what_is_no_address(typed: str, said: str, mine: Broker) -> None:
    done = mine("add", typed)
    assert (done.returncode, done.stderr) == (1, f"broker: {typed}: {said}\n")
    assert not mine.state.exists()


@pytest.mark.parametrize("command", ["remove", "pause", "resume"])
def test_a_feed_that_is_not_there(command: str, mine: Broker) -> None:
    assert "no feeds there" in mine(command, "http://a.example/f").stderr
    mine("add", "http://b.example/f")
    done = mine(command, "http://a.example/f")
    assert done.returncode == 1
    assert done.stderr.startswith("broker: http://a.example/f: not watched")


def test_one_of_several_feeds_that_fails_holds_up_none_of_the_others(
    mine: Broker, tmp_path: Path
) -> None:
    a, b, c = (f"http://{name}.example/f" for name in "abc")
    done = mine("add", a, "no-feed", b)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"added: {a}",
        "no-feed: no such file (the address of a feed begins with https://)",
        f"added: {b}",
        NO_NEWS.rstrip(),
        "broker: 1 of 3 failed",
    ]
    done = mine("pause", c, a)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{c}: not watched (see broker feeds list)",
        f"paused: {a}",
        "broker: 1 of 2 failed",
    ]
    assert {feed["url"]: feed["status"] for feed in mine.listed()} == {a: "paused", b: "active"}
    assert mine("resume", a).stderr == f"resumed: {a}\n"
    list_ = tmp_path / "list.opml"
    list_.write_text('<opml><body><outline type="rss" xmlUrl="http://d.example/f"/></body></opml>')
    done = mine("import", tmp_path / "none.opml", list_)
    assert done.returncode == 1
    assert f"{list_}: 1 feed, 1 of them new" in done.stderr
    assert mine("remove", c, a, b).returncode == 1
    assert [feed["url"] for feed in mine.listed()] == ["http://d.example/f"]


def test_what_is_not_changed_of_a_feed_that_is_there_is_said(mine: Broker) -> None:
    mine("add", "http://a.example/f")
    done = mine("add", "http://a.example/f", "--folder", "News")
    assert "as it was: see broker feeds edit" in done.stderr
    assert [feed["folder"] for feed in mine.listed()] == [""]


def test_an_empty_name_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("add", "http://a.example/f"), ("list",), ("export",), ("check",)):
        done = broker("feeds", *command, "--state", "")
        assert done.returncode == 2
        assert "the name of a directory is missing" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_output_that_takes_no_more(mine: Broker) -> None:
    mine("add", "http://a.example/f")
    command = "from broker.cli import main; main()"
    arguments = ["feeds", "list", "--state", str(mine.state)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", command, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "broker: output: No space left on device\n")


@pytest.mark.parametrize("command", ["list", "export", "check"])
def test_a_state_directory_is_not_made_by_looking(command: str, mine: Broker) -> None:
    done = mine(command)
    assert done.returncode == 1
    assert "no feeds there" in done.stderr
    assert not mine.state.exists()


def test_a_file_that_is_no_spool(mine: Broker) -> None:
    mine.state.mkdir()
    (mine.state / "spool.sqlite").write_text("something else, and long enough to be read")
    for command in ("list", "export"):
        done = mine(command)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "spool.sqlite" in done.stderr


# -- what may be fetched, and how often -------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "192.168.7.7", "2130706433"])
def test_a_private_address_is_refused_at_once_with_the_way_out(host: str, mine: Broker) -> None:
    url = f"http://{host}:9/feed"
    done = mine("add", url, "http://a.example/f", private=False)
    assert done.returncode == 1
    assert f"{host.strip('[]')} is a private address; to" in done.stderr
    assert "to have it fetched all the same, say --allow-private" in done.stderr
    assert [feed["url"] for feed in mine.listed()] == ["http://a.example/f"]
    assert mine("add", url).returncode == 0
    assert url in [feed["url"] for feed in mine.listed()]


def test_what_is_said_of_a_feed_can_be_changed(mine: Broker, site: Site) -> None:
    url = site.url("/news.rss")
    mine("add", url)
    mine.poll()
    done = mine("edit", url, "--title", "Mine", "--folder", "A/B", "--interval", "3 days")
    assert (done.returncode, done.stderr) == (0, f"changed: {url}\n")
    (feed,) = mine.listed()
    assert (feed["title"], feed["folder"], feed["interval"]) == ("Mine", "A/B", 259_200.0)
    assert feed["next_fetch"] is None, "due at once, and from then on in its new interval"
    mine("edit", url, "--title", "", "--interval", "auto")
    (feed,) = mine.listed()
    assert (feed["title"], feed["folder"], feed["interval"]) == ("News", "A/B", None)
    done = mine("edit", url, "--no-allow-private")
    assert (done.returncode, done.stderr.count("private address")) == (1, 1)
    assert mine("edit", url).returncode == 2
    assert mine("edit", "http://b.example/", "--title", "x").returncode == 1


def test_a_feed_is_fetched_as_often_as_the_user_says(mine: Broker, site: Site) -> None:
    url, other = site.url("/news.rss"), site.url("/news.atom")
    mine("add", url, other)
    mine("edit", url, "--interval", "3 days")
    for interval, wanted in ((None, 900.0), (60.0, 60.0)):
        mine("refresh", "--all")
        before = time.time()
        mine.poll(interval)
        with Spool(mine.state / "spool.sqlite") as spool:
            waits = {each.url: each.next_fetch / 1e6 - before for each in spool.feeds()}
        assert waits[url] == pytest.approx(259_200, abs=60)
        assert waits[other] >= wanted - 1
        assert (waits[other] < 120) == (interval is not None)
        mine.poll(interval)
        assert site.asked.count("/news.rss") == (1 if interval is None else 2), "not due yet"


def test_a_refreshed_feed_is_due(mine: Broker, site: Site) -> None:
    url = site.url("/news.rss")
    mine("add", url)
    mine.poll()
    mine.poll()
    assert site.asked == ["/news.rss"]
    assert mine("refresh", url).stderr == f"due now: {url}\n"
    mine.poll()
    assert site.asked == ["/news.rss"] * 2
    mine("pause", url)
    done = mine("refresh", url)
    assert (done.returncode, done.stderr) == (
        1,
        f"broker: {url}: it is paused (see broker feeds resume)\n",
    )
    assert mine("refresh", "http://b.example/").returncode == 1
    assert mine("refresh").returncode == mine("refresh", url, "--all").returncode == 2


def test_a_terminal_shows_addresses_whole_and_reasons_below(mine: Broker, site: Site) -> None:
    well, ill = site.url("/news.rss"), site.url("/nothing")
    mine("add", well, ill)
    mine.poll()
    shown = typed(["feeds", "list", "--state", str(mine.state)], columns=80)
    header, *rows = [re.split("  +", line) for line in shown.lines]
    assert header[:-1] == ["STATUS", "LAST SUCCESS", "NEXT FETCH", "ITEMS/DAY", "URL"]
    assert re.fullmatch(r"ok, \d+ s ago, in \d+ .*", ", ".join(rows[0])), rows
    assert [{well, ill} & set(row) for row in rows[:2]] == [{well}, {ill}]
    assert rows[2:] == [[f"{ill}: fetch: not found (404)"]]
    assert max(map(len, shown.lines)) <= 80


def test_what_went_wrong_with_pushes_is_listed(mine: Broker, site: Site) -> None:
    url = site.url("/news.rss")
    mine("add", url)
    mine.poll()
    hub = Subscription(url, "http://hub.example/", url, private=False, token="t", secret="s")
    with Spool(mine.state / "spool.sqlite") as spool:
        spool.save_hub(replace(hub, state="denied", problem="hub: denied: not here"))
    (listed,) = mine.listed()
    assert (listed["push"], listed["push_problem"]) == ("denied", "hub: denied: not here")
    assert "pushes: hub: denied: not here" in mine("list").stdout
    shown = typed(["feeds", "list", "--state", str(mine.state)], columns=80)
    assert f"{url}: pushes: hub: denied: not here" in shown.lines


def test_a_new_login_is_tried_at_once(mine: Broker, site: Site) -> None:
    site.pages["/private"] = Page(b"", 401)
    url = site.url("/private")
    mine("add", url)
    mine.poll()
    mine.poll()
    assert site.asked == ["/private"]
    typed = url.replace("http://", "http://me:secret@")
    assert mine("add", typed).stderr == f"already there: {url} (its login is this one now)\n"
    mine.poll()
    assert site.asked == ["/private"] * 2


def test_what_a_feed_already_shows_is_no_news(mine: Broker, site: Site) -> None:
    url = site.url("/news.rss")
    done = mine("add", url, "--history", "--since", "1 day")
    assert f"{url}: 0 items, 0 older pages" in done.stderr


@pytest.mark.parametrize(
    ("option", "seconds"),
    [((), 0), (("--since", "7 days"), 604_800), (("--since", "INFINITY"), None)],
)
def test_since_when_items_are_news(
    option: tuple[str, ...], seconds: int | None, mine: Broker
) -> None:
    mine("add", "http://a.example/now")
    done = mine("add", "http://a.example/f", *option)
    assert done.stderr == "added: http://a.example/f\n" + ("" if option else NO_NEWS)
    with PreferenceTable(mine.state / "spool.sqlite") as listings:
        now, then = (listings.all()[f"http://a.example/{name}"].since for name in ("now", "f"))
    if seconds is None:
        assert then == ALL
    else:
        assert 0 <= then + seconds * 1_000_000 - now < 60_000_000

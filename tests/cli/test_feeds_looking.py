"""`broker feeds check` and `discover`, against real servers."""

from __future__ import annotations

import re

from tests.cli.feeding import NEWS, Broker, broker
from tests.feeds.data import rss
from tests.feeds.site import Site


def test_check_says_what_feeds_are(site: Site) -> None:
    urls = [site.url(path) for path in ("/news.rss", "/news.atom", "/broken.rss", "/empty")]
    done = broker("feeds", "check", *urls)
    assert done.returncode == 1
    rows = {line.split()[-1]: line.split()[:-1] for line in done.stdout.splitlines()[1:]}
    assert [rows[url][:4] for url in urls] == [
        ["ok", "rss20", "4", "0"],
        ["ok", "atom10", "4", "0"],
        ["malformed", "rss20", "4", "0"],
        ["failed"],
    ]
    assert f"{urls[1]} and {urls[0]} show the same items" in done.stderr
    assert f"{urls[2]}: not well-formed: line 1: mismatched tag" in done.stderr
    assert f"{urls[3]}: an HTML page, not a feed" in done.stderr
    assert done.stderr.endswith("broker: 1 of 4 feeds cannot be read\n")
    assert broker("feeds", "check", urls[0]).returncode == 0
    assert broker("feeds", "check").returncode == 2


def test_check_shows_the_documents_that_queries_match(site: Site) -> None:
    site.pages["/"] = rss(
        "<title>a &lt;b&gt; &amp; c</title><guid>1</guid>", channel="<title>Notes</title>"
    )
    done = broker("feeds", "check", "--items", site.url("/"), site.url("/news.atom"))
    assert done.returncode == 0, done.stderr
    assert len(re.findall("(?m)^<item ", done.stdout)) == 5
    first = done.stdout.partition("</item>\n")[0]
    assert "  <channel_title>Notes</channel_title>\n  <guid>1</guid>\n" in first
    assert re.search(
        r"\n  <title>a &lt;b&gt; &amp; c</title>\n  <timestamp>\S+</timestamp>\n$", first
    )


def test_discover_prints_addresses_and_adds_the_best(mine: Broker, site: Site) -> None:
    done = mine("discover", site.url("/"), "--add")
    assert done.returncode == 0, done.stderr
    best, other = site.url("/news.atom"), site.url("/news.rss")
    assert done.stdout == f"{best}\n{other}\n"
    assert f"News: rss20, 4 items, the same items as {best}" in done.stderr
    assert [(feed["url"], feed["typed"]) for feed in mine.listed()] == [(best, True)]
    none = broker("feeds", "discover", site.url("/empty"))
    assert (none.returncode, none.stdout) == (1, "")
    assert f"no feed found at {site.url('/empty')}" in none.stderr
    bare = site.url("").removeprefix("http://")
    done = broker("feeds", "discover", bare)
    assert f"if it has no https, write http://{bare}" in done.stderr
    assert broker("feeds", "discover", site.url("/"), "--add").returncode == 2


def test_a_page_does_not_lead_discovery_into_the_network_here(site: Site) -> None:
    with Site({"/feed": NEWS}) as secret:
        site.pages["/"] = f'<html><link rel="feed" href="{secret.url("/feed")}"></html>'.encode()
        done = broker("feeds", "discover", site.url("/"))
        assert "private address" in done.stderr
        assert (done.stdout, secret.asked) == ("", [])


def test_what_a_page_names_is_no_more_private_than_the_page_may_be(
    mine: Broker, site: Site
) -> None:
    done = mine("discover", site.url("/"), "--add", private=False)
    assert done.returncode == 1
    assert "--allow-private" in done.stderr
    assert mine.listed() == []

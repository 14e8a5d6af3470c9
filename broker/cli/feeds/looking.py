"""`broker feeds check`, `discover`: what feeds are, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from broker.cli.feedbooks import (
    add_one,
    entries,
    fetching,
    now_in_microseconds,
    open_books,
    origin,
    read_feed,
)
from broker.cli.feeds.options import begin_of, say_what_is_news, since_option
from broker.cli.shared import (
    Failed,
    StateType,
    allow_private_option,
    console,
    plural,
)
from broker.cli.tables import table
from broker.service.books import address_of
from broker.text.printable import visible, visible_lines
from feeds.adapter import Channel
from feeds.discovery import discover as find_feeds
from feeds.discovery import with_scheme
from feeds.identity import duplicate_feeds
from feeds.item import Item
from feeds.login import split_login
from feeds.preferences import Preferences

CONNECTIONS = 8


@click.command()
@click.argument("urls", metavar="URL|FILE...", nargs=-1)
@click.option(
    "--state",
    type=StateType(),
    help="Check the feeds of this broker; nothing of its state changes.",
)
@click.option(
    "--items",
    is_flag=True,
    help="Print each item as the document that queries match, instead of the table.",
)
def check(urls: Sequence[str], state: Path | None, items: bool) -> None:
    """Fetch feeds and say what they are: dialect, items, what is wrong; exit code 1 if any fails.

    Two feeds that show the same items, such as the RSS and the Atom form of one, are pointed out.
    """
    addresses = {split_login(address_of(url))[0]: address_of(url) for url in urls}
    typed = list(addresses.values())
    if state is not None:
        with open_books(state) as books:
            for entry in entries(books):
                addresses.setdefault(entry.state.url, entry.address)
                typed += [entry.address] if entry.preferences.private else []
    if not addresses:
        raise click.UsageError("nothing to check: give feeds, or --state")
    with fetching(typed) as fetch, ThreadPoolExecutor(CONNECTIONS) as pool:
        answers = pool.map(lambda pair: read_feed(pair[0], fetch(pair[1])), addresses.items())
        channels = dict(zip(addresses, answers, strict=True))
    if items:
        for channel in channels.values():
            for item in channel.items:
                click.echo(_indented(item))
    else:
        rows = [_checked(url, channel) for url, channel in channels.items()]
        table(("RESULT", "DIALECT", "ITEMS", "DATED", "TITLE", "URL"), rows)
    for url, channel in channels.items():
        for text in (channel.error, *channel.problems):
            if text:
                console.print(f"{url}: {text}")
    for one, other in duplicate_feeds({url: channel.items for url, channel in channels.items()}):
        console.print(f"{one} and {other} show the same items")
    failed = sum(channel.error is not None for channel in channels.values())
    if failed:
        raise Failed(f"{failed:,} of {plural(len(channels), 'feed')} cannot be read")


def _indented(item: Item) -> str:
    """The document of an item, an element a line: its values are escaped, so only tags meet so."""
    text = item.to_xml().decode().replace("><", ">\n  <")
    return visible_lines(text.replace("  </item>", "</item>"))


def _checked(url: str, channel: Channel) -> tuple[str, ...]:
    if channel.error is not None:
        return ("failed", "", "", "", "", url)
    result = "malformed" if channel.malformed else "warnings" if channel.problems else "ok"
    dated = sum(item.dated for item in channel.items)
    return (result, channel.dialect, f"{len(channel.items)}", f"{dated}", channel.title, url)


@click.command()
@click.argument("site")
@click.option("--add", "adding", is_flag=True, help="Watch the best feed found; needs --state.")
@click.option(
    "--state",
    type=StateType(),
    help="The state directory of the broker to add it to.",
)
@since_option
@allow_private_option
def discover(
    site: str, adding: bool, state: Path | None, since: int | None, allow_private: bool
) -> None:
    """Find the feeds of a SITE: declared by its page, linked from it, or at well-known paths.

    The addresses go to standard output, the best first; exit code 1 if there is none.
    """
    if adding and state is None:
        raise click.UsageError("--add needs --state")
    now = now_in_microseconds()
    url = with_scheme(site)
    with fetching([url]) as fetch:
        found = find_feeds(url, fetch, arrival=now)
    for problem in found.problems:
        console.print(problem)
    if not found.feeds:
        plain = "" if "://" in site else f" (if it has no https, write http://{site})"
        raise Failed(f"no feed found at {url}{plain}")
    for feed in found.feeds:
        click.echo(visible(feed.url))
        same = f", the same items as {feed.same_as}" if feed.same_as else ""
        channel = feed.channel
        console.print(
            f"  {channel.title}: {channel.dialect}, {plural(len(channel.items), 'item')}{same}",
        )
    if adding and state is not None:
        best = found.feeds[0].url
        # What was named is the site; a feed elsewhere is the page's word.
        allowed = allow_private and origin(best) == origin(url)
        with open_books(state, create=True) as books:
            new = add_one(books, Preferences(best, since=begin_of(since, now)), None, allowed)
        console.print(f"{'added' if new else 'already there'}: {best}")
        say_what_is_news(new, since)

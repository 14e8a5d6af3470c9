"""`broker feeds`: which feeds are watched, and how they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import click

from broker.cli.feedbooks import (
    add_one,
    entries,
    fetching,
    must_be_fetchable,
    now_in_microseconds,
    open_books,
    origin,
    read_feed,
    refusals,
    say_left_out,
    with_login,
)
from broker.cli.progress import Steps, quiet_option
from broker.cli.shared import (
    DURATION,
    INTERVAL,
    Failed,
    StateType,
    allow_private_option,
    console,
    for_each,
    plural,
)
from broker.cli.tables import csv_table, table
from broker.model import UNBOUNDED
from broker.service.books import Books, address_of, listed_in
from broker.text.printable import visible, visible_lines
from feeds.adapter import Channel
from feeds.discovery import discover as find_feeds
from feeds.discovery import with_scheme
from feeds.feed_events import event_rows
from feeds.feed_state import Status
from feeds.fetch import local_path
from feeds.identity import ALL, duplicate_feeds
from feeds.item import Item
from feeds.login import split_login
from feeds.opml import OpmlError, Subscription, write_opml
from feeds.paging import with_history
from feeds.poll import INTERVAL as INTERVAL_SECONDS
from feeds.poll import batch_of
from feeds.preferences import Preferences

CONNECTIONS = 8

state_option = click.option(
    "--state",
    required=True,
    type=StateType(),
    envvar="BROKER_STATE",
    show_envvar=True,
    help="The state directory of the broker whose feeds these are.",
)
folder_option = click.option("--folder", default="", help="Folder to put them in, as a/b.")
since_option = click.option(
    "--since",
    type=DURATION,
    metavar="DURATION",
    help="What a feed already shows when it is first fetched is no news: it is remembered, and not "
    "published. Its items of this last while are news all the same; INFINITY: all of them.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "table", "jsonl", "csv"]),
    default="text",
    show_default=True,
    help="A table for people (text and table are one), a line of JSON each, or CSV with a header.",
)


@click.group()
def feeds() -> None:
    """Add, remove and look after the feeds that a broker watches."""


# -- the list --------------------------------------------------------------------------------


@feeds.command()
@click.argument("urls", metavar="URL|FILE...", nargs=-1, required=True)
@state_option
@folder_option
@since_option
@allow_private_option
@click.option(
    "--history",
    is_flag=True,
    help="Fetch the feeds at once, with all older pages that they have (RFC 5005), and publish all "
    "of it, unless --since says less.",
)
def add(
    urls: Sequence[str],
    state: Path,
    folder: str,
    since: int | None,
    allow_private: bool,
    history: bool,
) -> None:
    """Watch feeds, given by URL or by file.

    A feed that needs a login is given as https://user:password@host/…; write $NAME for either part
    to have it read from the environment at each fetch.
    """
    now = now_in_microseconds()
    begin = ALL if history and since is None else _since(since, now)
    asked = history or since is not None or folder
    kept = " (as it was: see broker feeds edit)" if asked else ""

    new: list[str] = []

    def one(typed: str) -> str:
        must_be_fetchable(typed)
        url, login = split_login(address_of(typed))
        with open_books(state, create=True) as books:
            # A file that the user names is one to be read.
            one_feed = Preferences(url, "", folder, local_path(url) is not None, begin)
            if not add_one(books, one_feed, login, allow_private):
                return f"already there: {url}{kept}"
        new.append(url)
        return f"added: {url}"

    try:
        for_each(urls, one)
    finally:
        # All are there before the first is read: nothing expires until the last has been.
        if history and new:
            with open_books(state) as books:
                for_each(new, lambda url: _read_history(books, url, now, begin))


@feeds.command()
@click.argument("urls", metavar="URL|FILE...", nargs=-1, required=True)
@state_option
def remove(urls: Sequence[str], state: Path) -> None:
    """Watch feeds no more. What they brought stays, and is not news if they are added again."""
    with open_books(state) as books:

        def one(typed: str) -> str:
            url, _ = split_login(address_of(typed))
            _must_be_watched(typed, books.spool.remove(url))
            books.preferences.remove([url])
            return f"removed: {url}"

        for_each(urls, one)


@feeds.command()
@click.argument("urls", metavar="URL|FILE...", nargs=-1, required=True)
@state_option
@click.option("--title", help="What to call them; '': as they call themselves.")
@click.option("--folder", help="Folder to put them in, as a/b; '': none.")
@click.option(
    "--interval",
    type=INTERVAL,
    help="Time between two fetches; 'auto': as for all feeds.",
)
@click.option(
    "--allow-private/--no-allow-private",
    default=None,
    help="Whether they may be on this machine or in its network.",
)
def edit(
    urls: Sequence[str],
    state: Path,
    title: str | None,
    folder: str | None,
    interval: int | None,
    allow_private: bool | None,
) -> None:
    """Change what is said of feeds: title, folder, interval, what they may reach."""
    if title is None and folder is None and interval is None and allow_private is None:
        raise click.UsageError("nothing to change: see the options")
    with open_books(state) as books:

        def one(typed: str) -> str:
            url, _ = split_login(address_of(typed))
            with refusals():
                there = books.edit(
                    url,
                    title=title,
                    folder=folder,
                    interval=None if interval is None else interval / 1_000_000,
                    private=allow_private,
                )
            _must_be_watched(typed, there)
            return f"changed: {url}"

        for_each(urls, one)


@feeds.command()
@click.argument("urls", metavar="URL|FILE...", nargs=-1)
@state_option
@click.option("--all", "everything", is_flag=True, help="All feeds that are not paused or gone.")
def refresh(urls: Sequence[str], state: Path, everything: bool) -> None:
    """Have feeds fetched now: by the broker that runs on them, within seconds, or once it does."""
    if bool(urls) == everything:
        raise click.UsageError("say which feeds, or --all")
    with open_books(state) as books:

        def one(typed: str) -> str:
            url, _ = split_login(address_of(typed))
            found = books.spool.refresh(url)
            _must_be_watched(typed, found is not None)
            if found is not None and found.status != "active":
                raise Failed(f"{url}: it is {found.status} (see broker feeds resume)")
            return f"due now: {url}"

        active = [feed.url for feed in books.spool.feeds() if feed.status == "active"]
        for_each(active if everything else urls, one)


@feeds.command()
@click.argument("urls", metavar="URL|FILE...", nargs=-1, required=True)
@state_option
def pause(urls: Sequence[str], state: Path) -> None:
    """Fetch feeds no more until they are resumed."""
    _set_status(urls, state, "paused")


@feeds.command()
@click.argument("urls", metavar="URL|FILE...", nargs=-1, required=True)
@state_option
def resume(urls: Sequence[str], state: Path) -> None:
    """Fetch feeds again that were paused, or that were gone."""
    _set_status(urls, state, "active")


def _set_status(urls: Sequence[str], state: Path, status: Status) -> None:
    done = "paused" if status == "paused" else "resumed"
    with open_books(state) as books:

        def one(typed: str) -> str:
            url, _ = split_login(address_of(typed))
            _must_be_watched(typed, books.spool.set_status(url, status))
            return f"{done}: {url}"

        for_each(urls, one)


def _must_be_watched(typed: str, there: bool) -> None:
    if not there:
        raise Failed(f"{typed}: not watched (see broker feeds list)")


_CSV = (
    *("url", "title", "folder", "status", "last_success", "next_fetch", "errors"),
    *("items_per_day", "interval", "problem"),
)


@feeds.command("list")
@state_option
@format_option
def list_feeds(state: Path, form: str) -> None:
    """Show the feeds and how they are: last success, next fetch, errors in a row, items per day,
    and for which reason the last fetch failed."""
    with open_books(state) as books:
        watched = entries(books)
    if form == "jsonl":
        for entry in watched:
            click.echo(json.dumps(entry.to_json(), ensure_ascii=False))
        return
    if form == "csv":
        csv_table(_CSV, [entry.to_json() for entry in watched])
        return
    now = now_in_microseconds()
    if not sys.stdout.isatty():
        columns = ("STATUS", "LAST SUCCESS", "NEXT FETCH", "ERRORS", "ITEMS/DAY", "TITLE", "URL")
        table((*columns, "REASON"), [entry.cells(now) for entry in watched])
        return
    # A terminal has no room for all of it: the addresses come before the titles, which are cut
    # instead, and the reasons below.
    header = ("STATUS", "LAST SUCCESS", "NEXT FETCH", "ITEMS/DAY", "URL", "TITLE")
    table(header, [entry.short_cells(now) for entry in watched])
    for entry in watched:
        if entry.state.problem:
            click.echo(visible(f"{entry.state.url}: {entry.reason}"))


@feeds.command("import")
@click.argument("files", metavar="URL|FILE...", nargs=-1, required=True)
@state_option
@folder_option
@since_option
@allow_private_option
@quiet_option
def import_feeds(
    files: Sequence[str], state: Path, folder: str, since: int | None, allow_private: bool
) -> None:
    """Watch what OPML files list, as feed readers export it, folders included.

    Files that are not quite well-formed are read as far as they go. Feeds on private addresses are
    left out unless they are allowed.
    """
    begin = _since(since, now_in_microseconds())
    with open_books(state, create=True) as books:

        def one(file: str) -> str:
            base, data = _opml(file)
            try:
                wanted, left_out = listed_in(data, base, begin, folder)
            except OpmlError as error:
                raise Failed(f"{file}: {error}") from None
            with Steps("feed") as steps:
                new, refused = books.add(wanted, allow_private=allow_private, on_feeds=steps)
            say_left_out(left_out + refused)
            count = len(wanted) + len(left_out)
            without = len(left_out) + len(refused)
            rest = f", {without:,} left out" if without else ""
            return f"{file}: {plural(count, 'feed')}, {new:,} of them new{rest}"

        for_each(files, one)


@feeds.command()
@click.argument("file", type=click.File("wb"), default="-")
@state_option
def export(file: BinaryIO, state: Path) -> None:
    """Write the feeds to FILE (or standard output) as OPML, folders included, logins not."""
    with open_books(state) as books:
        watched = entries(books)
    listed = [
        Subscription(entry.state.url, entry.title, entry.preferences.folder) for entry in watched
    ]
    file.write(write_opml(listed))


# -- looking at feeds ------------------------------------------------------------------------


@feeds.command()
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


@feeds.command()
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
            new = add_one(books, Preferences(best, since=_since(since, now)), None, allowed)
        console.print(f"{'added' if new else 'already there'}: {best}")


# -- behind the commands ---------------------------------------------------------------------


def _read_history(books: Books, url: str, now: int, since: int) -> None:
    """Fetch a feed with its older pages into the spool, all in one transaction."""
    before = books.spool.state(url)
    with fetching([url]) as fetch:
        fetched = fetch(with_login(url, before.login))
        batch = batch_of(before, fetched, now, INTERVAL_SECONDS)
        pages = 0
        if batch.channel is not None and batch.channel.error is None:
            channel, pages = with_history(
                batch.channel, fetch, arrival=now, final_url=fetched.final_url
            )
            batch = replace(batch, channel=channel)
    rows = tuple(event_rows(before, batch.state, now))
    count = books.spool.append(replace(batch, rows=rows, since=since))
    for text in batch.channel.problems if batch.channel else ():
        console.print(f"{url}: {text}")
    if batch.state.problem:
        raise Failed(f"{url}: {batch.state.problem}")
    brought = f"{plural(count, 'item')}, {plural(pages, 'older page')}"
    console.print(f"{url}: {brought}")


def _opml(file: str) -> tuple[str, bytes]:
    """The base for relative addresses, and the bytes of an OPML file here or elsewhere."""
    path = local_path(file)
    if path is None:
        with fetching([file]) as fetch:
            fetched = fetch(file)
        if fetched.outcome != "ok":
            raise Failed(f"{file}: {fetched.problem or fetched.outcome}")
        return fetched.final_url, fetched.body
    try:
        return path.absolute().as_uri(), path.read_bytes()
    except OSError as error:
        raise Failed(f"{file}: {error.strerror}") from None


def _since(duration: int | None, now: int) -> int:
    if duration is None:
        return now
    return ALL if duration >= UNBOUNDED else now - duration

"""`broker feeds add`, `remove`, `edit`, `refresh`, `pause`, `resume` and `list`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from broker.cli.feedbooks import (
    add_one,
    entries,
    must_be_fetchable,
    now_in_microseconds,
    open_books,
    refusals,
)
from broker.cli.feeds.history import read_histories
from broker.cli.feeds.options import (
    begin_of,
    folder_option,
    say_what_is_news,
    since_option,
    state_option,
)
from broker.cli.shared import (
    INTERVAL,
    Failed,
    allow_private_option,
    console,
    for_each,
)
from broker.cli.tables import csv_table, echo_json, format_option, table
from broker.service.books import address_of
from broker.text.printable import visible
from feeds.feed_state import Status
from feeds.fetch import local_path
from feeds.identity import ALL
from feeds.login import split_login
from feeds.preferences import Preferences

_READING = 3_600 * 1_000_000
"""Microseconds after which a feed is fetched of which somebody began to read the older pages."""


@click.command()
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
    begin = ALL if history and since is None else begin_of(since, now)
    asked = history or since is not None or folder
    kept = " (as it was: see broker feeds edit)" if asked else ""
    # A broker that runs on these feeds leaves them to this command meanwhile.
    due = now + _READING if history else 0

    new: list[str] = []

    def one(typed: str) -> str:
        must_be_fetchable(typed)
        url, login = split_login(address_of(typed))
        with open_books(state, create=True) as books:
            # A file that the user names is one to be read.
            one_feed = Preferences(url, "", folder, local_path(url) is not None, begin)
            if not add_one(books, one_feed, login, allow_private, due):
                known = " (its login is this one now)" if login else kept
                return f"already there: {url}{known}"
        new.append(url)
        return f"added: {url}"

    try:
        for_each(urls, one)
    finally:
        # All are there before the first is read: nothing expires until the last has been.
        if history and new:
            with open_books(state) as books:
                read_histories(books, new, now, begin)
        elif not history:
            say_what_is_news(new, since)


@click.command()
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


@click.command()
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


@click.command()
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


@click.command()
@click.argument("urls", metavar="URL|FILE...", nargs=-1, required=True)
@state_option
def pause(urls: Sequence[str], state: Path) -> None:
    """Fetch feeds no more until they are resumed."""
    _set_status(urls, state, "paused")


@click.command()
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


@click.command("list")
@state_option
@format_option
def list_feeds(state: Path, form: str) -> None:
    """Show the feeds and how they are: last success, next fetch, errors in a row, items per day,
    and for which reason the last fetch failed."""
    with open_books(state) as books:
        watched = entries(books)
    if form == "jsonl":
        for entry in watched:
            echo_json(entry.to_json())
        return
    if form == "csv":
        csv_table(_CSV, [entry.to_json() for entry in watched])
        return
    if not watched:
        console.print("no feeds; broker feeds add and broker feeds import add some")
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
        for reason in entry.reasons:
            click.echo(visible(f"{entry.state.url}: {reason}"))

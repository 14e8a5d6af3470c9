"""`broker feeds import`, `export`: lists of feeds, as feed readers exchange them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import click

from broker.cli.feedbooks import (
    entries,
    fetching,
    now_in_microseconds,
    open_books,
    say_left_out,
)
from broker.cli.feeds.options import (
    begin_of,
    folder_option,
    say_what_is_news,
    since_option,
    state_option,
)
from broker.cli.progress import Steps, quiet_option
from broker.cli.shared import (
    Failed,
    allow_private_option,
    for_each,
    plural,
)
from broker.service.books import listed_in
from feeds.fetch import local_path
from feeds.opml import OpmlError, Subscription, write_opml


@click.command("import")
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
    begin = begin_of(since, now_in_microseconds())
    added = 0
    with open_books(state, create=True) as books:

        def one(file: str) -> str:
            nonlocal added
            base, data = _opml(file)
            try:
                wanted, left_out = listed_in(data, base, begin, folder)
            except OpmlError as error:
                raise Failed(f"{file}: {error}") from None
            with Steps("feed") as steps:
                new, refused = books.add(wanted, allow_private=allow_private, on_feeds=steps)
            added += new
            say_left_out(left_out + refused)
            count = len(wanted) + len(left_out)
            without = len(left_out) + len(refused)
            rest = f", {without:,} left out" if without else ""
            return f"{file}: {plural(count, 'feed')}, {new:,} of them new{rest}"

        try:
            for_each(files, one)
        finally:
            say_what_is_news(added, since)


@click.command()
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

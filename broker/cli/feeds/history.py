"""A feed that is fetched at once, with all older pages that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broker.cli.feedbooks import (
    fetching,
    with_login,
)
from broker.cli.shared import (
    Failed,
    console,
    for_each,
    plural,
)
from broker.service.books import Books
from feeds.feed_events import event_rows
from feeds.paging import with_history
from feeds.poll import INTERVAL as INTERVAL_SECONDS
from feeds.poll import batch_of


def read_histories(books: Books, urls: Sequence[str], now: int, since: int) -> None:
    """Fetch feeds with their older pages into the spool. One that could not be read is due at
    once for who fetches the feeds of the state, but without its older pages."""
    left = dict.fromkeys(urls)

    def one(url: str) -> None:
        _read_history(books, url, now, since)
        del left[url]

    try:
        for_each(urls, one)
    finally:
        for url in left:
            if books.spool.state(url).last_fetch is None:
                books.spool.refresh(url)


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

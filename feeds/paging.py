"""The older pages of a feed (RFC 5005): its archive, followed back from the first document.

In: a feed's document, and a way to fetch addresses. Out: the same channel with the items of its
older pages. An archived feed links each document to the one before ("prev-archive"); a paged one,
JSON Feed included, to the one behind ("next").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

from feeds.adapter import Channel, parse_feed
from feeds.fetch import Fetched
from feeds.item import Item

MAX_PAGES = 100
MAX_ITEMS = 50_000

Fetch = Callable[[str], Fetched]


def older_page(channel: Channel) -> str:
    """The address of the page before this one, "" if it is the last."""
    return channel.link("prev-archive") or channel.link("next")


def with_history(
    channel: Channel,
    fetch: Fetch,
    *,
    arrival: int,
    final_url: str = "",
    max_pages: int = MAX_PAGES,
) -> tuple[Channel, int]:
    """A channel with the items of its older pages, and how many pages were read.

    Where a page shows an item again, the newer page counts: an archive may hold what has been
    edited since (RFC 5005, 4.2). The walk ends at the last page, at a page seen before or without
    anything new, after `max_pages`, and at one that cannot be read; that it did not reach the end
    is one of the problems. Pages on another host than the feed's (`channel.url`, or `final_url`
    where redirects led to) are not followed: the author of a feed must not choose what we request
    from other hosts.
    """
    items: dict[str, Item] = {item.id: item for item in channel.items}
    problems = list(channel.problems)
    page, read = channel, 0
    visited = {channel.url}
    hosts = {_host(channel.url), _host(final_url)} - {""}
    while (address := older_page(page)) and address not in visited:
        visited.add(address)
        problem = ""
        if read == max_pages or len(items) >= MAX_ITEMS:
            problem = f"history: stopped after {read} older pages, there are more"
        elif _host(address) not in hosts:
            problem = f"history: {address} is on another host, not followed"
        else:
            page, problem = _page(channel, fetch(address), arrival)
        if problem:
            problems.append(problem)
            break
        new = {item.id: item for item in page.items if item.id not in items}
        if not new:
            break
        read += 1
        items |= new
        problems += [f"{address}: {text}" for text in page.problems]
    return replace(channel, items=tuple(items.values()), problems=tuple(problems)), read


def _page(channel: Channel, fetched: Fetched, arrival: int) -> tuple[Channel, str]:
    if fetched.outcome != "ok":
        return channel, f"history: {fetched.url}: {fetched.problem or fetched.outcome}"
    page = parse_feed(
        fetched.body,
        channel.url,
        fetched.headers,
        arrival=arrival,
        final_url=fetched.final_url,
    )
    if page.error is not None:
        return channel, f"history: {fetched.url}: parse: {page.error}"
    # The archive may bear another title ("News, page 2"); its items are of the one feed.
    titled = tuple(replace(item, channel_title=channel.title) for item in page.items)
    return replace(page, items=titled), ""


def _host(url: str) -> str:
    """Host and port of an http(s) address, "" for others."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme.lower() in ("http", "https") else ""

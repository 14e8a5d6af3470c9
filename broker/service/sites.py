"""Finds the feeds of a site for a client of the service.

In: the address of a page or a feed, as it was typed. Out: the feeds there, the best first. A page
may name addresses of this network; these are asked only if they are where the typed one is, and
the operator has allowed that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies

from broker.service.books import BadFeed, must_be_fetchable
from broker.service.core.errors import Invalid
from feeds.discovery import discover, with_scheme
from feeds.fetch import Fetched, Fetcher, Request, local_path
from feeds.login import Login, split_login


@dataclass(frozen=True, slots=True)
class SiteFeed:
    """A feed of a site; `same_as` is the address of a better one with the same items, or None."""

    url: str
    title: str
    dialect: str
    items: int
    newest: str | None
    same_as: str | None


@dataclass(frozen=True, slots=True)
class Site:
    """The feeds of a site, the best first, and what could not be fetched, with the reasons."""

    feeds: Sequence[SiteFeed]
    problems: Sequence[str]


def feeds_of(typed: str, *, allow_private: bool) -> Site:
    """The feeds at an address. Raises Invalid for what is no address of http or https."""
    address = with_scheme(typed.strip())
    try:
        if local_path(address) is not None:
            raise BadFeed(f"{typed}: not an address (write it as https://host/path)")
        must_be_fetchable(address)
    except BadFeed as error:
        raise Invalid(str(error), "url") from None
    home = _origin(address)
    with Fetcher(allow_private=True, proxies=getproxies()) as fetcher:

        def fetch(asked: str) -> Fetched:
            url, login = split_login(asked)
            private = allow_private and _origin(url) == home
            return fetcher.fetch(Request(url, login=Login.of(url, login), private=private))

        found = discover(address, fetch, arrival=int(time.time() * 1_000_000))
    return Site(
        [
            SiteFeed(
                url=each.url,
                title=each.channel.title,
                dialect=each.channel.dialect,
                items=len(each.channel.items),
                newest=next((item.title for item in each.channel.items if item.title), None),
                same_as=each.same_as or None,
            )
            for each in found.feeds
        ],
        found.problems,
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(split_login(url)[0])
        return parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        return "", url, None

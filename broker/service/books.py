"""Which feeds a state watches: what the user said of each, kept in step with what is known of it.

In: addresses as the user typed them, OPML files. Out: rows in the two tables of feeds that are in the
file of a spool. Any process may use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from feeds.fetch import local_path
from feeds.identity import ALL
from feeds.listing import Listing, Listings
from feeds.login import split_login
from feeds.opml import OpmlError, read_opml, refusal
from feeds.spool import Spool


class BadFeed(ValueError):
    """What was named is no feed: the message begins with it."""


class Books:
    """The two tables of feeds in the spool of a state directory, kept in step."""

    def __init__(self, spool: Spool, listings: Listings) -> None:
        self.spool = spool
        self.listings = listings

    def add(self, wanted: Iterable[tuple[Listing, str | None]]) -> int:
        """Add feeds with their logins; how many are new.

        A known one keeps its listing, except that what is now typed by the user stays so.
        """
        known = self.listings.all()
        changed: dict[str, Listing] = {}
        logins: dict[str, str | None] = {}
        for listing, login in wanted:
            before = known.get(listing.url)
            if before is None or (listing.typed and not before.typed):
                after = replace(before or listing, typed=listing.typed)
                known[listing.url] = changed[listing.url] = after
            logins[listing.url] = login or logins.get(listing.url)
        self.listings.save(changed.values())
        return self.spool.add_all(logins)

    def typed(self, addresses: Iterable[str], since: int, folder: str = "") -> int:
        """Add feeds that the user typed; how many are new."""
        split = map(split_login, addresses)
        return self.add((Listing(url, "", folder, True, since), login) for url, login in split)

    def name(self, feed: str) -> tuple[int, list[str]] | None:
        """Add what a setting names, a feed or an OPML file of them; all that they show is news.

        Of a list: how many feeds it has, and what of it is left out and why. Raises BadFeed.
        """
        must_be_fetchable(feed)
        path = local_path(feed)
        data = b""
        if path is not None:
            try:
                data = path.read_bytes()
            except OSError as error:
                raise BadFeed(f"{feed}: {error.strerror}") from None
        if path is None or b"<opml" not in data[:4096].lower():
            self.typed([address_of(feed)], ALL)
            return None
        try:
            wanted, left_out = listed_in(data, path.absolute().as_uri(), ALL)
        except OpmlError as error:
            raise BadFeed(f"{feed}: {error}") from None
        self.add(wanted)
        return len(wanted), left_out

    def remove(self, url: str) -> bool:
        """Watch a feed no more; whether it was."""
        removed = self.spool.remove(url)
        self.listings.remove([url])
        return removed


def listed_in(
    data: bytes, base: str, since: int, folder: str = ""
) -> tuple[list[tuple[Listing, str | None]], list[str]]:
    """The feeds that an OPML file lists, with their logins, and what is left out and why.

    Files that lie beside the list count as typed by who named it. Raises OpmlError.
    """
    wanted: list[tuple[Listing, str | None]] = []
    left_out: list[str] = []
    for entry in read_opml(data, base):
        reason = refusal(entry.url, base)
        if reason:
            left_out.append(f"{entry.url}: {reason}")
            continue
        url, login = split_login(entry.url)
        path = "/".join(filter(None, (folder, entry.folder)))
        wanted.append((Listing(url, entry.title, path, local_path(url) is not None, since), login))
    return wanted, left_out


def address_of(typed: str) -> str:
    """What the user typed as an address: a path becomes a file: URL."""
    path = local_path(typed)
    return typed if path is None else path.absolute().as_uri()


def must_be_fetchable(typed: str) -> None:
    """Raises BadFeed for what the user typed and is no address: no file, or no http(s) URL."""
    path = local_path(typed)
    if path is not None:
        if not path.is_file():
            raise BadFeed(f"{typed}: no such file (the address of a feed begins with https://)")
        return
    try:
        parts = urlsplit(split_login(typed)[0])
        well = (
            bool(parts.hostname) and (parts.port or 1) > 0 and not re.search(r"\s", typed.strip())
        )
    except ValueError:
        well, parts = False, None
    if parts is not None and parts.scheme.lower() not in ("http", "https"):
        raise BadFeed(f"{typed}: a '{parts.scheme}:' address is not fetched, only http and https")
    if not well:
        raise BadFeed(f"{typed}: not an address (write it as https://host/path)")

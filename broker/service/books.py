"""The list of feeds of a state: the user's preferences and the state of each feed, kept consistent.

In: addresses as typed by the user, OPML files. Out: rows in the two tables of feeds in the file of
a spool. Any process may use it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from feeds.fetch import local_path
from feeds.identity import ALL
from feeds.login import split_login
from feeds.opml import OpmlError, read_opml, refusal
from feeds.preferences import Preferences, PreferenceTable
from feeds.spool import Spool
from feeds.transport import host_of, private_hosts

_PRIVATE = (
    "is a private address; to have it fetched all the same, say --allow-private"
    " (allow_private in settings and over the API)"
)


OnFeeds = Callable[[str, int, int], object]
"""Called with the step ("checked", "added"), the number of further feeds that it has processed, and
the number of all feeds."""


class BadFeed(ValueError):
    """An address is not that of a feed, or not allowed; the message begins with the address."""


class Books:
    """The two tables of feeds in the spool of a state directory."""

    def __init__(self, spool: Spool, preferences: PreferenceTable) -> None:
        self.spool = spool
        self.preferences = preferences

    def add(
        self,
        feeds: Iterable[tuple[Preferences, str | None]],
        *,
        allow_private: bool = False,
        on_feeds: OnFeeds = lambda *_: None,
        due: int = 0,
    ) -> tuple[int, list[str]]:
        """Add feeds with their logins; returns how many are new, which are due at a time, at once
        by default, and which are left out and why.

        A host with private addresses only is left out, unless these are allowed. A known feed keeps
        its preferences, except that it becomes private if this is allowed now.
        """
        feeds = list(feeds)
        known = self.preferences.all()
        private: set[str] = set()
        if not allow_private:
            unchecked = [feed.url for feed, _ in feeds if not known.get(feed.url, feed).private]
            private = _private(unchecked, on_feeds)
        left_out: list[str] = []
        changed: dict[str, Preferences] = {}
        logins: dict[str, str | None] = {}
        for feed, login in feeds:
            before = known.get(feed.url)
            host = host_of(feed.url)
            if host in private and not (before or feed).private:
                left_out.append(f"{feed.url}: {host} {_PRIVATE}")
                continue
            allowed = feed.private or allow_private
            if before is None or (allowed and not before.private):
                after = replace(before or feed, private=allowed)
                known[feed.url] = changed[feed.url] = after
            logins[feed.url] = login or logins.get(feed.url)
        self.preferences.save(changed.values())
        total = len(logins)
        new = self.spool.add_all(logins, lambda count: on_feeds("added", count, total), due)
        return new, left_out

    def add_one(
        self,
        preferences: Preferences,
        login: str | None,
        *,
        allow_private: bool = False,
        due: int = 0,
    ) -> bool:
        """Add a feed; returns whether it is new. Raises BadFeed for one that is not allowed."""
        new, left_out = self.add([(preferences, login)], allow_private=allow_private, due=due)
        if left_out:
            raise BadFeed(left_out[0])
        return new > 0

    def name(self, feed: str, *, allow_private: bool = False) -> tuple[int, list[str]] | None:
        """Add the feed or OPML file that a setting names; all items of new feeds count as new.

        Returns for an OPML file how many feeds it has, and which are left out and why. Raises
        BadFeed.
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
            url, login = split_login(address_of(feed))
            one = Preferences(url, private=path is not None, since=ALL)
            self.add_one(one, login, allow_private=allow_private)
            return None
        try:
            feeds, left_out = listed_in(data, path.absolute().as_uri(), ALL)
        except OpmlError as error:
            raise BadFeed(f"{feed}: {error}") from None
        _, refused = self.add(feeds, allow_private=allow_private)
        return len(feeds) - len(refused), left_out + refused

    def edit(
        self,
        url: str,
        *,
        title: str | None = None,
        folder: str | None = None,
        interval: float | None = None,
        private: bool | None = None,
    ) -> bool:
        """Change the preferences of a feed that are not None; an `interval` of 0 resets it to the
        default. Returns whether the feed exists. Raises BadFeed if its host is private and this is
        not allowed."""
        if all(url != feed.url for feed in self.spool.feeds()):
            return False
        known = self.preferences.of(url) or Preferences(url, private=True, since=ALL)
        if private is False and private_hosts(filter(None, [host_of(url)])):
            raise BadFeed(f"{url}: {host_of(url)} {_PRIVATE}; pause or remove it instead")
        changes: dict[str, Any] = {"title": title, "folder": folder, "private": private}
        after = replace(known, **{name: v for name, v in changes.items() if v is not None})
        if interval is not None:
            after = replace(after, interval=interval or None)
        self.preferences.save([after])
        if private or interval is not None:
            self.spool.refresh(url)
        return True

    def remove(self, url: str) -> bool:
        """Remove a feed; returns whether it existed."""
        removed = self.spool.remove(url)
        self.preferences.remove([url])
        return removed


def _private(urls: Iterable[str], on_feeds: OnFeeds) -> set[str]:
    """The hosts of feeds that have private addresses alone."""
    hosts = Counter(filter(None, map(host_of, urls)))
    total = hosts.total()
    return private_hosts(hosts, on_host=lambda host: on_feeds("checked", hosts[host], total))


def listed_in(
    data: bytes, base: str, since: int, folder: str = ""
) -> tuple[list[tuple[Preferences, str | None]], list[str]]:
    """The feeds that an OPML file lists, with their logins, and which are left out and why.

    Files in the directory of the list are allowed, like the list itself. Raises OpmlError.
    """
    feeds: list[tuple[Preferences, str | None]] = []
    left_out: list[str] = []
    for entry in read_opml(data, base):
        reason = refusal(entry.url, base)
        if reason:
            left_out.append(f"{entry.url}: {reason}")
            continue
        url, login = split_login(entry.url)
        path = "/".join(filter(None, (folder, entry.folder)))
        private = local_path(url) is not None
        feeds.append((Preferences(url, entry.title, path, private, since), login))
    return feeds, left_out


def address_of(typed: str) -> str:
    """The address that the user typed; a path becomes a file: URL.

    A path with `..` (`../feeds/a.xml`) is resolved, so that a file has one address. A URL stays as
    it is, since a feed may be known by it.
    """
    path = local_path(typed)
    if path is None:
        return typed
    resolve = ".." in path.parts and not typed.lower().startswith("file:")
    return (path.resolve() if resolve else path.absolute()).as_uri()


def must_be_fetchable(typed: str) -> None:
    """Raises BadFeed unless the text is the path of a file or an http(s) URL."""
    path = local_path(typed)
    if path is not None:
        if not path.is_file():
            raise BadFeed(f"{typed}: no such file (the address of a feed begins with https://)")
        return
    try:
        parts = urlsplit(split_login(typed)[0])
        valid = (
            bool(parts.hostname) and (parts.port or 1) > 0 and not re.search(r"\s", typed.strip())
        )
    except ValueError:
        valid, parts = False, None
    if parts is not None and parts.scheme.lower() not in ("http", "https"):
        raise BadFeed(f"{typed}: a '{parts.scheme}:' address is not fetched, only http and https")
    if not valid:
        raise BadFeed(f"{typed}: not an address (write it as https://host/path)")

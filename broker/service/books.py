"""Which feeds a state watches: what the user said of each, kept in step with what is known of it.

In: addresses as the user typed them, OPML files. Out: rows in the two tables of feeds that are in
the file of a spool. Any process may use it.
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
    "is a private address ({}); to have it fetched all the same, say --allow-private"
    " (allow_private in settings and over the API)"
)


OnFeeds = Callable[[str, int, int], object]
"""Called with what has been done to some feeds ("checked", "added"), to how many more, and how many
there are in all."""


class BadFeed(ValueError):
    """What was named is no feed: the message begins with it."""


class Books:
    """The two tables of feeds in the spool of a state directory, kept in step."""

    def __init__(self, spool: Spool, preferences: PreferenceTable) -> None:
        self.spool = spool
        self.preferences = preferences

    def add(
        self,
        wanted: Iterable[tuple[Preferences, str | None]],
        *,
        allow_private: bool = False,
        on_feeds: OnFeeds = lambda *_: None,
    ) -> tuple[int, list[str]]:
        """Add feeds with their logins: how many are new, and which are left out and why.

        A host that has private addresses alone is left out unless such are allowed, whoever names
        it. A known feed keeps its preferences, except that it may be private from now on.
        """
        listed = list(wanted)
        known = self.preferences.all()
        private: dict[str, str] = {}
        if not allow_private:
            fresh = [each.url for each, _ in listed if not known.get(each.url, each).private]
            private = _private(fresh, on_feeds)
        left_out: list[str] = []
        changed: dict[str, Preferences] = {}
        logins: dict[str, str | None] = {}
        for each, login in listed:
            before = known.get(each.url)
            host = host_of(each.url)
            if host in private and not (before or each).private:
                left_out.append(f"{each.url}: {host} {_PRIVATE.format(private[host])}")
                continue
            allowed = each.private or allow_private
            if before is None or (allowed and not before.private):
                after = replace(before or each, private=allowed)
                known[each.url] = changed[each.url] = after
            logins[each.url] = login or logins.get(each.url)
        self.preferences.save(changed.values())
        total = len(logins)
        new = self.spool.add_all(logins, lambda count: on_feeds("added", count, total))
        return new, left_out

    def add_one(
        self, preferences: Preferences, login: str | None, *, allow_private: bool = False
    ) -> bool:
        """Add a feed; whether it is new. Raises BadFeed for one that is not allowed."""
        new, left_out = self.add([(preferences, login)], allow_private=allow_private)
        if left_out:
            raise BadFeed(left_out[0])
        return new > 0

    def name(self, feed: str, *, allow_private: bool = False) -> tuple[int, list[str]] | None:
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
            url, login = split_login(address_of(feed))
            one = Preferences(url, private=path is not None, since=ALL)
            self.add_one(one, login, allow_private=allow_private)
            return None
        try:
            wanted, left_out = listed_in(data, path.absolute().as_uri(), ALL)
        except OpmlError as error:
            raise BadFeed(f"{feed}: {error}") from None
        _, refused = self.add(wanted, allow_private=allow_private)
        return len(wanted) - len(refused), left_out + refused

    def edit(
        self,
        url: str,
        *,
        title: str | None = None,
        folder: str | None = None,
        interval: float | None = None,
        private: bool | None = None,
    ) -> bool:
        """Change what is said of a feed, where it is not None; an `interval` of 0 takes the feed's
        own away. Whether the feed is there. Raises BadFeed where its host is private and may not
        be."""
        if all(url != each.url for each in self.spool.feeds()):
            return False
        known = self.preferences.of(url) or Preferences(url, private=True, since=ALL)
        if private is False and (found := private_hosts(filter(None, [host_of(url)]))):
            ((host, address),) = found.items()
            raise BadFeed(f"{url}: {host} {_PRIVATE.format(address)}; pause or remove it instead")
        changes: dict[str, Any] = {"title": title, "folder": folder, "private": private}
        after = replace(known, **{name: v for name, v in changes.items() if v is not None})
        if interval is not None:
            after = replace(after, interval=interval or None)
        self.preferences.save([after])
        if private or interval is not None:
            self.spool.refresh(url)
        return True

    def remove(self, url: str) -> bool:
        """Watch a feed no more; whether it was."""
        removed = self.spool.remove(url)
        self.preferences.remove([url])
        return removed


def _private(urls: Iterable[str], on_feeds: OnFeeds) -> dict[str, str]:
    """The hosts of feeds that have private addresses alone, each with one of them."""
    hosts = Counter(filter(None, map(host_of, urls)))
    total = hosts.total()
    return private_hosts(hosts, on_host=lambda host: on_feeds("checked", hosts[host], total))


def listed_in(
    data: bytes, base: str, since: int, folder: str = ""
) -> tuple[list[tuple[Preferences, str | None]], list[str]]:
    """The feeds that an OPML file lists, with their logins, and what is left out and why.

    Files that lie beside the list are allowed as the list is. Raises OpmlError.
    """
    wanted: list[tuple[Preferences, str | None]] = []
    left_out: list[str] = []
    for entry in read_opml(data, base):
        reason = refusal(entry.url, base)
        if reason:
            left_out.append(f"{entry.url}: {reason}")
            continue
        url, login = split_login(entry.url)
        path = "/".join(filter(None, (folder, entry.folder)))
        private = local_path(url) is not None
        wanted.append((Preferences(url, entry.title, path, private, since), login))
    return wanted, left_out


def address_of(typed: str) -> str:
    """What the user typed as an address: a path becomes a file: URL.

    A path that goes up (`../feeds/a.xml`) is made straight, so that a file has one address. What is
    a URL already stays: it may be how a feed is known from before.
    """
    path = local_path(typed)
    if path is None:
        return typed
    straight = ".." in path.parts and not typed.lower().startswith("file:")
    return (path.resolve() if straight else path.absolute()).as_uri()


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

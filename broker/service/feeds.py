"""Operations on the feeds of a state, while a thread fetches them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.request import getproxies

import structlog

import feeds
from broker.service.books import BadFeed, Books, listed_in, must_be_fetchable
from broker.service.core.answers import FeedFigures, ListedFeeds, WatchedFeed
from broker.service.core.core import Core
from broker.service.core.errors import Conflict, Invalid, NotFound
from broker.service.polling import Polling, Push
from broker.service.sites import Site, feeds_of
from feeds import hubs
from feeds.feed_state import FeedState, Status
from feeds.fetch import local_path
from feeds.identity import ALL
from feeds.login import split_login
from feeds.opml import OpmlError, Subscription, write_opml
from feeds.poll import Wave
from feeds.preferences import Preferences, PreferenceTable

_log = structlog.get_logger(__name__)

SAMPLES = Path(feeds.__file__).parent / "samples"
"""The sample feeds, which come with the program."""


class Feeds:
    """The feeds in a state's spool, and the thread that fetches them. Raises ValueError for invalid
    settings.

    `close` waits for requests in flight. No feed is fetched while `ready` returns False.
    """

    def __init__(self, core: Core, ready: Callable[[], bool]) -> None:
        settings = core.settings.feeds
        self._spool = core.spool
        self._may_be_private = settings.allow_private
        self._lock = threading.Lock()
        # One connection for the thread that fetches, one for the operations.
        self._fetch_table, self._table = (PreferenceTable(core.spool.path) for _ in range(2))
        self.books = Books(core.spool, self._table)
        try:
            for feed in (*settings.urls, *map(str, settings.opml)):
                opml = self.books.name(feed, allow_private=settings.allow_private)
                for left_out in opml[1] if opml else ():
                    _log.warning("feed.left_out", feed=left_out, list=feed)
            push = None
            if settings.websub is not None:
                push = Push.parse(settings.websub, settings.websub_listen)
            books = Books(core.spool, self._fetch_table)
            self.polling = Polling(
                books, settings.interval, push, getproxies(), report=_report, ready=ready
            )
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        for table in (self._fetch_table, self._table):
            table.__exit__()

    def close(self, timeout: float) -> bool:
        """Stop fetching; returns whether requests in flight ended in time."""
        ended = self.polling.stop(timeout)
        if ended:
            self.polling.__exit__()
            self._close()
        return ended

    def all(self) -> list[WatchedFeed]:
        """All feeds, by address."""
        with self._lock:
            preferences = self.books.preferences.all()
        known = {hub.url: hub for hub in self._spool.hubs()}
        return [
            _watched_feed(
                state,
                preferences.get(state.url, Preferences(state.url, private=True)),
                known.get(state.url),
            )
            for state in self._spool.feeds()
        ]

    def add(self, url: str, *, allow_private: bool = False) -> WatchedFeed:
        """Add a feed; all of its present items count as new. The address is http or https, so that
        clients cannot read files, and may contain a login. A private address needs the operator's
        permission as well."""
        self._check_private(allow_private)
        try:
            if local_path(url) is not None:
                raise BadFeed(f"{url}: not an address (write it as https://host/path)")
            must_be_fetchable(url)
            address, login = split_login(url.strip())
            with self._lock:
                self.books.add_one(
                    Preferences(address, since=ALL), login, allow_private=allow_private
                )
        except BadFeed as error:
            raise Invalid(str(error), "url") from None
        return self._feed(address)

    def discover(self, typed: str, *, allow_private: bool = False) -> Site:
        """The feeds of a site, the best first. Nothing is added."""
        self._check_private(allow_private)
        return feeds_of(typed, allow_private=allow_private)

    def import_list(
        self, opml: bytes, *, folder: str = "", allow_private: bool = False
    ) -> ListedFeeds:
        """Add the feeds that an OPML file lists, below a folder. Those that are not allowed are
        left out, local files always."""
        self._check_private(allow_private)
        try:
            listed, left_out = listed_in(opml, "", ALL, folder)
        except OpmlError as error:
            raise Invalid(str(error), "opml") from None
        with self._lock:
            new, refused = self.books.add(listed, allow_private=allow_private)
        return ListedFeeds(len(listed) - len(refused), new, left_out + refused)

    def add_samples(self) -> ListedFeeds:
        """Add the sample feeds, which are files of the program and need no network."""
        opml = SAMPLES / "subscriptions.opml"
        listed, left_out = listed_in(opml.read_bytes(), opml.as_uri(), ALL)
        with self._lock:
            new, refused = self.books.add(listed)
        return ListedFeeds(len(listed) - len(refused), new, left_out + refused)

    def export_list(self) -> bytes:
        """All feeds as OPML, with their folders and without logins."""
        return write_opml([Subscription(each.url, each.title, each.folder) for each in self.all()])

    def edit(
        self,
        url: str,
        *,
        title: str | None = None,
        folder: str | None = None,
        interval: float | None = None,
        private: bool | None = None,
    ) -> WatchedFeed:
        """Change the preferences of a feed that are not None; an `interval` (seconds) of 0 resets
        it to the default."""
        self._check_private(private)
        key = _key_of(url)
        try:
            with self._lock:
                exists = self.books.edit(
                    key, title=title, folder=folder, interval=interval, private=private
                )
        except BadFeed as error:
            raise Invalid(str(error), "allow_private") from None
        if not exists:
            raise NotFound("feed", key)
        return self._feed(key)

    def _check_private(self, wanted: bool | None) -> None:
        """Raises Invalid if a client wants what the operator does not allow."""
        if wanted and not self._may_be_private:
            raise Invalid(
                "the service's settings do not allow feeds on private addresses: set"
                " feeds.allow_private, or add the feed on its machine, with broker feeds add"
                " --allow-private",
                "allow_private",
            )

    def refresh(self, url: str) -> WatchedFeed:
        """Fetch a feed at once. Raises Conflict for one that is paused or gone."""
        state = self._spool.refresh(_key_of(url))
        if state is None:
            raise NotFound("feed", _key_of(url))
        if state.status != "active":
            raise Conflict(f"{state.url}: it is {state.status}; resume it")
        return self._feed(state.url)

    def remove(self, url: str) -> None:
        """Remove a feed. Its items stay known, so that they are not new if it is added again."""
        with self._lock:
            if not self.books.remove(_key_of(url)):
                raise NotFound("feed", _key_of(url))

    def pause(self, url: str) -> WatchedFeed:
        """Stop fetching a feed until it is resumed."""
        return self._set_status(url, "paused")

    def resume(self, url: str) -> WatchedFeed:
        """Resume a feed that is paused or gone."""
        return self._set_status(url, "active")

    def _set_status(self, url: str, status: Status) -> WatchedFeed:
        if not self._spool.set_status(_key_of(url), status):
            raise NotFound("feed", _key_of(url))
        return self._feed(_key_of(url))

    def _feed(self, url: str) -> WatchedFeed:
        for feed in self.all():
            if feed.url == url:
                return feed
        raise NotFound("feed", url)

    def figures(self) -> FeedFigures:
        try:
            states = self._spool.feeds()
        except sqlite3.Error as error:
            return FeedFigures(0, 0, 0, 0, str(error))
        active = [state for state in states if state.status == "active"]
        return FeedFigures(
            len(active),
            sum(state.status == "paused" for state in states),
            sum(state.status == "gone" for state in states),
            sum(state.errors > 0 for state in active),
            self.polling.failure,
        )


def _report(wave: Wave, failure: BaseException | None) -> None:
    if failure is not None:
        _log.error("feeds.failed", reason=str(failure), exc_info=failure)
    for feed, problem in wave.problems:
        _log.warning("feed.problem", feed=feed, problem=problem)
    if wave.fetched:
        _log.debug("feeds.fetched", feeds=wave.fetched, rows=wave.rows)


def _watched_feed(
    state: FeedState, preferences: Preferences, hub: hubs.Subscription | None
) -> WatchedFeed:
    interval = preferences.interval
    return WatchedFeed(
        url=state.url,
        address=state.address,
        title=preferences.title or state.title,
        folder=preferences.folder,
        status=state.status,
        errors=state.errors,
        problem=state.problem,
        last_fetch=state.last_fetch,
        last_success=state.last_success,
        next_fetch=state.next_fetch,
        items_per_day=state.items_per_day,
        interval=None if interval is None else int(interval * 1_000_000),
        allow_private=preferences.private,
        push=None if hub is None else hub.state,
        push_problem=None if hub is None else hub.problem,
    )


def _key_of(url: str) -> str:
    """The address by which a feed is listed: without its login, and stripped."""
    return split_login(url.strip())[0]

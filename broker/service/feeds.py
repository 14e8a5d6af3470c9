"""The feeds of a state: added and removed while a thread fetches them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from urllib.request import getproxies

import structlog

from broker.service.books import BadFeed, Books, must_be_fetchable
from broker.service.core.answers import FeedFigures, WatchedFeed
from broker.service.core.core import Core
from broker.service.core.errors import Conflict, Invalid, NotFound
from broker.service.polling import Polling, Push
from feeds.feed_state import FeedState, Status
from feeds.fetch import local_path
from feeds.identity import ALL
from feeds.login import split_login
from feeds.poll import Wave
from feeds.preferences import Preferences, PreferenceTable

_log = structlog.get_logger(__name__)


class Feeds:
    """The feeds in a state's spool, and the thread that fetches them. Raises ValueError for
    settings that cannot be.

    `close` waits for what is being fetched. None is fetched while `ready` says no.
    """

    def __init__(self, core: Core, ready: Callable[[], bool]) -> None:
        settings = core.settings.feeds
        self._spool = core.spool
        self._lock = threading.Lock()
        # One connection for the thread that fetches, one for those who add and remove.
        self._fetched, self._listed = (PreferenceTable(core.spool.path) for _ in range(2))
        self.books = Books(core.spool, self._listed)
        try:
            for feed in (*settings.urls, *map(str, settings.opml)):
                listed = self.books.name(feed, allow_private=settings.allow_private)
                for each in listed[1] if listed else ():
                    _log.warning("feed.left_out", feed=each, list=feed)
            push = None
            if settings.websub is not None:
                push = Push.parse(settings.websub, settings.websub_listen)
            fetched = Books(core.spool, self._fetched)
            self.polling = Polling(
                fetched, settings.interval, push, getproxies(), report=_report, ready=ready
            )
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        for listings in (self._fetched, self._listed):
            listings.__exit__()

    def close(self, timeout: float) -> bool:
        """Whether what was being fetched ended in time."""
        ended = self.polling.stop(timeout)
        if ended:
            self.polling.__exit__()
            self._close()
        return ended

    def all(self) -> list[WatchedFeed]:
        """All feeds there are, by address."""
        with self._lock:
            said = self.books.preferences.all()
        return [
            _watched(state, said.get(state.url, Preferences(state.url, private=True)))
            for state in self._spool.feeds()
        ]

    def add(self, url: str, *, allow_private: bool = False) -> WatchedFeed:
        """Watch a feed from now on; what it shows already is news. Only http and https: who may ask
        over the network should not thereby read files. A login may stand in the address."""
        try:
            if local_path(url) is not None:
                raise BadFeed(f"{url}: not an address (write it as https://host/path)")
            must_be_fetchable(url)
            named, login = split_login(url.strip())
            with self._lock:
                self.books.add_one(
                    Preferences(named, since=ALL), login, allow_private=allow_private
                )
        except BadFeed as error:
            raise Invalid(str(error), "url") from None
        return self._feed(named)

    def edit(
        self,
        url: str,
        *,
        title: str | None = None,
        folder: str | None = None,
        interval: float | None = None,
        private: bool | None = None,
    ) -> WatchedFeed:
        """Change what is said of a feed, where it is not None; an `interval` (seconds) of 0 takes
        its own away."""
        named = _named(url)
        try:
            with self._lock:
                there = self.books.edit(
                    named, title=title, folder=folder, interval=interval, private=private
                )
        except BadFeed as error:
            raise Invalid(str(error), "allow_private") from None
        if not there:
            raise NotFound("feed", named)
        return self._feed(named)

    def refresh(self, url: str) -> WatchedFeed:
        """Have a feed fetched now. Raises Conflict for one that is paused or gone."""
        found = self._spool.refresh(_named(url))
        if found is None:
            raise NotFound("feed", _named(url))
        if found.status != "active":
            raise Conflict(f"{found.url}: it is {found.status}; resume it")
        return self._feed(found.url)

    def remove(self, url: str) -> None:
        """Watch a feed no more. What it brought stays, and is not news if it is added again."""
        with self._lock:
            if not self.books.remove(_named(url)):
                raise NotFound("feed", _named(url))

    def pause(self, url: str) -> WatchedFeed:
        """Fetch a feed no more until it is resumed."""
        return self._set_status(url, "paused")

    def resume(self, url: str) -> WatchedFeed:
        """Fetch a feed again that was paused, or that was gone."""
        return self._set_status(url, "active")

    def _set_status(self, url: str, status: Status) -> WatchedFeed:
        if not self._spool.set_status(_named(url), status):
            raise NotFound("feed", _named(url))
        return self._feed(_named(url))

    def _feed(self, url: str) -> WatchedFeed:
        found = [feed for feed in self.all() if feed.url == url]
        if not found:
            raise NotFound("feed", url)
        return found[0]

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


def _watched(state: FeedState, said: Preferences) -> WatchedFeed:
    return WatchedFeed(
        url=state.url,
        address=state.address,
        title=said.title or state.title,
        folder=said.folder,
        status=state.status,
        errors=state.errors,
        problem=state.problem,
        last_fetch=state.last_fetch,
        last_success=state.last_success,
        next_fetch=state.next_fetch,
        items_per_day=state.items_per_day,
        interval=None if said.interval is None else int(said.interval * 1_000_000),
        allow_private=said.private,
    )


def _named(url: str) -> str:
    """The feed that somebody means: as it is listed, without blanks around it and without its
    login."""
    return split_login(url.strip())[0]

"""The feeds of a state: watched, fetched by a thread, and what may be asked of them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.request import getproxies

import structlog

from broker.service.books import BadFeed, Books, must_be_fetchable
from broker.service.core.answers import FeedFigures
from broker.service.core.core import Core
from broker.service.core.errors import Invalid, NotFound
from broker.service.polling import Polling, Push
from feeds.fetch import local_path
from feeds.identity import ALL
from feeds.listing import Listings
from feeds.login import split_login
from feeds.poll import Wave
from feeds.state import FeedState, Status

_log = structlog.get_logger(__name__)


class Watching:
    """The feeds in a state's spool, and their thread. Raises ValueError for settings that cannot be.

    `close` waits for what is being fetched. None is fetched while `ready` says no.
    """

    def __init__(self, core: Core, ready: Callable[[], bool]) -> None:
        settings = core.settings.feeds
        self._lock = threading.Lock()
        # One connection for the thread that fetches, one for those who add and remove.
        self._fetched, self._listed = (Listings(core.spool.path) for _ in range(2))
        self.books = Books(core.spool, self._listed)
        try:
            for feed in (*settings.urls, *map(str, settings.opml)):
                listed = self.books.name(feed)
                for each in listed[1] if listed else ():
                    _log.warning("feed.left_out", feed=each, list=feed)
            push = None
            if settings.websub is not None:
                push = Push.parse(settings.websub, settings.websub_listen)
            fetched = Books(core.spool, self._fetched)
            self.polling = Polling(
                fetched, settings.interval, push, getproxies(), tell=_tell, ready=ready
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

    @contextmanager
    def changing(self) -> Iterator[Books]:
        """One thread at a time."""
        with self._lock:
            yield self.books

    def figures(self) -> FeedFigures:
        try:
            states = self.books.spool.feeds()
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


def _tell(wave: Wave, failure: BaseException | None) -> None:
    if failure is not None:
        _log.error("feeds.failed", reason=str(failure), exc_info=failure)
    for feed, problem in wave.problems:
        _log.warning("feed.problem", feed=feed, problem=problem)
    if wave.fetched:
        _log.debug("feeds.fetched", feeds=wave.fetched, rows=wave.rows)


class FeedOperations:
    """What may be asked of the feeds."""

    core: Core
    watching: Watching

    def feeds(self) -> list[FeedState]:
        """All feeds there are, by address."""
        return self.core.spool.feeds()

    def add_feed(self, url: str) -> FeedState:
        """Watch a feed from now on; what it shows already is news. Only http and https: who may ask
        over the network should not thereby read files. A login may stand in the address."""
        try:
            if local_path(url) is not None:
                raise BadFeed(f"{url}: not an address (write it as https://host/path)")
            must_be_fetchable(url)
        except BadFeed as error:
            raise Invalid(str(error), "url") from None
        with self.watching.changing() as books:
            books.typed([url.strip()], ALL)
        return self._feed(_named(url))

    def remove_feed(self, url: str) -> None:
        """Watch a feed no more. What it brought stays, and is not news if it is added again."""
        with self.watching.changing() as books:
            if not books.remove(_named(url)):
                raise NotFound("feed", _named(url))

    def pause_feed(self, url: str) -> FeedState:
        return self._set_status(url, "paused")

    def resume_feed(self, url: str) -> FeedState:
        """Fetch a feed again that was paused, or that was gone."""
        return self._set_status(url, "active")

    def _set_status(self, url: str, status: Status) -> FeedState:
        if not self.core.spool.set_status(_named(url), status):
            raise NotFound("feed", _named(url))
        return self._feed(_named(url))

    def _feed(self, url: str) -> FeedState:
        found = [state for state in self.core.spool.feeds() if state.url == url]
        if not found:
            raise NotFound("feed", url)
        return found[0]


def _named(url: str) -> str:
    """The feed that somebody means: as it is listed, without blanks around it and without its login."""
    return split_login(url.strip())[0]

"""The feeds in the file of a spool: their states, and the hubs that push them.

In: addresses as typed. Out: what is known of them. `feeds/spool.py` has the file.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from feeds import feed_state as states
from feeds import hubs
from feeds.fair_lock import FairLock
from feeds.feed_state import FeedState, Status
from feeds.hubs import Subscription

_TOGETHER = 250
"""Feeds after which it is reported how many were added."""
_NEVER = 2**63 - 1


class FeedTables(ABC):
    """The tables of the feeds in a database."""

    _db: sqlite3.Connection
    _lock: FairLock

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """A block that is stored entirely or not at all."""

    def _known(self, url: str) -> FeedState | None:
        found = states.load(self._db, "url = ?", url)
        return found[0] if found else None

    def state(self, url: str) -> FeedState:
        """The state of a feed, a fresh one for a feed never added."""
        with self._lock:
            return self._known(url) or FeedState(url, url)

    def feeds(self) -> list[FeedState]:
        """All feeds there are, by address as typed."""
        with self._lock:
            return states.load(self._db, "TRUE ORDER BY url")

    def schedule(self, until: int = _NEVER, beyond: int = _NEVER) -> list[tuple[int, str]]:
        """(next_fetch, url) of the active feeds due at `until` or before, or later than `beyond`,
        the longest due first."""
        with self._lock:
            return self._db.execute(
                "SELECT next_fetch, url FROM feed WHERE status = 'active' "
                "AND (next_fetch <= ? OR next_fetch > ?) ORDER BY next_fetch, url",
                (until, beyond),
            ).fetchall()

    def add(self, url: str, login: str | None = None) -> bool:
        """Subscribe to a feed, due at once; returns whether it is new. A known one only gets the
        login."""
        return self.add_all({url: login}) > 0

    def add_all(
        self,
        logins: Mapping[str, str | None],
        on_feeds: Callable[[int], object] = lambda _: None,
        due: int = 0,
    ) -> int:
        """Subscribe to feeds, given with their logins, in one transaction; returns how many are
        new, which are due at a time, at once by default. One that is known and gets another login
        is due at once. `on_feeds` is called with how many more are done, now and then."""
        new = 0
        with self._transaction():
            for number, (url, login) in enumerate(logins.items(), 1):
                if number % _TOGETHER == 0:
                    on_feeds(_TOGETHER)
                if self._known(url) is None:
                    states.save(self._db, FeedState(url, url, next_fetch=due, login=login))
                    new += 1
                elif login is not None:
                    self._db.execute(
                        "UPDATE feed SET login = ?1, next_fetch = 0"
                        " WHERE url = ?2 AND login IS NOT ?1",
                        (login, url),
                    )
        if rest := len(logins) % _TOGETHER:
            on_feeds(rest)
        return new

    def remove(self, url: str) -> bool:
        """Delete a feed, but not the record of its items: added again it brings only new ones.
        Returns whether it was there."""
        with self._transaction():
            self._db.execute("DELETE FROM hub WHERE url = ?", (url,))
            return self._db.execute("DELETE FROM feed WHERE url = ?", (url,)).rowcount > 0

    def refresh(self, url: str) -> FeedState | None:
        """Make an active feed due at once; returns its state, None if there is no such feed."""
        with self._transaction():
            self._db.execute(
                "UPDATE feed SET next_fetch = 0 WHERE url = ? AND status = 'active'", (url,)
            )
            return self._known(url)

    def hasten(self, now: int, wait: int, may: Callable[[str], bool]) -> None:
        """Have feeds that are well, and that `may`, wait for no longer than so many microseconds
        between two fetches, where more was set before."""
        with self._lock:
            late = self._db.execute(
                "SELECT last_fetch + ?1, url FROM feed WHERE status = 'active' AND next_fetch > ?2"
                " AND errors = 0 AND problem IS NULL AND last_fetch + ?1 < next_fetch",
                (wait, now + wait),
            ).fetchall()
        if hastened := [each for each in late if may(each[1])]:
            with self._transaction():
                self._db.executemany("UPDATE feed SET next_fetch = ? WHERE url = ?", hastened)

    def set_status(self, url: str, status: Status) -> bool:
        """Pause a feed, or make it active and due at once, also one that was gone. Returns whether
        there is such a feed."""
        with self._transaction():
            changed = self._db.execute(
                "UPDATE feed SET status = ?, next_fetch = 0 WHERE url = ?", (status, url)
            )
            return changed.rowcount > 0

    def hubs(self, due: int | None = None) -> list[Subscription]:
        """All subscriptions at hubs; or those of active feeds that are due at a time."""
        with self._lock:
            return hubs.load(self._db) if due is None else hubs.due(self._db, due)

    def hub(self, *, url: str | None = None, token: str | None = None) -> Subscription | None:
        """The subscription of a feed, or the one that a callback's token belongs to."""
        with self._lock:
            found = hubs.load(self._db, "url = ? OR token = ?", url, token)
        return found[0] if found else None

    def save_hub(self, subscription: Subscription) -> None:
        """Store a subscription in place of the feed's former one."""
        with self._transaction():
            hubs.save(self._db, subscription)

    def set_callback(self, address: str) -> None:
        """Store the address under which hubs reach us; if it has changed, all subscriptions are
        made anew."""
        with self._transaction():
            hubs.set_callback(self._db, address)

"""The feeds of a state directory as `broker feeds` shows them, and fetching of single addresses.

In: a state directory, addresses. Out: entries to show, and responses.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from broker.cli.shared import Failed, console
from broker.service import books as service_books
from broker.service.books import BadFeed, Books
from broker.text.units import rough_duration
from feeds import hubs
from feeds.adapter import Channel, parse_feed
from feeds.feed_events import is_dead
from feeds.fetch import Fetched, Fetcher, Request
from feeds.login import Login, split_login
from feeds.preferences import Preferences, PreferenceTable
from feeds.spool import FeedState, Spool, SpoolError

Fetch = Callable[[str], Fetched]

_NAMED = 10
"""The number of feeds whose addresses are shown, of those left out for one reason."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A feed as the list shows it."""

    state: FeedState
    preferences: Preferences
    hub: hubs.Subscription | None = None
    """Its subscription at a hub."""

    @property
    def address(self) -> str:
        """The address to request, with the login."""
        login = self.state.login if origin(self.state.url) == origin(self.state.address) else None
        return with_login(self.state.address, login)

    @property
    def title(self) -> str:
        return self.preferences.title or self.state.title

    def status(self, now: int) -> str:
        if self.state.status != "active":
            return self.state.status
        if is_dead(self.state, now):
            return "dead"
        if self.state.errors:
            return "failing"
        return "new" if self.state.last_success is None else "ok"

    def cells(self, now: int) -> tuple[str, ...]:
        state = self.state
        rate = "" if state.items_per_day is None else f"{state.items_per_day:.1f}"
        due = moment(state.next_fetch) if state.next_fetch > now else "due"
        return (
            self.status(now),
            moment(state.last_success),
            due if state.status == "active" else "",
            str(state.errors),
            rate,
            self.title,
            state.url,
            "; ".join(self.reasons),
        )

    def short_cells(self, now: int) -> tuple[str, ...]:
        """The cells on a terminal, with times relative to now."""
        state = self.state
        status, _, due, _, rate, title, url, _ = self.cells(now)
        last = f"{_rough(now - state.last_success)} ago" if state.last_success else ""
        if due not in ("", "due"):
            due = f"in {_rough(state.next_fetch - now)}"
        return status, last, due, rate, url, title

    @property
    def reasons(self) -> list[str]:
        """Why the last fetch failed, and how many failed in a row; what went wrong with pushes."""
        found = []
        if self.state.problem:
            row = f" ({self.state.errors:,} times in a row)" if self.state.errors > 1 else ""
            found.append(f"{self.state.problem}{row}")
        if self.hub is not None and self.hub.problem:
            found.append(f"pushes: {self.hub.problem}")
        return found

    def to_json(self) -> dict[str, object]:
        state = asdict(self.state)
        for secret in ("login", "body_hash", "etag", "last_modified", "trusted"):
            state.pop(secret, None)
        for name in ("next_fetch", "last_fetch", "last_success", "last_full"):
            state[name] = moment(state[name]) or None
        named = {
            "title": self.title,
            "folder": self.preferences.folder,
            "allow_private": self.preferences.private,
            "typed": self.preferences.private,  # the former name of allow_private
            "interval": self.preferences.interval,
            "push": self.hub and self.hub.state,
            "push_problem": self.hub and self.hub.problem,
        }
        return state | named


def entries(books: Books) -> list[Entry]:
    """All feeds, with their preferences."""
    preferences = books.preferences.all()
    known = {hub.url: hub for hub in books.spool.hubs()}
    return [
        Entry(state, preferences.get(state.url, Preferences(state.url)), known.get(state.url))
        for state in books.spool.feeds()
    ]


@contextmanager
def open_books(state: Path, *, create: bool = False) -> Iterator[Books]:
    """The feeds of a state directory, which is created only with `create`."""
    path = state / "spool.sqlite"
    if not create and not path.exists():
        raise Failed(f"--state {state}: no feeds there; add some with broker feeds add")
    try:
        with Spool(path) as spool, PreferenceTable(path) as preferences:
            yield Books(spool, preferences)
    except SpoolError as error:
        raise Failed(str(error)) from None
    except sqlite3.Error as error:
        raise Failed(f"{path}: {error}") from None
    except OSError as error:
        raise Failed(f"--state {state}: {error.strerror}") from None


@contextmanager
def fetching(typed: Iterable[str] = ()) -> Iterator[Fetch]:
    """A function that fetches addresses. Hosts on private addresses are allowed only if the user
    typed an address of that host."""
    origins = {origin(url) for url in typed}
    with Fetcher(allow_private=True) as fetcher:

        def fetch(address: str) -> Fetched:
            url, login = split_login(address)
            private = origin(url) in origins
            return fetcher.fetch(Request(url, login=Login.of(url, login), private=private))

        yield fetch


def read_feed(url: str, fetched: Fetched) -> Channel:
    """Parse a response as a feed; an unsuccessful one gives a channel with an error."""
    if fetched.outcome != "ok":
        return Channel(url, "", (), error=fetched.problem or fetched.outcome)
    return parse_feed(
        fetched.body,
        url,
        fetched.headers,
        arrival=now_in_microseconds(),
        final_url=fetched.final_url,
    )


def with_login(url: str, login: str | None) -> str:
    """The address with the login in it, as users type it."""
    scheme, _, rest = url.partition("://")
    return url if login is None else f"{scheme}://{login}@{rest}"


@contextmanager
def refusals() -> Iterator[None]:
    """A block in which BadFeed becomes Failed."""
    try:
        yield
    except BadFeed as error:
        raise Failed(str(error)) from None


def say_left_out(left_out: Iterable[str]) -> None:
    """Print which feeds of a list are left out, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for each in left_out:
        url, _, reason = each.partition(": ")
        by_reason.setdefault(reason, []).append(url)
    for reason, urls in by_reason.items():
        if len(urls) == 1:
            console.print(f"left out: {urls[0]}: {reason}")
            continue
        console.print(f"left out: {len(urls):,} feeds: {reason}")
        shown = urls if len(urls) <= _NAMED else urls[: _NAMED - 1]
        for url in shown:
            console.print(f"  {url}")
        if len(shown) < len(urls):
            console.print(f"  and {len(urls) - len(shown):,} more")


def add_one(
    books: Books, preferences: Preferences, login: str | None, allow_private: bool, due: int = 0
) -> bool:
    """Add a feed; returns whether it is new. Raises Failed for one that is not allowed."""
    with refusals():
        return books.add_one(preferences, login, allow_private=allow_private, due=due)


def must_be_fetchable(typed: str) -> None:
    """Raises Failed unless the text is the path of a file or an http(s) URL."""
    with refusals():
        service_books.must_be_fetchable(typed)


def origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(split_login(url)[0])
        return parts.scheme.lower(), (parts.hostname or parts.path).lower(), parts.port
    except ValueError:
        return "", url, None


def now_in_microseconds() -> int:
    return int(time.time() * 1_000_000)


def _rough(microseconds: int) -> str:
    return rough_duration(microseconds / 1_000_000)


def moment(timestamp: int | None) -> str:
    """A time in microseconds as UTC text to the second, "" for never."""
    if not timestamp:
        return ""
    return datetime.fromtimestamp(timestamp // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

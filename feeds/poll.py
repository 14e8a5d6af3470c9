"""Polling: fetches the feeds that are due, in waves, and schedules the next fetch of each.

In: the feeds that are subscribed, a fetcher, a spool and a clock. Out: waves in the spool.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from feeds.adapter import parse_feed
from feeds.fetch import Fetched, Fetcher, Request, local_path
from feeds.hints import Hints, read_hints
from feeds.identity import ALL
from feeds.login import Login, split_login
from feeds.rows import DocumentRow
from feeds.schedule import failure_wait, first_rate, freshness, longest_wait, regular_wait
from feeds.spool import Batch, FeedState, Spool
from feeds.websub import Subscriber, discover

SECOND = 1_000_000
REFRESH = 7 * 86_400 * SECOND
"""Microseconds after which the whole document is requested although the server keeps answering
"not modified"."""
INTERVAL = 900.0
"""Default for the shortest time between two fetches of a feed, in seconds. Feeds that bring little,
or ask for it, are fetched less often."""
WAVE_FEEDS = 500
WAVE_BYTES = 32 * 1024 * 1024

Observer = Callable[[FeedState, FeedState, int], Iterable[DocumentRow]]
"""Called with a feed's state before and after a fetch, and the time of it in microseconds; returns
more documents to store in the same transaction."""


@dataclass(frozen=True, slots=True)
class Wave:
    """The result of one round of fetches: how many feeds were fetched, how many rows were added,
    and (feed, problem) pairs to report."""

    fetched: int = 0
    rows: int = 0
    problems: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: Wave) -> Wave:
        return Wave(
            self.fetched + other.fetched, self.rows + other.rows, self.problems + other.problems
        )


@dataclass(frozen=True, slots=True)
class Terms:
    """How a feed is fetched: whether it may be on a private address, from which time
    (microseconds since the epoch) the items of its first document are news, `ALL` by default, and
    the `interval` between two fetches in seconds, None unless the user has set one for this
    feed."""

    private: bool = True
    since: int = ALL
    interval: float | None = None


@dataclass(frozen=True, slots=True)
class _Flight:
    """A fetch under way: its number among all, the feed, and whether validators were withheld."""

    number: int
    state: FeedState
    terms: Terms
    withheld: bool


class Poller:
    """Fetches what is due of `feeds` and appends it to the spool, a wave at a time.

    `feeds` are addresses as the user typed them, perhaps with a login; None means all that are in
    the spool. `interval` is the shortest time in seconds between two fetches of a feed; `schedule`
    says how much longer it gets, unless the interval is to be kept `exact`. A feed that is gone
    (410) is not asked again. `subscriber` has the feeds that name a hub pushed, `observe` adds
    documents about the feeds themselves, and `terms` gives each feed's. `now` gives seconds since
    the epoch, `chance` a number from 0 to 1.
    """

    def __init__(  # noqa: PLR0913  # settings, each by its keyword
        self,
        spool: Spool,
        fetcher: Fetcher,
        feeds: Sequence[str] | None = None,
        *,
        interval: float = INTERVAL,
        exact: bool = False,
        subscriber: Subscriber | None = None,
        observe: Observer | None = None,
        terms: Callable[[str], Terms] = lambda url: Terms(),
        now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._spool = spool
        self._fetcher = fetcher
        self._interval = interval
        self._exact = exact
        self._subscriber = subscriber
        self._observe = observe
        self._terms = terms
        self._now = now
        self._chance = chance
        self._started = 0
        self._flying: dict[str, _Flight] = {}
        self._pushed: frozenset[str] = frozenset()
        self._feeds: frozenset[str] | None = None
        if feeds is not None:
            typed = dict(map(split_login, feeds))
            spool.add_all(typed)
            self._feeds = frozenset(typed)

    @property
    def sources(self) -> list[str]:
        """The sources of these feeds' documents: the addresses without logins."""
        return [s.url for s in self._spool.feeds() if self._feeds is None or s.url in self._feeds]

    def fetch_wave(self, patience: float | None = None) -> Wave:
        """Fetch every feed that is due and append the results to the spool.

        Before that, rows are stored that other processes have handed over. A wave is one
        transaction, or several if it is very large. After `patience` seconds the
        fetches still under way are left to the next wave, so that a slow host does not delay the
        others.
        """
        self._pushed = self._subscriber.live() if self._subscriber else frozenset()
        total, batches, size = Wave(rows=self._spool.take_handed()), {}, 0
        self._start_due()
        until = None if patience is None else time.monotonic() + patience
        while self._flying:
            left = None if until is None else max(0.0, until - time.monotonic())
            answer = self._fetcher.next(left)
            if answer is None:
                break
            flight, fetched = answer
            assert isinstance(flight, _Flight)
            del self._flying[flight.state.url]
            batches[flight.number] = self._interpret(flight, fetched)
            size += len(fetched.body)
            if len(batches) >= WAVE_FEEDS or size >= WAVE_BYTES:
                total += self._append(batches)
                batches, size = {}, 0
        return total + self._append(batches)

    def seconds_until_due(self) -> float | None:
        """Seconds until the next feed is due; None if no feed will ever be due."""
        if self._flying:
            return 0.0
        for next_fetch, url in self._spool.schedule():
            if self._feeds is None or url in self._feeds:
                left = next_fetch / SECOND - self._now()
                return 0.0 if self._is_too_far(left, url) else max(0.0, left)
        return None

    def _is_too_far(self, seconds: float, url: str) -> bool:
        """Whether a feed's next fetch is further off than the longest wait, which means that it was
        set by a wrong clock."""
        if seconds <= longest_wait(self._interval):
            return False
        return seconds > longest_wait(self._terms(url).interval or 0.0)

    def _start_due(self) -> None:
        now = int(self._now() * SECOND)
        if self._exact:  # it may have been another one, or set by a process that does not know it
            wait = int(self._interval * SECOND)
            self._spool.hasten(now, wait, lambda url: self._terms(url).interval is None)
        # Fetches that a wrong clock scheduled far ahead are due now; else they would never be.
        beyond = now + int(longest_wait(self._interval) * SECOND)
        for due, url in self._spool.schedule(until=now, beyond=beyond):
            subscribed = self._feeds is None or url in self._feeds
            if not subscribed or url in self._flying:
                continue
            if due > now and not self._is_too_far((due - now) / SECOND, url):
                continue
            state = self._spool.state(url)
            known = bool(state.etag or state.last_modified)
            stale = state.last_full is None or not 0 <= now - state.last_full <= REFRESH
            withheld = known and (stale or not state.trusted)
            terms = self._terms(state.url)
            flight = _Flight(self._started, state, terms, withheld)
            self._started += 1
            self._flying[state.url] = flight
            login = Login.of(state.url, state.login)
            request = Request(state.address, login=login, private=terms.private)
            if not withheld:
                request = replace(request, etag=state.etag, last_modified=state.last_modified)
            self._fetcher.start(request, flight)

    def _interpret(self, flight: _Flight, fetched: Fetched) -> Batch:
        state = flight.state
        arrival = int(self._now() * SECOND)
        pushed = state.url in self._pushed
        own = flight.terms.interval
        batch = batch_of(
            state,
            fetched,
            arrival,
            own or self._interval,
            self._chance(),
            pushed=pushed,
            exact=self._exact or own is not None,
        )
        observed = self._observe(state, batch.state, arrival) if self._observe else ()
        since = flight.terms.since
        return replace(batch, withheld=flight.withheld, since=since, rows=tuple(observed))

    def _append(self, batches: dict[int, Batch]) -> Wave:
        in_order = [batches[number] for number in sorted(batches)]
        rows = self._spool.append(in_order, known_only=True) if in_order else 0
        asked = sum(batch.state.last_fetch == batch.arrival for batch in in_order)
        return Wave(asked, rows, tuple(_problems(in_order)))


def batch_of(
    state: FeedState,
    fetched: Fetched,
    arrival: int,
    interval: float,
    chance: float = 0.0,
    *,
    pushed: bool = False,
    exact: bool = False,
) -> Batch:
    """Convert a fetch to a batch: the feed's new state, and the channel if there was a document.

    `arrival` is in microseconds since the epoch, `interval` in seconds; `chance` is from 0 to 1.
    An `exact` interval is kept, whatever the feed brings or asks for.
    """
    if fetched.outcome == "busy" and fetched.status is None:
        # No request was sent. `chance` spreads the feeds of one host over the next interval.
        wait = min(fetched.retry_after or 0.0, 86_400.0) + interval * chance
        held = replace(state, problem=state.problem or fetched.problem)
        return Batch(_later(held, arrival, wait), arrival)
    state = replace(state, last_fetch=arrival)
    asked = state.etag or state.last_modified or state.last_full is not None
    if fetched.outcome == "not modified" and not asked:
        why = "fetch: HTTP status 304 (not modified), though nothing of it was known"
        fetched = replace(fetched, outcome="failed", problem=why)
    if fetched.outcome not in ("ok", "not modified"):
        return Batch(_failed(state, fetched, arrival, interval, chance), arrival)
    channel, hints = None, Hints(state.wish)
    if fetched.outcome == "ok":
        body_hash = hashlib.blake2b(fetched.body, digest_size=16).digest()
        if body_hash != state.body_hash:
            channel = parse_feed(
                fetched.body,
                state.url,
                fetched.headers,
                arrival=arrival,
                final_url=fetched.final_url,
            )
            hints = read_hints(fetched.body, fetched.headers, fetched.final_url)
        # With the validators of a document that was cut off its rest might never be asked for.
        cut = channel is not None and channel.cut
        state = replace(
            state,
            etag=None if cut else fetched.etag,
            last_modified=None if cut else fetched.last_modified,
            last_full=arrival,
            body_hash=None if cut else body_hash,
            wish=hints.wish,
        )
    # A feed that cannot be read stays so until it changes.
    problem = state.problem if (state.problem or "").startswith("parse: ") else None
    if channel is not None:
        problem = f"parse: {channel.error}" if channel.error else None
    if problem is not None:
        errors = state.errors + 1
        wait = failure_wait(interval, errors, None, chance)
        unread = replace(state, errors=errors, problem=problem)
        return Batch(_later(unread, arrival, wait), arrival, channel, fetched.body)
    well = replace(
        state,
        address=fetched.moved_to or state.address,
        title=(channel.title if channel else "") or state.title,
        errors=0,
        problem=None,
        last_success=arrival,
    )
    wish = max(state.wish, freshness(fetched.headers))
    rate = state.items_per_day
    if rate is None and channel is not None:
        dates = [item.timestamp / SECOND for item in channel.items if item.dated]
        rate = first_rate(dates, arrival / SECOND) if dates else None
    if local_path(state.address) is not None:
        rate = None  # reading a local file is cheap, so it is read at each interval
    wait = interval if exact else regular_wait(interval, rate, wish, chance, pushed=pushed)
    hub = discover(fetched, hints, state.url)
    return Batch(_later(well, arrival, wait), arrival, channel, hub=hub)


def _failed(
    state: FeedState, fetched: Fetched, arrival: int, interval: float, chance: float
) -> FeedState:
    errors = state.errors + 1
    wait = failure_wait(interval, errors, fetched.retry_after, chance)
    failed = replace(state, errors=errors, problem=fetched.problem)
    if fetched.outcome == "gone":
        failed = replace(failed, status="gone")
    return _later(failed, arrival, wait)


def _later(state: FeedState, arrival: int, seconds: float) -> FeedState:
    return replace(state, next_fetch=arrival + int(seconds * SECOND))


def _problems(batches: Sequence[Batch]) -> list[tuple[str, str]]:
    found = []
    for batch in batches:
        if batch.state.problem and batch.state.last_fetch == batch.arrival:
            found.append((batch.state.url, batch.state.problem))
        if batch.channel is not None:
            found += [(batch.state.url, f"parse: {text}") for text in batch.channel.problems]
    return found

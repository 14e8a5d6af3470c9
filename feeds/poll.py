"""Polling: which feeds are due, what a fetch means for the next one, and one wave after the other.

In: the addresses that are subscribed, a fetcher, a spool and a clock. Out: waves in the spool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from feeds.adapter import parse_feed
from feeds.fetch import Fetched, Fetcher, Request
from feeds.spool import Batch, FeedState, Spool

SECOND = 1_000_000
LONGEST_WAIT = 86_400.0


@dataclass(frozen=True, slots=True)
class Wave:
    """What one round of fetches did: feeds asked, rows added, and (feed, problem) pairs to report."""

    fetched: int = 0
    rows: int = 0
    problems: tuple[tuple[str, str], ...] = ()


class Poller:
    """Fetches what is due of `feeds` and appends it to the spool, a wave at a time.

    `interval` is the number of seconds between two fetches of a feed; a feed that fails is asked
    after twice as long each time, up to a day, and one that is gone (410) never again. `now` gives
    seconds since the epoch.
    """

    def __init__(
        self,
        spool: Spool,
        fetcher: Fetcher,
        feeds: Sequence[str],
        *,
        interval: float = 900.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._spool = spool
        self._fetcher = fetcher
        self._feeds = tuple(dict.fromkeys(feeds))
        self._interval = interval
        self._now = now

    def wave(self) -> Wave:
        """Fetch every feed that is due, together, and append what came of it in one transaction."""
        now = int(self._now() * SECOND)
        due = [state for state in self._states() if state.next_fetch <= now]
        if not due:
            return Wave()
        answers = self._fetcher.fetch_all(
            [Request(state.address, state.etag, state.last_modified) for state in due]
        )
        arrival = int(self._now() * SECOND)
        batches = [
            digest(state, fetched, arrival, self._interval)
            for state, fetched in zip(due, answers, strict=True)
        ]
        rows = self._spool.append(batches)
        return Wave(len(due), rows, tuple(_problems(batches)))

    def wait(self) -> float | None:
        """Seconds until the next feed is due; None if none ever is."""
        now = self._now()
        times = [state.next_fetch / SECOND for state in self._states()]
        return max(0.0, min(times) - now) if times else None

    def _states(self) -> list[FeedState]:
        states = (self._spool.state(url) for url in self._feeds)
        return [state for state in states if not state.gone]


def digest(state: FeedState, fetched: Fetched, arrival: int, interval: float) -> Batch:
    """What a fetch means: the feed's new state, and the channel if a document came."""
    if fetched.outcome == "not modified":
        # A feed that cannot be read stays so until it changes.
        same = replace(state, address=fetched.moved_to or state.address)
        return Batch(_later(same, arrival, interval), arrival)
    if fetched.outcome != "ok":
        errors = state.errors + 1
        wait = interval * 2 ** min(errors, 20) if fetched.outcome != "busy" else interval
        wait = max(min(wait, LONGEST_WAIT), min(fetched.retry_after or 0.0, 7 * LONGEST_WAIT))
        failed = replace(
            state, errors=errors, problem=fetched.problem, gone=fetched.outcome == "gone"
        )
        return Batch(_later(failed, arrival, wait), arrival)
    channel = parse_feed(
        fetched.body,
        state.url,
        fetched.headers,
        arrival=arrival,
        final_url=fetched.final_url,
    )
    read = replace(
        state,
        address=fetched.moved_to or state.address,
        title=channel.title or state.title,
        etag=fetched.etag,
        last_modified=fetched.last_modified,
        errors=state.errors + 1 if channel.error else 0,
        problem=f"parse: {channel.error}" if channel.error else None,
    )
    return Batch(_later(read, arrival, interval), arrival, channel, fetched.body)


def _later(state: FeedState, arrival: int, seconds: float) -> FeedState:
    return replace(state, next_fetch=arrival + int(seconds * SECOND))


def _problems(batches: Sequence[Batch]) -> list[tuple[str, str]]:
    found = []
    for batch in batches:
        if batch.state.problem:
            found.append((batch.state.url, batch.state.problem))
        if batch.channel is not None:
            found += [(batch.state.url, f"parse: {text}") for text in batch.channel.problems]
    return found

"""The arguments and results of the service's operations.

Times and durations are integers of microseconds, times since 1970 in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from broker import delivery
from broker.figures import Figures as EngineFigures
from broker.model import Limit, Match, Registered
from xscl import Diagnostic

State = Literal["starting", "running", "draining", "stopped"]
Outcome = Literal["new", "replaced", "unchanged"]
Pending = Literal["deliver", "drop"]


@dataclass(frozen=True, slots=True)
class Posted:
    """A document that somebody publishes.

    Without an `id` it gets one that nobody else has; without a `timestamp` that of its arrival. A
    document whose id is known of its source is dropped by the engine, or, as a `revision`, takes
    the place of the one that is stored. The `source` is `post:` and the stream unless it is given.
    """

    xml: bytes
    id: str | None = None
    timestamp: int | None = None
    revision: bool = False
    source: str | None = None

    def source_in(self, stream: str) -> str:
        """Where it comes from, where it is published to a stream."""
        return self.source or f"post:{stream}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Documents that are on disk: how many, their first and last number, and their ids in order.
    `known`: how many of them add nothing, where that was asked."""

    accepted: int
    first: int
    last: int
    ids: tuple[str, ...]
    known: int = 0


@dataclass(frozen=True, slots=True)
class WatchedFeed:
    """A feed: what is known of it (`feeds.feed_state.FeedState`) and what the user says of it
    (`feeds.preferences.Preferences`). `interval` is None where it has none of its own."""

    url: str
    address: str
    title: str
    folder: str
    status: Literal["active", "gone", "paused"]
    errors: int
    problem: str | None
    last_fetch: int | None
    last_success: int | None
    next_fetch: int
    items_per_day: float | None
    interval: int | None
    allow_private: bool


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """A channel as it is asked for. Without a name it is called by its subscription and kind."""

    kind: Literal["file", "webhook", "mail", "pull"]
    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class History:
    """What queries match among the stored documents: how many were looked at, and the matches.
    `suspended` are the queries that matched more than they may, and were given up at that point."""

    documents: int
    matches: list[Match]
    suspended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What lets through less than a subscription finds; None: nothing of its own."""

    throttle: delivery.Throttle | None = None
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription after it was asked for. One that is `replaced` has begun anew, and with no
    other limit than it was asked for. `was` are the bounds that it had before."""

    registered: Registered
    outcome: Outcome
    warnings: tuple[Diagnostic, ...] = ()
    history: History | None = None
    was: Bounds = Bounds()


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A copy of the state: where, when, and the sizes of its files in bytes."""

    directory: Path
    at: int
    files: dict[str, int]


@dataclass(frozen=True, slots=True)
class PipelineFigures:
    """How the pipeline fares.

    `failure` says why it stands still, since `failing_since`; None while all is well. `rate` is how
    many documents it has matched a second of late, `last_batch` when it last matched one.
    `restarts` counts how often it was begun again after a failure, `poisoned` the documents set
    aside because the engine failed at them.
    """

    kind: str
    running: bool
    failure: str | None
    failing_since: int | None
    batches: int
    documents: int
    matches: int
    rate: float
    last_batch: int | None
    restarts: int
    poisoned: int


@dataclass(frozen=True, slots=True)
class SpoolFigures:
    """The spool: its last number, the last that is applied, how many wait, the oldest of them."""

    last: int
    applied: int
    backlog: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class FeedFigures:
    """The feeds by status; `failing` are active ones with errors. `failure`: why none is
    fetched."""

    active: int
    paused: int
    gone: int
    failing: int
    failure: str | None


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """The service at a glance.

    `engine` are its figures of `engine_age` microseconds ago: while the engine is busy for long
    (history, a backup) older figures are returned at once. `maintenance` maps failing tasks to the
    reason. `sizes` are those of the files in bytes.
    """

    at: int
    started: int
    state: State
    pipeline: PipelineFigures
    spool: SpoolFigures
    engine: EngineFigures | None
    engine_age: int
    mailbox: delivery.Figures
    feeds: FeedFigures
    suspended: tuple[str, ...]
    maintenance: dict[str, str]
    sizes: dict[str, int]
    disk_free: int

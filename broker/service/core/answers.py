"""The arguments and results of the service's operations.

Times and durations are integers of microseconds, times since 1970 in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from broker import delivery
from broker.figures import Figures as EngineFigures
from broker.model import Limit, Match
from broker.price import Price
from broker.registered import Registered
from broker.runs import StreamProgress
from broker.service.core.outline import Part
from xscl import Diagnostic

State = Literal["starting", "running", "draining", "stopped"]
Outcome = Literal["new", "replaced", "unchanged"]
Pending = Literal["deliver", "drop"]
Bound = Literal["throttle", "limit"]


@dataclass(frozen=True, slots=True)
class Posted:
    """A document to publish.

    Without an `id` it gets a random one; without a `timestamp` that of its arrival. If its source
    has a document with the same id, the engine drops it or, if it is a `revision`, replaces the
    stored one. The default `source` is `post:` and the stream.
    """

    xml: bytes
    id: str | None = None
    timestamp: int | None = None
    revision: bool = False
    source: str | None = None

    def source_in(self, stream: str) -> str:
        """The source of the document when it is published to a stream."""
        return self.source or f"post:{stream}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Documents that are on disk: how many, their first and last number, and their ids in order.
    `known`: how many of them are duplicates, if that was requested."""

    accepted: int
    first: int
    last: int
    ids: tuple[str, ...]
    known: int = 0


@dataclass(frozen=True, slots=True)
class WatchedFeed:
    """A feed: its state (`feeds.feed_state.FeedState`) and the user's preferences
    (`feeds.preferences.Preferences`). `interval` is None for the default. `push` is the state of
    its subscription at a WebSub hub, None without one, and `push_problem` what went wrong there."""

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
    push: Literal["wanted", "asked", "active", "denied"] | None = None
    push_problem: str | None = None


@dataclass(frozen=True, slots=True)
class ListedFeeds:
    """What became of a list of feeds: how many it has that are allowed, how many of these are new,
    and which are left out, with the reasons."""

    feeds: int
    new: int
    left_out: Sequence[str]


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """A channel to create. The default name is made from its subscription and kind."""

    kind: Literal["file", "webhook", "mail", "pull"]
    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class History:
    """Matches among the stored documents, and the number of these documents. `suspended` are the
    queries that reached their limit, and ended there."""

    documents: int
    matches: list[Match]
    suspended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query of a text, what subscribing it would do, its pattern in parts, and its price; None of
    a pattern, and where nothing is known of a stream."""

    id: str
    text: str
    outcome: Outcome
    outline: tuple[Part, ...]
    price: Price | None


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a text: its queries, unless there are errors; and what was found."""

    queries: tuple[CheckedQuery, ...]
    findings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The throttle and the limit of a subscription; None: none of its own."""

    throttle: delivery.Throttle | None = None
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The result of subscribing one query. A subscription that was `replaced` begins anew, with no
    limit but the requested one. `was` are its former bounds."""

    registered: Registered
    outcome: Outcome
    warnings: tuple[Diagnostic, ...] = ()
    history: History | None = None
    was: Bounds = Bounds()


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup of the state: directory, time, and the sizes of its files in bytes."""

    directory: Path
    at: int
    files: dict[str, int]


@dataclass(frozen=True, slots=True)
class PipelineFigures:
    """The state of the pipeline.

    `failure` is the reason why it stands still, since `failing_since`; None while it works. `rate`
    is the recent number of documents per second, `last_batch` the time of the last batch.
    `restarts` counts restarts after failures, `poisoned` the documents that became dead letters
    because the engine failed at them. `stream` is what Spark says of its query, None without Spark
    and before it runs.
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
    stream: StreamProgress | None = None


@dataclass(frozen=True, slots=True)
class SpoolFigures:
    """The spool: its last number, the last applied one, the backlog, and the time of its oldest."""

    last: int
    applied: int
    backlog: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class FeedFigures:
    """The number of feeds by status; `failing` are active ones with errors. `failure`: why no feed
    is fetched."""

    active: int
    paused: int
    gone: int
    failing: int
    failure: str | None


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """The figures of the service.

    `engine` are the engine's figures of `engine_age` microseconds ago: while the engine is busy for
    long (history, a backup) older figures are returned at once. `maintenance` maps failing tasks to
    the reason. `sizes` are those of the files in bytes. `unstored`: why documents cannot be stored.
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
    unstored: str | None = None

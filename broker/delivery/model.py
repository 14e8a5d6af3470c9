"""The data of the mailbox: matches in the log, channels, dead letters, events, figures, reports.

Times are integer microseconds since 1970 in UTC, like everywhere inside the broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from broker.model import Match, iso_time

Kind = Literal["file", "webhook", "mail", "pull"]
Status = Literal["active", "paused", "disabled"]

_SECRET = ("secret", "old_secrets", "headers")
HIDDEN = "(hidden)"
_TOKEN = re.compile("/bot[^/]+/")


@dataclass(frozen=True, slots=True)
class Delivered:
    """A match in the log. `n` is its number there: numbers grow and are never used twice.

    `taken` is when it entered the log; `left_out` matches before it were left out by the
    subscription's throttle.
    """

    n: int
    taken: int
    match: Match
    left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"n": self.n, **self.match.to_json(), "taken": iso_time(self.taken)}
        if self.left_out:
            found["left_out"] = self.left_out
        return found


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel delivers the matches of one subscription (None: of all) to one receiver.

    All of them up to number `cursor` are done. `attempts`, `next_try`, `failures` and
    `failing_since` describe the current failure of the receiver: `attempts` are those of the next
    match, `failures` all in a row, where attempts at the same time are one. A channel that is
    `draining` (not 0) delivers up to that number and is then removed. `number` changes when a
    channel is replaced, `generation` when it is reset, `version` with each change by a user;
    `state` belongs to the kind of channel.
    """

    name: str
    kind: Kind
    subscription: str | None
    settings: Mapping[str, Any]
    ordered: bool
    status: Status = "active"
    cursor: int = 0
    attempts: int = 0
    next_try: int = 0
    failures: int = 0
    last_error: str | None = None
    last_success: int | None = None
    failing_since: int | None = None
    reason: str | None = None
    delivered: int = 0
    draining: int = 0
    number: int = 0
    generation: int = 0
    version: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)

    def without_secrets(self) -> Channel:
        """The channel with its secrets hidden, so that it may be shown."""
        hidden = {key: HIDDEN for key in self.settings if key in _SECRET}
        if self.settings.get("form") == "telegram":
            # The bot's token stands in its address.
            hidden["url"] = _TOKEN.sub(f"/bot{HIDDEN}/", str(self.settings.get("url")))
        return replace(self, settings={**self.settings, **hidden})

    @property
    def goal(self) -> tuple[str, object, str | None]:
        """Its kind, the address it delivers to, and the subscription whose matches it delivers."""
        to = self.settings.get("to")
        where = (
            self.settings.get("url"),
            self.settings.get("path"),
            [to] if isinstance(to, str) else to,
        )
        return self.kind, next(filter(None, where), None), self.subscription


@dataclass(frozen=True, slots=True)
class Dead:
    """A delivery that was given up: match number `n` of the log did not reach the channel."""

    number: int
    channel: str
    n: int
    match_id: str
    subscription: str
    reason: str
    attempts: int
    at: int


@dataclass(frozen=True, slots=True)
class Event:
    """An event that the owner of a subscription or a channel should know.

    Kinds: channel.disabled, channel.gone, channel.recovered, delivery.dead, and those that other
    parts record.
    """

    number: int
    at: int
    kind: str
    channel: str | None
    subscription: str | None
    text: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "at": iso_time(self.at)}


@dataclass(frozen=True, slots=True)
class Throttle:
    """At most one notification per value of `variable` (None: of the subscription) and `period`."""

    variable: str | None
    period: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """The mailbox in numbers, for status and metrics.

    `matches` and `bytes` are what the log holds now. The counters only grow: matches `taken`,
    `repeated` (known already) and `left_out`; by kind of channel, deliveries that were `delivered`,
    attempts that `failed`, deliveries that were `given_up`. `backlog` and `oldest` are by channel:
    how many matches it has still to deliver (counted up to a bound), and when the first was taken.
    """

    matches: int
    bytes: int
    last: int
    taken: int
    repeated: int
    left_out: int
    dead: int
    retries: int
    channels: Mapping[tuple[str, str], int]
    delivered: Mapping[str, int]
    failed: Mapping[str, int]
    given_up: Mapping[str, int]
    backlog: Mapping[str, int]
    oldest: Mapping[str, int | None]


# -- what the worker reports ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """Deliveries that succeeded. All up to `cursor` are done (None: it stays); `retried` are the
    numbers of retries out of order. `count` is how many matches were delivered, 0 if there was
    nothing to deliver."""

    channel: Channel
    at: int
    count: int = 1
    cursor: int | None = None
    retried: tuple[int, ...] = ()
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that failed. The next one is at `next_try`, unless the delivery is `dead`.

    `later` says that the match will be retried out of order, so that it does not hold up others;
    `again` that this attempt already was such a retry. Until `pause` the channel's other matches
    wait. It is the channel's failure number `failures` in a row.
    """

    channel: Channel
    at: int
    n: int
    match_id: str
    subscription: str
    reason: str
    attempts: int
    failures: int
    next_try: int
    pause: int
    dead: bool = False
    later: bool = False
    cursor: int | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Disabled:
    """The channel delivers nothing until it is resumed."""

    channel: Channel
    at: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class EventsSent:
    """Events up to a number were sent to the channel."""

    channel: Channel
    event: int


Report = Done | Failed | Disabled | EventsSent

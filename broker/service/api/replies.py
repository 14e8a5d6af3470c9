"""The response bodies of the HTTP API: a documented schema for each, filled from the service's
results. Times are ISO 8601 in UTC, durations as in XSCL.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import to_json

from broker.delivery import Throttle
from broker.model import iso_time
from broker.registered import Registered
from broker.service.api.problems import Finding
from broker.text.units import format_duration


def _written(time: Any) -> Any:
    return iso_time(time) if isinstance(time, int) else time


Time = Annotated[str, BeforeValidator(_written), Field(examples=["2026-10-05T06:40:00Z"])]
"""Microseconds as ISO 8601 in UTC."""

Due = Annotated[Time | None, BeforeValidator(lambda time: time or None)]
"""A time, or null for the service's 0, which means never."""

Duration = Annotated[str, BeforeValidator(format_duration), Field(examples=["1 h"])]
"""Microseconds as a duration of XSCL."""

Size = Annotated[int, BeforeValidator(len)]


if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def attributes(of: DataclassInstance) -> dict[str, Any]:
    """The fields of a dataclass, for a reply that has further fields."""
    return {name: getattr(of, name) for name in _names(type(of))}


@cache
def _names(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


class Reply(BaseModel):
    """A body that is filled from the attributes of a result of the service."""

    model_config = ConfigDict(from_attributes=True)


class AcceptedReply(Reply):
    """Documents that are stored durably, and will be processed whatever happens."""

    accepted: int = Field(description="how many", examples=[2])
    known: int = Field(
        default=0,
        description="how many of them add nothing, since documents of their ids are known already",
        examples=[0],
    )
    first: int = Field(
        description="number of the first in the log, in which those that are known already have"
        " numbers too",
        examples=[17],
    )
    last: int = Field(description="number of the last", examples=[18])
    ids: list[str] = Field(description="the ids of the documents, as given or as made")


class GapReply(Reply):
    """Documents that a subscription has not seen."""

    first_doc: int = Field(description="number of the first document, among those that were taken")
    to_doc: int | None = Field(description="number of the one after the last; null: still open")
    since: Time | None = Field(validation_alias="from_time", description="when it began")
    until: Time | None = Field(
        validation_alias="to_time", description="when it ended; null: still open"
    )
    status: Literal["active", "paused", "suspended"] = Field(description="why, in a word")
    reason: str = Field(examples=["paused"])


class ThrottleReply(Reply):
    """At most one notification per value of the variable and period."""

    variable: str | None
    period: Duration
    left_out: int = Field(description="matches that were left out since the last notification")


class LimitReply(Reply):
    """So many matches per period, before the subscription is suspended."""

    matches: int
    period: Duration = Field(validation_alias="microseconds")


class BoundsReply(Reply):
    """The throttle and the limit of a subscription."""

    throttle: ThrottleReply | None
    limit: LimitReply | None


class SubscriptionReply(Reply):
    """A subscription as it stands."""

    id: str = Field(examples=["pair"])
    status: Literal["active", "paused", "suspended"]
    text: str = Field(description="the query in its canonical form")
    first_doc: int = Field(
        description="number of the first document that counts for it, among those that were taken:"
        " what was known already or is a dead letter has none, while it has one in the log"
    )
    since: Time | None = Field(description="when it was registered")
    reason: str | None = Field(description="why it is paused or suspended")
    gaps: list[GapReply] = Field(description="what it has not seen")
    limit: LimitReply | None = None
    throttle: ThrottleReply | None = None
    atom_url: str = Field(
        description="its Atom feed; the address holds a key, so keep it to those concerned"
    )


def subscription_json(of: Registered, throttle: Throttle | None, atom_url: str) -> bytes:
    """The JSON of a `SubscriptionReply`, in a fraction of the time that the model takes."""
    return to_json(
        {
            "id": of.id,
            "status": of.status,
            "text": of.text,
            "first_doc": of.first_doc,
            "since": None if of.since is None else iso_time(of.since),
            "reason": of.reason,
            "gaps": [GapReply.model_validate(gap) for gap in of.gaps],
            "limit": None if of.limit is None else LimitReply.model_validate(of.limit),
            "throttle": None if throttle is None else ThrottleReply.model_validate(throttle),
            "atom_url": atom_url,
        }
    )


class HistoryReply(Reply):
    """What was found among stored documents."""

    documents: int = Field(description="how many were looked at")
    matches: Size = Field(description="how many matches were found; they are delivered like any")
    suspended: list[str] = Field(description="queries that found too much, and were given up there")


class CreatedReply(SubscriptionReply):
    """A subscription that was registered."""

    outcome: Literal["new", "replaced", "unchanged"] = Field(
        description="replaced: there was one of that id with another text"
    )
    warnings: list[Finding] = Field(description="what may not be meant so")
    history: HistoryReply | None = Field(description="with backfill, what was found")
    was: BoundsReply = Field(description="the throttle and the limit that it had before")


class ChangedReply(Reply):
    """What became of several subscriptions, or with `dry_run` would become of them."""

    changed: list[str] = Field(description="the ids of those that changed")
    unchanged: int = Field(description="how many were so already")
    unknown: list[str] = Field(description="which of the ids nobody has")
    left: int = Field(description="how many ids of the prefix come behind the last", examples=[0])
    last: str | None = Field(description="the last id: `after` of the next request")
    first_doc: int = Field(
        description="number of the first document for which it holds, among those that were taken"
    )


class DocumentReply(Reply):
    """A document of a match."""

    id: str
    stream: str
    timestamp: Time
    title: str | None = Field(default=None, description="what it is called, if it says so")
    link: str | None = Field(default=None, description="where it is to be read, if it says so")
    feed: str | None = Field(default=None, description="the title of the feed that it came from")


class FoundReply(Reply):
    """A match."""

    id: str = Field(description="a function of the query and the documents: the idempotency key")
    query: str = Field(description="the subscription")
    stream: str | None = Field(description="the stream that it is published on")
    start: Time
    end: Time
    documents: list[DocumentReply]
    values: dict[str, list[str]] = Field(
        description="texts of the variables that join or are selected, and of SELECT's names"
    )
    joined: list[list[str]] = Field(
        default=[], description="variables that belong together because their values do"
    )
    blocks: list[Any] | None = Field(
        default=None,
        description="of an event pattern, by block: the place of its document in `documents`, null "
        "for a branch that was not taken, a list for a group",
    )
    result: str = Field(description="the XML document that the match publishes")


class MatchReply(FoundReply):
    """A match in the log."""

    n: int = Field(description="its number in the log; a cursor")
    taken: Time = Field(description="when it came into the log")
    left_out: int = Field(default=0, description="matches that a throttle left out before this one")


class DryRunReply(Reply):
    """What queries would have matched; nothing was registered."""

    documents: int = Field(description="how many stored documents were looked at")
    matches: list[FoundReply]
    suspended: list[str] = Field(description="queries that found too much, and were given up there")


class ChannelReply(Reply):
    """A channel as it stands."""

    name: str
    kind: Literal["file", "webhook", "mail", "pull"]
    subscription: str | None = Field(description="whose matches; null: those of all")
    settings: dict[str, Any] = Field(description="by kind; secrets are hidden")
    ordered: bool
    status: Literal["active", "paused", "disabled"]
    reason: str | None = Field(description="why it is not active")
    cursor: int = Field(description="all matches up to this number are done")
    delivered: int = Field(description="matches delivered so far")
    attempts: int = Field(description="failures of its next match")
    failures: int = Field(description="failures of its receiver in a row")
    next_try: Due
    last_error: str | None
    last_success: Time | None
    failing_since: Time | None
    draining: Annotated[bool, BeforeValidator(bool)] = Field(
        description="it goes when what it has is delivered"
    )
    waiting: int | None = Field(
        default=None, description="in lists: matches it has still to deliver, counted to 10,000"
    )


class ChangedChannelReply(ChannelReply):
    """A channel as it stands, and as it was."""

    was: ChannelReply | None = Field(description="what was there under that name; null: nothing")


class TestReply(Reply):
    """What came of trying a channel."""

    ok: bool = Field(description="whether it arrived")
    detail: str = Field(description="why not, or how long it took", examples=["arrived in 0.1 s"])


class DeadDeliveryReply(Reply):
    """A delivery that was given up."""

    number: int
    channel: str
    n: int = Field(description="number of the match in the log")
    match_id: str
    subscription: str
    reason: str
    attempts: int
    at: Time


class LetterReply(Reply):
    """A document that was kept aside."""

    number: int
    source: str
    id: str
    place: str = Field(description="where it came from, for people")
    reason: str = Field(description="why it was not processed")
    at: Time | None = Field(description="when it was kept aside")
    timestamp: Time = Field(description="its own time")
    streams: list[str]
    xml: Annotated[str, BeforeValidator(lambda xml: xml.decode("utf-8", "replace"))] = Field(
        description="what came; bytes that are no UTF-8 are replaced"
    )


class EventReply(Reply):
    """An event for the owners of subscriptions and channels."""

    number: int = Field(examples=[12])
    at: Time
    kind: str = Field(
        description="subscription.suspended, channel.disabled, channel.gone, channel.recovered, "
        "delivery.dead, state.lost, state.older or state.repaired",
        examples=["subscription.suspended"],
    )
    channel: str | None = Field(description="the channel that it is about")
    subscription: str | None = Field(description="the subscription that it is about")
    text: str = Field(examples=["pair is suspended: over its limit of 1,000 matches in 1 h"])


class CountReply(Reply):
    """How many were concerned."""

    count: int = Field(examples=[3])


class BackupReply(Reply):
    """A copy of the state, from which another service can start."""

    directory: Annotated[str, BeforeValidator(str)]
    at: Time
    files: dict[str, int] = Field(description="sizes in bytes by name")


class FeedReply(Reply):
    """A feed as it stands."""

    url: str = Field(description="the feed as it was added; without its login")
    address: str = Field(description="where it is fetched now")
    title: str
    status: Literal["active", "paused", "gone"]
    errors: int = Field(description="failures in a row")
    problem: str | None = Field(description="why the last fetch failed")
    last_fetch: Time | None
    last_success: Time | None
    next_fetch: Due
    items_per_day: float | None
    folder: str
    interval: Duration | None = Field(description="its own; null: as for all feeds")
    allow_private: bool = Field(description="whether it may be on a private address")
    push: Literal["wanted", "asked", "active", "denied"] | None = Field(
        description="its subscription at a WebSub hub; null: it names none, or none is asked"
    )
    push_problem: str | None = Field(description="what went wrong with that last")


class HealthReply(Reply):
    """Whether the process is alive."""

    status: Literal["alive"] = Field(examples=["alive"])


class ReasonReply(Reply):
    """Something that keeps the service from working."""

    code: str = Field(examples=["pipeline-failing"])
    message: str


class ReadyReply(Reply):
    """Whether the service does its work, and if not, why."""

    ready: bool
    reasons: list[ReasonReply]

"""The status of the service: one JSON object in which everything that matters is said in words and
numbers. In: the service's figures. Out: `StatusReply`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from broker.delivery import Figures as MailboxFigures
from broker.model import MICROSECONDS
from broker.runs import StreamProgress
from broker.service import health
from broker.service.api.replies import ReasonReply, Reply, Time, attributes
from broker.service.core.answers import SpoolFigures
from broker.service.service import Service

Rate = Annotated[float, BeforeValidator(lambda rate: round(rate, 1))]

_SHOWN = 20
"""Of lists without a bound, so many are shown."""


class IntakeStatus(Reply):
    """What has come in, and how much of it waits."""

    last: int = Field(description="number of the newest document in the log")
    applied: int = Field(description="number of the last one that is matched")
    backlog: int = Field(description="documents that wait to be matched")
    lag_seconds: float = Field(description="how long the oldest of them has waited")


class SparkStatus(Reply):
    """What Spark says of its streaming query, about a second old. The figures are those of the
    last micro-batch that had documents."""

    doing: str = Field(description="what it does now, in Spark's words")
    batch: int = Field(description="its number, counted on over restarts; -1: none yet")
    rows: int = Field(description="documents that it had")
    arriving_per_second: Rate = Field(
        validation_alias="arriving", description="documents that came in meanwhile"
    )
    processed_per_second: Rate = Field(validation_alias="processed")
    phases: dict[str, float] = Field(
        description="seconds of its phases by Spark's names; triggerExecution is all of it"
    )
    read: int | None = Field(description="number of the last document that it has read")
    waiting: int | None = Field(description="documents in the log behind that one")


class PipelineStatus(Reply):
    """How documents are matched."""

    kind: str = Field(description="local or spark")
    running: bool
    failure: str | None = Field(description="why it stands still")
    failing_since: Time | None
    batches: int = Field(description="since the process was started")
    documents: int = Field(description="since the process was started")
    matches: int = Field(description="since the process was started")
    documents_per_second: Rate = Field(validation_alias="rate", description="of late")
    last_batch: Time | None
    restarts: int = Field(description="how often it was begun again after a failure")
    poisoned: int = Field(description="documents that were set aside because the engine failed")
    spark: SparkStatus | None = Field(
        description="what Spark says itself; null without Spark, and before it runs"
    )


class WaitingStatus(Reply):
    """What an event pattern has not decided yet."""

    query: str
    count: int = Field(description="possible matches, counted up to a bound")
    decides: Time | None = Field(
        description="the time of documents or of the clock at which the first of them is decided; "
        "null for never"
    )


class EngineStatus(Reply):
    """What the engine holds."""

    age_seconds: float = Field(
        description="how old this is; a second at most, unless the engine is busy for longer"
    )
    subscriptions: int
    paused: int = Field(description="those that are not active, suspended ones too")
    canonical_queries: int = Field(validation_alias="canonical")
    templates: int
    nfa_states: int
    variables: int
    live_documents: int = Field(description="documents that matches to come may hold")
    dead_letters: int = Field(description="documents that were kept aside")
    outbox: int = Field(
        validation_alias="matches_in_outbox", description="matches that are not in the log yet"
    )
    watermark: Time | None = Field(description="documents from before are too late")
    waiting: list[WaitingStatus] = Field(
        description="event patterns that wait to decide; those that decide first"
    )
    waiting_count: int = Field(description="how many event patterns wait")


class KindStatus(Reply):
    """Channels of a kind and a status."""

    kind: str
    status: str
    channels: int


class BehindStatus(Reply):
    """A channel that has not delivered everything."""

    channel: str
    backlog: int = Field(description="matches, counted up to a bound")
    oldest: Time | None = Field(description="when the first of them came into the log")


class DeliveryStatus(Reply):
    """Matches, and where they go."""

    matches: int = Field(description="in the log now")
    taken: int = Field(description="ever taken into the log")
    left_out: int = Field(description="left out by throttles")
    last: int = Field(description="number of the newest")
    channels: list[KindStatus]
    delivered: dict[str, int] = Field(description="by kind of channel")
    failed_attempts: dict[str, int] = Field(
        validation_alias="failed", description="by kind of channel"
    )
    given_up: dict[str, int] = Field(description="by kind of channel")
    retries: int = Field(description="deliveries that wait to be tried again")
    dead: int = Field(description="deliveries that were given up, and are kept")
    behind: list[BehindStatus] = Field(description="the channels that are most behind")
    readers: int = Field(description="clients that wait for matches now")


class FeedsStatus(Reply):
    """The feeds."""

    active: int
    paused: int
    gone: int
    failing: int = Field(description="active ones whose last fetch failed")
    failure: str | None = Field(description="why none is fetched")


class StatusReply(Reply):
    """The service at a glance."""

    state: Literal["starting", "running", "draining", "stopped"]
    ready: bool
    reasons: list[ReasonReply] = Field(description="why it is not ready")
    now: Time = Field(validation_alias="at")
    started: Time
    uptime_seconds: float
    intake: IntakeStatus
    pipeline: PipelineStatus
    engine: EngineStatus | None = Field(description="null until it was asked once")
    deliveries: DeliveryStatus
    feeds: FeedsStatus
    suspended: list[str] = Field(description="subscriptions that found too much; some of them")
    suspended_count: int
    maintenance: dict[str, str] = Field(description="tasks that fail, with the reason")
    files: dict[str, int] = Field(validation_alias="sizes", description="sizes in bytes by name")
    disk_free: int = Field(description="bytes")


def status_reply(service: Service, readers: int) -> StatusReply:
    """The status now."""
    figures = service.figures()
    found = health.reasons(figures, service.settings.intake.min_free)
    engine = figures.engine and attributes(figures.engine)
    return StatusReply.model_validate(
        attributes(figures)
        | {
            "ready": not found,
            "reasons": found,
            "uptime_seconds": _seconds(figures.at - figures.started),
            "pipeline": attributes(figures.pipeline)
            | {"spark": _spark(figures.pipeline.stream, figures.spool.last)},
            "intake": attributes(figures.spool) | {"lag_seconds": _lag(figures.spool, figures.at)},
            "engine": engine and _engine(engine, figures.engine_age),
            "deliveries": _deliveries(figures.mailbox, readers),
            "suspended": sorted(figures.suspended)[:_SHOWN],
            "suspended_count": figures.engine.suspended if figures.engine else 0,
        }
    )


def _spark(stream: StreamProgress | None, last: int) -> dict[str, Any] | None:
    """`last` is the number of the newest document in the log, Spark's only source."""
    if stream is None:
        return None
    read = next((each["seq"] for each in stream.read if each), None)
    waiting = None if read is None else max(0, last - read)
    return attributes(stream) | {"read": read, "waiting": waiting}


def _engine(engine: dict[str, Any], age: int) -> dict[str, Any]:
    waiting = engine["waiting"]
    return engine | {
        "age_seconds": _seconds(age),
        "waiting": waiting[:_SHOWN],
        "waiting_count": len(waiting),
    }


def _lag(spool: SpoolFigures, now: int) -> float:
    """How long the oldest document that is not matched yet has waited, in seconds."""
    return _seconds(now - spool.oldest) if spool.backlog and spool.oldest else 0.0


def _deliveries(figures: MailboxFigures, readers: int) -> dict[str, Any]:
    behind = sorted((n for n in figures.backlog.items() if n[1]), key=lambda n: (-n[1], n[0]))
    return attributes(figures) | {
        "channels": [
            {"kind": kind, "status": status, "channels": count}
            for (kind, status), count in sorted(figures.channels.items())
        ],
        "behind": [
            {"channel": name, "backlog": backlog, "oldest": figures.oldest.get(name)}
            for name, backlog in behind[:_SHOWN]
        ],
        "readers": readers,
    }


def _seconds(microseconds: int) -> float:
    return max(0, microseconds) / MICROSECONDS

"""The status of the service: one JSON object in which everything that matters is said in words and
numbers. In: the service's figures. Out: `StatusReply`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from broker.delivery import Figures as MailboxFigures
from broker.model import MICROSECONDS, iso_time
from broker.service import health
from broker.service.api.replies import ReasonReply, Time
from broker.service.core.answers import PipelineFigures, ServiceFigures, SpoolFigures
from broker.service.service import Service

_SHOWN = 20
"""Of lists without a bound, so many are shown."""


class IntakeStatus(BaseModel):
    """What has come in, and how much of it waits."""

    last: int = Field(description="number of the newest document in the log")
    applied: int = Field(description="number of the last one that is matched")
    backlog: int = Field(description="documents that wait to be matched")
    lag_seconds: float = Field(description="how long the oldest of them has waited")


class PipelineStatus(BaseModel):
    """How documents are matched."""

    kind: str = Field(description="local or spark")
    running: bool
    failure: str | None = Field(description="why it stands still")
    failing_since: Time | None
    batches: int = Field(description="since the process was started")
    documents: int = Field(description="since the process was started")
    matches: int = Field(description="since the process was started")
    documents_per_second: float = Field(description="of late")
    last_batch: Time | None
    restarts: int = Field(description="how often it was begun again after a failure")
    poisoned: int = Field(description="documents that were set aside because the engine failed")


class EngineStatus(BaseModel):
    """What the engine holds."""

    age_seconds: float = Field(description="how old this is; the engine may be busy")
    subscriptions: int
    paused: int = Field(description="those that are not active, suspended ones too")
    canonical_queries: int
    templates: int
    nfa_states: int
    variables: int
    live_documents: int = Field(description="documents that matches to come may hold")
    dead_letters: int = Field(description="documents that were kept aside")
    outbox: int = Field(description="matches that are not in the log yet")
    watermark: Time | None = Field(description="documents from before are too late")


class KindStatus(BaseModel):
    """Channels of a kind and a status."""

    kind: str
    status: str
    channels: int


class BehindStatus(BaseModel):
    """A channel that has not delivered everything."""

    channel: str
    backlog: int = Field(description="matches, counted up to a bound")
    oldest: Time | None = Field(description="when the first of them came into the log")


class DeliveryStatus(BaseModel):
    """Matches, and where they go."""

    matches: int = Field(description="in the log now")
    taken: int = Field(description="ever taken into the log")
    left_out: int = Field(description="left out by throttles")
    last: int = Field(description="number of the newest")
    channels: list[KindStatus]
    delivered: dict[str, int] = Field(description="by kind of channel")
    failed_attempts: dict[str, int] = Field(description="by kind of channel")
    given_up: dict[str, int] = Field(description="by kind of channel")
    retries: int = Field(description="deliveries that wait to be tried again")
    dead: int = Field(description="deliveries that were given up, and are kept")
    behind: list[BehindStatus] = Field(description="the channels that are most behind")
    readers: int = Field(description="clients that wait for matches now")


class FeedsStatus(BaseModel):
    """The feeds."""

    active: int
    paused: int
    gone: int
    failing: int = Field(description="active ones whose last fetch failed")
    failure: str | None = Field(description="why none is fetched")


class StatusReply(BaseModel):
    """The service at a glance."""

    state: Literal["starting", "running", "draining", "stopped"]
    ready: bool
    reasons: list[ReasonReply] = Field(description="why it is not ready")
    now: Time
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
    files: dict[str, int] = Field(description="sizes in bytes by name")
    disk_free: int = Field(description="bytes")


def status_reply(service: Service, readers: int) -> StatusReply:
    """The status now."""
    figures = service.figures()
    found = health.reasons(figures, service.settings.intake.min_free)
    return StatusReply(
        state=figures.state,
        ready=not found,
        reasons=[ReasonReply(code=r.code, message=r.message) for r in found],
        now=iso_time(figures.at),
        started=iso_time(figures.started),
        uptime_seconds=_seconds(figures.at - figures.started),
        intake=_intake(figures.spool, figures.at),
        pipeline=_pipeline(figures.pipeline),
        engine=_engine(figures),
        deliveries=_deliveries(figures.mailbox, readers),
        feeds=FeedsStatus(
            active=figures.feeds.active,
            paused=figures.feeds.paused,
            gone=figures.feeds.gone,
            failing=figures.feeds.failing,
            failure=figures.feeds.failure,
        ),
        suspended=sorted(figures.suspended)[:_SHOWN],
        suspended_count=figures.engine.suspended if figures.engine else 0,
        maintenance=figures.maintenance,
        files=figures.sizes,
        disk_free=figures.disk_free,
    )


def lag(spool: SpoolFigures, now: int) -> float:
    """How long the oldest document that is not matched yet has waited, in seconds."""
    return _seconds(now - spool.oldest) if spool.backlog and spool.oldest else 0.0


def _intake(spool: SpoolFigures, now: int) -> IntakeStatus:
    return IntakeStatus(
        last=spool.last,
        applied=spool.applied,
        backlog=spool.backlog,
        lag_seconds=lag(spool, now),
    )


def _pipeline(figures: PipelineFigures) -> PipelineStatus:
    return PipelineStatus(
        kind=figures.kind,
        running=figures.running,
        failure=figures.failure,
        failing_since=_time(figures.failing_since),
        batches=figures.batches,
        documents=figures.documents,
        matches=figures.matches,
        documents_per_second=round(figures.rate, 1),
        last_batch=_time(figures.last_batch),
        restarts=figures.restarts,
        poisoned=figures.poisoned,
    )


def _engine(figures: ServiceFigures) -> EngineStatus | None:
    engine = figures.engine
    if engine is None:
        return None
    return EngineStatus(
        age_seconds=_seconds(figures.engine_age),
        subscriptions=engine.subscriptions,
        paused=engine.paused,
        canonical_queries=engine.canonical,
        templates=engine.templates,
        nfa_states=engine.nfa_states,
        variables=engine.variables,
        live_documents=engine.live_documents,
        dead_letters=engine.dead_letters,
        outbox=engine.matches_in_outbox,
        watermark=_time(engine.watermark),
    )


def _deliveries(figures: MailboxFigures, readers: int) -> DeliveryStatus:
    behind = sorted((n for n in figures.backlog.items() if n[1]), key=lambda n: (-n[1], n[0]))
    return DeliveryStatus(
        matches=figures.matches,
        taken=figures.taken,
        left_out=figures.left_out,
        last=figures.last,
        channels=[
            KindStatus(kind=kind, status=status, channels=count)
            for (kind, status), count in sorted(figures.channels.items())
        ],
        delivered=dict(figures.delivered),
        failed_attempts=dict(figures.failed),
        given_up=dict(figures.given_up),
        retries=figures.retries,
        dead=figures.dead,
        behind=[
            BehindStatus(channel=name, backlog=backlog, oldest=_time(figures.oldest.get(name)))
            for name, backlog in behind[:_SHOWN]
        ],
        readers=readers,
    )


def _seconds(microseconds: int) -> float:
    return max(0, microseconds) / MICROSECONDS


def _time(time: int | None) -> str | None:
    return None if time is None else iso_time(time)

"""Routes for operating the service: status, events, backups, dead letters."""

from __future__ import annotations

from functools import partial
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query

from broker.delivery import Event
from broker.model import DeadLetter
from broker.service.api.access import Member, Operator, own_entries
from broker.service.api.common import ApiContext, page, problems
from broker.service.api.replies import (
    AcceptedReply,
    BackupReply,
    CountReply,
    EventReply,
    LetterReply,
)
from broker.service.api.replies_course import PointReply, SettingReply
from broker.service.api.schemas import (
    LARGEST,
    BackupBody,
    Before,
    Numbers,
    split_numbers,
)
from broker.service.api.status import StatusReply, status_reply
from broker.service.core.answers import Accepted, BackedUp
from broker.service.core.errors import Invalid
from broker.service.course import Span
from broker.settings.shown import shown
from broker.sources.documents import microseconds

router = APIRouter(prefix="/v1")

_CHUNK = 20
"""The number of dead letters that are read from the state at once."""


@router.get(
    "/status",
    operation_id="getStatus",
    summary="Look at the service",
    tags=["service"],
    responses=problems(),
    response_description="The service at a glance.",
)
async def status(api: ApiContext, _: Operator) -> StatusReply:
    """The figures of all parts: intake, pipeline, subscriptions, deliveries, feeds, files."""
    return await api.watch(partial(status_reply, api.service, len(api.waiting)))


@router.get(
    "/events",
    operation_id="listEvents",
    summary="List events for owners of subscriptions and channels",
    tags=["service"],
    response_model=list[EventReply],
    responses=problems(),
    response_description="The events, oldest first.",
)
async def events(
    api: ApiContext,
    who: Member,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="only numbers above it")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
    before: Before = None,
) -> list[Event]:
    """Subscriptions that were suspended, channels that were disabled, deliveries given up."""
    mailbox = api.service.mailbox
    if before is not None and after:
        raise Invalid("give after or before", "before")
    read, begin = (mailbox.events, after) if before is None else (mailbox.events_before, before)
    return await api.read(
        lambda: own_entries(api, who, read, begin, limit, lambda each: each.subscription)
    )


@router.get(
    "/course",
    operation_id="getCourse",
    summary="Look at the last hour or day",
    tags=["service"],
    responses=problems(),
    response_description="The points, oldest first.",
)
async def course(
    api: ApiContext,
    _: Operator,
    span: Annotated[
        Span, Query(description="hour: a point each ten seconds; day: each five minutes")
    ] = "hour",
) -> list[PointReply]:
    """What came in, was matched and waited, how long it took, and memory and disk. It begins anew
    when the service is started."""
    return [PointReply.model_validate(each) for each in api.service.course.points(span)]


@router.get(
    "/settings",
    operation_id="listSettings",
    summary="List the settings in effect",
    tags=["service"],
    responses=problems(),
    response_description="All settings, in the order of their tables.",
)
async def settings(api: ApiContext, _: Operator) -> list[SettingReply]:
    """The settings with which the service was started. Secrets are masked."""
    return [SettingReply.model_validate(each) for each in shown(api.service.settings)]


@router.post(
    "/backup",
    operation_id="backup",
    summary="Back up",
    tags=["service"],
    response_model=BackupReply,
    responses=problems("conflict", "disk-full", "too-large", "unsupported-media-type"),
    response_description="The copy is complete.",
)
async def backup(api: ApiContext, _: Operator, body: BackupBody) -> BackedUp:
    """Copy the whole state into a directory of the service's machine, while it goes on."""
    directory = FilePath(body.directory)
    if not directory.is_absolute():
        raise Invalid("give the whole path, from / on", "directory")
    return await api.change(partial(api.service.backup, directory))


# -- documents that were kept aside --------------------------------------------------------------


@router.get(
    "/dead-letters",
    operation_id="listDeadLetters",
    summary="List documents that were kept aside",
    tags=["dead letters"],
    response_model=list[LetterReply],
    responses=problems(),
    response_description="The documents, oldest first.",
)
async def letters(
    api: ApiContext,
    _: Operator,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="only numbers above it")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
) -> list[DeadLetter]:
    """Documents that were not well-formed, too late, or at which the service failed; with reasons.

    A page may hold fewer than `limit` where documents are large; the last one is empty.
    """
    read = api.service.letters.page
    return await api.change(
        lambda: list(
            page(read, after, limit, _CHUNK, lambda letter: (letter.number, len(letter.xml)))
        )
    )


@router.delete(
    "/dead-letters",
    operation_id="forgetDeadLetters",
    summary="Forget documents that were kept aside",
    tags=["dead letters"],
    responses=problems(),
    response_description="How many were forgotten.",
)
async def forget(
    api: ApiContext,
    _: Operator,
    numbers: Annotated[Numbers | None, Query(description="only these")] = None,
    before: Annotated[
        str | None,
        Query(
            max_length=100,
            description="only those kept aside before this time: ISO 8601, or seconds since 1970",
            examples=["2026-10-05T06:40:00Z"],
        ),
    ] = None,
) -> CountReply:
    """Delete what was kept aside: some by number, those from before a time, or all."""
    time = LARGEST if numbers is None else None
    if before is not None:
        time = microseconds(before)
        if time is None:
            raise Invalid(f"{before!r} is neither a date nor a number of seconds", "before")
    call = partial(api.service.letters.forget, time, split_numbers(numbers))
    return CountReply(count=await api.change(call))


@router.post(
    "/dead-letters/{number}/resubmit",
    operation_id="resubmitDeadLetter",
    summary="Publish a kept-aside document again",
    tags=["dead letters"],
    status_code=202,
    response_model=AcceptedReply,
    responses=problems("not-found", "backlog-full", "draining", "disk-full"),
    response_description="The document is stored durably, and is no dead letter any more.",
)
async def resubmit(
    api: ApiContext,
    _: Operator,
    number: Annotated[int, Path(ge=0, le=LARGEST, description="its number", examples=[3])],
) -> Accepted:
    """Let a document be processed again, as it was; after the lateness was changed, say."""
    return await api.change(partial(api.service.letters.resubmit, number))

"""Looking after the service: its status, documents that were kept aside, feeds, backups."""

from __future__ import annotations

from functools import partial
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from broker.model import DeadLetter, iso_time
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies import (
    AcceptedReply,
    BackupReply,
    CountReply,
    EventReply,
    FeedReply,
    LetterReply,
)
from broker.service.api.schemas import LARGEST, BackupBody, FeedBody, Numbers, split_numbers
from broker.service.api.status import StatusReply, status_reply
from broker.service.core.errors import Invalid
from broker.service.service import Service
from broker.spark.documents import microseconds
from feeds.state import FeedState

router = APIRouter(prefix="/v1")

_CHUNK = 20
"""Documents that are read at once."""

_PAGE_BYTES = 8_000_000
"""A page ends when it is as large as that."""


@router.get(
    "/status",
    operation_id="getStatus",
    summary="Look at the service",
    tags=["service"],
    responses=problems(),
    response_description="The service at a glance.",
)
async def status(api: ApiContext) -> StatusReply:
    """How all parts fare: intake, pipeline, subscriptions, deliveries, feeds, files."""
    return await api.watch(partial(status_reply, api.service, len(api.waiting)))


@router.get(
    "/events",
    operation_id="listEvents",
    summary="List what owners should hear of",
    tags=["service"],
    responses=problems(),
    response_description="The events, oldest first.",
)
async def events(
    api: ApiContext,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="only numbers above it")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
) -> list[EventReply]:
    """Subscriptions that were suspended, channels that were disabled, deliveries given up."""
    found = await api.read(partial(api.service.mailbox.events, after, limit))
    return [EventReply(**event.to_json()) for event in found]


@router.post(
    "/backup",
    operation_id="backup",
    summary="Back up",
    tags=["service"],
    responses=problems("conflict", "disk-full", "too-large", "unsupported-media-type"),
    response_description="The copy is complete.",
)
async def backup(api: ApiContext, body: BackupBody) -> BackupReply:
    """Copy the whole state into a directory of the service's machine, while it goes on."""
    directory = FilePath(body.directory)
    if not directory.is_absolute():
        raise Invalid("give the whole path, from / on", "directory")
    done = await api.change(partial(api.service.backup, directory))
    return BackupReply(directory=str(done.directory), at=iso_time(done.at), files=done.files)


# -- documents that were kept aside --------------------------------------------------------------


@router.get(
    "/dead-letters",
    operation_id="listDeadLetters",
    summary="List documents that were kept aside",
    tags=["dead letters"],
    responses=problems(),
    response_description="The documents, oldest first.",
)
async def letters(
    api: ApiContext,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="only numbers above it")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
) -> list[LetterReply]:
    """Documents that were not well-formed, too late, or at which the service failed; with reasons.

    A page may hold fewer than `limit` where documents are large; the last one is empty.
    """
    return await api.change(partial(_letters, api.service, after, limit))


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
    responses=problems("not-found", "backlog-full", "draining", "disk-full"),
    response_description="The document is stored durably, and is no dead letter any more.",
)
async def resubmit(
    api: ApiContext,
    number: Annotated[int, Path(ge=0, le=LARGEST, description="its number", examples=[3])],
) -> AcceptedReply:
    """Let a document be processed again, as it was; after the lateness was changed, say."""
    done = await api.change(partial(api.service.letters.resubmit, number))
    return AcceptedReply(accepted=done.count, first=done.first, last=done.last, ids=list(done.ids))


def _letters(service: Service, after: int, limit: int) -> list[LetterReply]:
    """Read in small parts, so that a page of large documents does not fill the memory."""
    page: list[LetterReply] = []
    size = 0
    while len(page) < limit and size < _PAGE_BYTES:
        wanted = min(_CHUNK, limit - len(page))
        found = service.letters.page(after, wanted)
        for letter in found:
            page.append(_letter(letter))
            size += len(letter.xml)
            after = letter.number
            if size >= _PAGE_BYTES:
                break
        if len(found) < wanted:
            break
    return page


def _letter(letter: DeadLetter) -> LetterReply:
    return LetterReply(
        number=letter.number,
        source=letter.source,
        id=letter.id,
        place=letter.place,
        reason=letter.reason,
        at=None if letter.at is None else iso_time(letter.at),
        timestamp=iso_time(letter.timestamp),
        streams=list(letter.streams),
        xml=letter.xml.decode("utf-8", "replace"),
    )


# -- feeds -----------------------------------------------------------------------------------------


@router.get(
    "/feeds",
    operation_id="listFeeds",
    summary="List feeds",
    tags=["feeds"],
    responses=problems(),
    response_description="The feeds, by address.",
)
async def feeds(api: ApiContext) -> list[FeedReply]:
    """All feeds that are fetched, with what went wrong last."""
    return [_feed(state) for state in await api.change(api.service.feeds.all)]


@router.post(
    "/feeds",
    operation_id="addFeed",
    summary="Add a feed",
    tags=["feeds"],
    status_code=201,
    responses=problems("conflict", "too-large", "unsupported-media-type"),
    response_description="The feed; it is fetched at once.",
)
async def add(api: ApiContext, body: FeedBody) -> FeedReply:
    """Fetch a feed from now on. One that is known already stays as it is."""
    return _feed(await api.change(partial(api.service.feeds.add, body.url)))


@router.delete(
    "/feeds",
    operation_id="removeFeed",
    summary="Remove a feed",
    tags=["feeds"],
    status_code=204,
    responses=problems("not-found"),
    response_description="The feed is not fetched any more.",
)
async def remove(
    api: ApiContext,
    url: Annotated[
        str,
        Query(
            max_length=4_000,
            description="the feed as it was added",
            examples=["https://example.org/feed.xml"],
        ),
    ],
) -> Response:
    """Fetch a feed no more. Its items stay known: added again it brings only what is new."""
    await api.change(partial(api.service.feeds.remove, url))
    return Response(status_code=204)


def _feed(state: FeedState) -> FeedReply:
    return FeedReply(
        url=state.url,
        address=state.address,
        title=state.title,
        status=state.status,
        errors=state.errors,
        problem=state.problem,
        last_fetch=_time(state.last_fetch),
        last_success=_time(state.last_success),
        next_fetch=_time(state.next_fetch or None),
        items_per_day=state.items_per_day,
    )


def _time(time: int | None) -> str | None:
    return None if time is None else iso_time(time)

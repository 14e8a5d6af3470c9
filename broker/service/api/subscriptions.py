"""Routes for subscriptions: list, subscribe, show, pause, resume, unsubscribe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from broker.delivery import Throttle
from broker.model import Limit
from broker.registered import Registered, Status
from broker.service.access.scopes import OPERATE, Identity
from broker.service.api.access import Member, changed, check_subscription, unchanged
from broker.service.api.common import NDJSON, ApiContext, Context, channel_spec, problems
from broker.service.api.problems import finding
from broker.service.api.replies import (
    CreatedReply,
    DryRunReply,
    SubscriptionReply,
    attributes,
    subscription_json,
)
from broker.service.api.schemas import SubscribeBody
from broker.service.core.answers import History, Subscribed
from broker.service.core.errors import Invalid
from broker.text.json_text import to_json
from broker.text.units import FOREVER

router = APIRouter(prefix="/v1/subscriptions", tags=["subscriptions"])

Id = Annotated[str, Path(max_length=1_000, description="a subscription", examples=["pair"])]


@router.get(
    "",
    operation_id="listSubscriptions",
    summary="List subscriptions",
    response_model=list[SubscriptionReply],
    responses={
        200: {
            "description": "Subscriptions, in order of their ids.",
            "content": {NDJSON: {"schema": {"$ref": "#/components/schemas/SubscriptionReply"}}},
        },
        **problems(),
    },
)
async def subscriptions(
    request: Request,
    api: ApiContext,
    who: Member,
    status: Annotated[
        Literal["active", "paused", "suspended"] | None, Query(description="only those")
    ] = None,
    prefix: Annotated[
        str, Query(max_length=1_000, description="only ids that begin so", examples=["news-"])
    ] = "",
    after: Annotated[
        str, Query(max_length=1_000, description="only ids behind this one: the last of a page")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
    accept: Annotated[
        str, Header(description=f"{NDJSON}: all of them, whatever `limit` says, as lines of JSON")
    ] = "*/*",
) -> Response:
    """The subscriptions in order of their ids, in pages: the last id of one is `after` of the next.

    As lines of JSON, all after `after` come in one response, which is sent as they are read.
    """
    if NDJSON in accept:
        lines = _lines(api, who, request, status, prefix, after)
        return StreamingResponse(lines, media_type=NDJSON)

    def read() -> bytes:
        entries = _entries(api, who, status, prefix, after, limit)
        return b"[" + b",".join(_rendered(api, request, entries)) + b"]"

    return Response(await api.read(read), media_type=JSONResponse.media_type)


def _entries(
    api: Context, who: Identity, status: Status | None, prefix: str, after: str, limit: int
) -> list[Registered]:
    """A page of the subscriptions that are one's own."""
    if who.operates:
        return api.service.subscriptions.page(status, prefix, after, limit)
    found: list[Registered] = []
    ids = api.service.access.owned(who.name, prefix, after)
    for begin in range(0, len(ids), api.sizes.listed):
        part = api.service.engine.committed_of(ids[begin : begin + api.sizes.listed])
        found += [each for each in part if status in (None, each.status)]
        if len(found) >= limit:
            break
    return sorted(found, key=lambda each: each.id)[:limit]


async def _lines(
    api: Context,
    who: Identity,
    request: Request,
    status: Status | None,
    prefix: str,
    after: str,
) -> AsyncIterator[bytes]:
    """Pages of lines, each read on its own, so that slow clients keep no transaction open. While
    one is sent, the next is read."""

    def read(after: str) -> tuple[str | None, bytes]:
        entries = _entries(api, who, status, prefix, after, api.sizes.listed)
        last = entries[-1].id if len(entries) == api.sizes.listed else None
        return last, b"".join([line + b"\n" for line in _rendered(api, request, entries)])

    def begin(after: str) -> asyncio.Task[tuple[str | None, bytes]]:
        return asyncio.create_task(api.read(partial(read, after)))

    reading: asyncio.Task[tuple[str | None, bytes]] | None = begin(after)
    try:
        while reading is not None:
            last, lines = await reading
            reading = None if last is None else begin(last)
            yield lines
    finally:
        if reading is not None:
            reading.cancel()


@router.post(
    "",
    operation_id="subscribe",
    summary="Subscribe",
    status_code=201,
    responses={
        200: {
            "model": DryRunReply,
            "description": "With `dry_run`: what they would have matched. Nothing was registered.",
        },
        **problems("xscl", "conflict", "too-large", "unsupported-media-type"),
    },
    response_description="The subscriptions, in the order of the text.",
    response_model=list[CreatedReply],
)
async def subscribe(request: Request, api: ApiContext, who: Member, body: SubscribeBody) -> Any:
    """Register the queries of a text, all or none; each counts from the next document on.

    A query with a known id and the same text stays as it is; with another text it replaces the old
    one and begins anew. With `backfill` it matches stored documents as well. Errors of the language
    are reported with their places.
    """
    if body.dry_run:
        since = None if body.backfill is None or body.backfill >= FOREVER else body.backfill
        unchanged(request)
        call = partial(api.service.subscriptions.dry_run, body.text, since, name=body.name, who=who)
        return await api.change(lambda: _dry(call()))
    return await api.change(partial(_subscribe, api, who, request, body))


@router.get(
    "/{id}",
    operation_id="getSubscription",
    summary="Look at a subscription",
    responses=problems("not-found"),
    response_description="The subscription.",
)
async def subscription(request: Request, api: ApiContext, who: Member, id: Id) -> SubscriptionReply:
    """One subscription: its text, since when it counts, what it has not seen, its Atom feed."""
    return await api.change(lambda: _reply(api, request, _own(api, who, id)))


@router.delete(
    "/{id}",
    operation_id="unsubscribe",
    summary="Unsubscribe",
    status_code=204,
    responses=problems("not-found", "conflict"),
    response_description="The subscription is gone.",
)
async def unsubscribe(
    api: ApiContext,
    who: Member,
    id: Id,
    pending: Annotated[
        Literal["deliver", "drop"],
        Query(description="what becomes of matches that its own channels have not delivered yet"),
    ] = "deliver",
) -> Response:
    """End a subscription. No document that is published from now on counts for it."""
    check_subscription(api, who, id)
    await api.change(partial(api.service.subscriptions.drop, id, pending))
    return Response(status_code=204)


@router.post(
    "/{id}/pause",
    operation_id="pauseSubscription",
    summary="Pause a subscription",
    responses=problems("not-found", "conflict"),
    response_description="The subscription as it is now.",
)
async def pause(request: Request, api: ApiContext, who: Member, id: Id) -> SubscriptionReply:
    """Let documents pass it by, until it is resumed; the gap is kept with it."""
    check_subscription(api, who, id)
    return await api.change(lambda: _reply(api, request, api.service.subscriptions.pause(id)))


@router.post(
    "/{id}/resume",
    operation_id="resumeSubscription",
    summary="Resume a subscription",
    responses=problems("not-found", "conflict"),
    response_description="The subscription as it is now.",
)
async def resume(request: Request, api: ApiContext, who: Member, id: Id) -> SubscriptionReply:
    """Let it count again from the next document on, after a pause or a suspension."""
    check_subscription(api, who, id)
    return await api.change(lambda: _reply(api, request, api.service.subscriptions.resume(id, who)))


# -- replies -----------------------------------------------------------------------------------


def atom_url(api: Context, request: Request, subscription: str) -> str:
    """The address of a subscription's feed, under the public address of the service if it has
    one."""
    return _atom_url(api, _base(api, request), subscription)


def _base(api: Context, request: Request) -> str:
    return (api.service.settings.server.public_url or str(request.base_url)).rstrip("/")


def _atom_url(api: Context, base: str, subscription: str) -> str:
    return f"{base}/feeds/{quote(subscription, safe='')}.atom?key={api.feed_key(subscription)}"


def _own(api: Context, who: Identity, id: str) -> Registered:
    check_subscription(api, who, id)
    return api.service.subscriptions.get(id)


def _subscribe(
    api: Context, who: Identity, request: Request, body: SubscribeBody
) -> list[CreatedReply]:
    if any(channel.kind == "file" for channel in body.channels):
        who.require(OPERATE, "only operators make channels that write files")
    throttle, limit = body.throttle, body.limit
    for name, given in (("throttle", throttle), ("limit", limit)):
        if given is not None and name in body.lift:
            raise Invalid(f"a {name} is given, and to be lifted", "lift")
    results = api.service.subscriptions.subscribe(
        body.text,
        name=body.name,
        backfill=body.backfill,
        throttle=None if throttle is None else Throttle(throttle.variable, throttle.period),
        limit=None if limit is None else Limit.of(limit.matches, limit.period),
        lift=body.lift,
        channels=[channel_spec(api.service.settings.state, c, c.name) for c in body.channels],
        who=who,
    )
    changed(request, *[result.registered.id for result in results])
    return [_created(api, request, result) for result in results]


def _reply(api: Context, request: Request, registered: Registered) -> SubscriptionReply:
    return SubscriptionReply.model_validate(_fields(api, request, registered))


def _created(api: Context, request: Request, result: Subscribed) -> CreatedReply:
    return CreatedReply.model_validate(
        _fields(api, request, result.registered)
        | {
            "outcome": result.outcome,
            "warnings": [finding(warning) for warning in result.warnings],
            "history": result.history,
            "was": result.was,
        }
    )


def _fields(api: Context, request: Request, registered: Registered) -> dict[str, Any]:
    return attributes(registered) | {
        "throttle": api.service.mailbox.throttle(registered.id),
        "atom_url": atom_url(api, request, registered.id),
    }


def _rendered(api: Context, request: Request, found: Sequence[Registered]) -> list[bytes]:
    """The JSON of subscriptions in the order of their ids. A model for each of very many would take
    three times as long."""
    if not found:
        return []
    throttles = api.service.mailbox.throttles(found[0].id, found[-1].id)
    base = _base(api, request)
    return [
        subscription_json(each, throttles.get(each.id), _atom_url(api, base, each.id))
        for each in found
    ]


def _dry(history: History) -> Response:
    fields = {
        "documents": history.documents,
        "matches": [m.to_json() for m in history.matches],
        "suspended": list(history.suspended),
    }
    return Response(to_json(fields), media_type=JSONResponse.media_type)

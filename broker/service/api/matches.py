"""Routes for matches: pages with a cursor, long polling, an event stream, and resending."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import Response, StreamingResponse

from broker.delivery import Channel
from broker.service.access.scopes import Identity
from broker.service.api.access import Member, check_subscription, names_of, own_channel
from broker.service.api.common import NDJSON, ApiContext, Context, problems
from broker.service.api.guard import still_allowed
from broker.service.api.match_pages import LONGEST, MOST, USUAL, Page, Wanted, read
from broker.service.api.problems import Problem
from broker.service.api.schemas import LARGEST, ResendMatchBody
from broker.service.api.waiting import Watch
from broker.service.core.errors import Conflict, NotFound

router = APIRouter(prefix="/v1/matches", tags=["matches"])

_EVENTS = "text/event-stream"
_RETRY = 2_000
"""Milliseconds after which a client whose stream has ended connects again."""

Subscription = Annotated[
    str | None,
    Query(
        max_length=1_000, description="whose matches; without it those of all", examples=["pair"]
    ),
]


Text = Annotated[
    str,
    Query(
        max_length=200,
        description="only matches with this text in a title, the name of a feed, a link or a value",
    ),
]
Feed = Annotated[
    str, Query(max_length=500, description="only matches with an item of the feed of this title")
]


@router.get(
    "",
    operation_id="readMatches",
    summary="Read matches",
    response_class=Response,
    responses={
        200: {
            "description": "Matches in the order in which they were found, one a line; with "
            "`before` in the opposite order.",
            "content": {NDJSON: {"schema": {"$ref": "#/components/schemas/MatchReply"}}},
            "headers": {
                "Next-Cursor": {
                    "description": "`after` of the next page, with `before` that of the next one; "
                    "always there.",
                    "schema": {"type": "integer"},
                }
            },
        },
        **problems("not-found", "conflict"),
    },
)
async def matches(
    request: Request,
    api: ApiContext,
    who: Member,
    subscription: Subscription = None,
    channel: Annotated[
        str | None,
        Query(max_length=100, description="a pull channel: its matches, from where it has got to"),
    ] = None,
    after: Annotated[
        int | None,
        Query(
            ge=0,
            le=LARGEST,
            description="only matches numbered above it; without it all, or what the channel has "
            "not acknowledged",
        ),
    ] = None,
    before: Annotated[
        int | None,
        Query(
            ge=0,
            le=LARGEST,
            description="only matches numbered below it, newest first; `Next-Cursor` is 0 behind "
            "the oldest",
        ),
    ] = None,
    text: Text = "",
    feed: Feed = "",
    limit: Annotated[int, Query(ge=1, le=MOST, description="how many at most")] = USUAL,
    wait: Annotated[
        float,
        Query(ge=0, le=LONGEST, description="seconds to wait for the first, if there is none"),
    ] = 0.0,
) -> Response:
    """Matches as lines of JSON, oldest first; `Next-Cursor` is `after` of the next request.

    A client that stores that number misses no match and gets none twice. With `wait` the response
    comes as soon as there is a match. A page may hold fewer than `limit` if matches are large, or
    if very many have neither the `text` nor the `feed`. A pull channel stores the number itself:
    see POST /v1/channels/{name}/ack. While it is paused its pages are empty.
    """
    if subscription is not None:
        check_subscription(api, who, subscription)
    if before is not None:
        wanted = Wanted(subscription, before=before, text=text, feed=feed)
        return _response(await api.read(partial(_own_page, api, who, wanted, limit)))
    source, begin = subscription, after
    if channel is not None:
        pull = await api.read(partial(_pull_channel, api, who, channel))
        source, begin = pull.subscription, pull.cursor if after is None else after
    wanted = Wanted(source, begin or 0, text=text, feed=feed)
    look = partial(_own_page, api, who, wanted, limit)
    if channel is not None:
        look = partial(_channel_page, api, who, channel, wanted, limit)
    with _watch(api, who, source) as watch:
        deadline = time.monotonic() + wait
        result = await api.read(look)
        if not result.lines and not begin and subscription is not None:
            await api.change(partial(api.service.subscriptions.get, subscription))
        while not result.lines and not api.waiting.draining:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not await watch.news(remaining, request):
                break
            if not api.service.access.goes_on(who):
                raise Problem("unauthorized", "the token was revoked or changed meanwhile")
            result = await api.read(look)
    return _response(result)


def _response(page: Page) -> Response:
    headers = {"Next-Cursor": str(page.cursor)}
    return Response(b"".join(page.lines), media_type=NDJSON, headers=headers)


def _watch(
    api: Context, who: Identity, subscription: str | tuple[str, ...] | None
) -> AbstractContextManager[Watch]:
    """Watch a subscription, or all that are one's own, also those to come."""
    if isinstance(subscription, str):
        return api.waiting.watch([subscription])
    if who.operates:
        return api.waiting.watch(None)
    return api.waiting.watch(None, partial(api.service.access.owns, who))


def _pull_channel(api: Context, who: Identity, name: str) -> Channel:
    channel = own_channel(api, who, name)
    if channel.kind != "pull":
        raise Conflict(f"{name} is a {channel.kind} channel: it delivers by itself")
    return channel


def _channel_page(api: Context, who: Identity, name: str, wanted: Wanted, limit: int) -> Page:
    """A page of a pull channel in its present state: it may have been paused meanwhile."""
    channel = _pull_channel(api, who, name)
    if channel.status != "active":
        return Page([], [], wanted.after)
    return _own_page(api, who, replace(wanted, subscription=channel.subscription), limit)


def _own(api: Context, who: Identity, wanted: Wanted) -> Wanted:
    """What is wanted, of one's own subscriptions."""
    if who.operates or isinstance(wanted.subscription, tuple):
        return wanted
    return replace(wanted, subscription=names_of(api, who, wanted.subscription))


def _own_page(api: Context, who: Identity, wanted: Wanted, limit: int) -> Page:
    return read(api.service.mailbox, _own(api, who, wanted), limit, api.sizes.searched)


# -- event stream --------------------------------------------------------------------------------


async def _begin(
    api: ApiContext,
    who: Member,
    subscription: Subscription = None,
    after: Annotated[
        int | None,
        Query(ge=0, le=LARGEST, description="only matches numbered above it; 0: all there are"),
    ] = None,
    last_event_id: Annotated[
        int | None,
        Header(ge=0, le=LARGEST, description="the last that was received, when a stream goes on"),
    ] = None,
) -> int:
    """The number after which a stream begins; parameters are checked before it is opened."""
    begin = after if last_event_id is None else last_event_id
    if subscription is not None:
        check_subscription(api, who, subscription)
    if subscription is not None and not begin:
        last = await api.read(partial(api.service.mailbox.latest, subscription, 1))
        if not last:
            await api.change(partial(api.service.subscriptions.get, subscription))
    return api.service.mailbox.last() if begin is None else begin


@router.get(
    "/stream",
    operation_id="streamMatches",
    summary="Follow matches",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A stream of events that ends only when the service stops. The data of "
            "each is a match, as in a line of GET /v1/matches; its id is the match's number.",
            "content": {
                _EVENTS: {
                    "schema": {"type": "string"},
                    "example": ': matches\nid: 6\nretry: 2000\n\ndata: {"n": 7, …}\nid: 7\n\n',
                }
            },
        },
        **problems("not-found"),
    },
)
async def stream(
    request: Request,
    api: ApiContext,
    who: Member,
    begin: Annotated[int, Depends(_begin)],
    subscription: Subscription = None,
    text: Text = "",
    feed: Feed = "",
    every: Annotated[
        float,
        Query(
            ge=0,
            le=2,
            description="seconds between two looks for matches at least; streams of one period "
            "share what they read, and cost next to nothing",
        ),
    ] = 0.0,
    most: Annotated[
        int | None,
        Query(
            ge=1,
            le=100,
            description="of more matches since the last look only the newest so many; an event "
            "`skipped` before them says below which number there are others",
        ),
    ] = None,
) -> StreamingResponse:
    """Matches as server-sent events, as they are found.

    Without `after` the stream begins with what is found from now on. A client that lost the
    connection sends `Last-Event-ID` and misses nothing; browsers do so by themselves. Comments keep
    the connection alive while there is nothing to tell.
    """
    # "X-Accel-Buffering" is for nginx, which would otherwise buffer small events.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    wanted = Wanted(subscription, begin, text=text, feed=feed, most=most)
    events = _events(api, who, wanted, every, partial(still_allowed, request.scope))
    return StreamingResponse(events, media_type=_EVENTS, headers=headers)


async def _events(
    api: Context, who: Identity, wanted: Wanted, every: float, allowed: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The events of a page are sent together, since sending each costs ten times as much."""
    # An id without data, from which clients continue that lose the connection before a match.
    yield format_sse_event(comment="matches", id=str(wanted.after), retry=_RETRY)
    subscription = wanted.subscription
    goes_on = api.service.access.goes_on
    with _watch(api, who, subscription) as watch:
        while not api.waiting.draining and allowed() and goes_on(who):
            page = _own(api, who, wanted)
            matches = await api.shared.page(page, api.service.mailbox, api.read)
            if matches.lines:
                yield matches.events
            if matches.cursor != wanted.after:
                wanted = replace(wanted, after=matches.cursor)
                if every:
                    # Streams of one period rest until the same moment, so that they share a read.
                    await asyncio.sleep(every - asyncio.get_running_loop().time() % every)
            elif not await watch.news(api.keep_alive):
                yield KEEPALIVE_COMMENT


# -- once more -----------------------------------------------------------------------------------


@router.post(
    "/{match_id}/resend",
    operation_id="resendMatch",
    summary="Send a match again",
    status_code=204,
    responses=problems("not-found", "conflict", "too-large", "unsupported-media-type"),
    response_description="It will be delivered again, with the same id.",
)
async def resend(
    api: ApiContext,
    who: Member,
    match_id: Annotated[str, Path(max_length=200, description="the id of the match")],
    body: ResendMatchBody,
) -> Response:
    """Deliver a match that is still in the log to a channel once more."""
    await api.read(partial(_resend, api, who, match_id, body.channel))
    return Response(status_code=204)


def _resend(api: Context, who: Identity, match_id: str, channel: str) -> None:
    if not who.operates:
        own_channel(api, who, channel)
        found = api.service.mailbox.find(match_id)
        if found is None or not api.service.access.owns(who, found.match.query):
            raise NotFound("match", match_id)
    api.service.channels.resend_match(match_id, channel)

"""Routes for feeds: list, add, edit, pause, resume, refresh, remove."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from broker.service.api.access import Operator, changed
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies import FeedReply
from broker.service.api.schemas import FeedBody, FeedEditBody
from broker.service.core.answers import WatchedFeed
from broker.service.core.errors import Invalid
from broker.text.units import parse_duration

FeedUrl = Annotated[
    str,
    Query(
        max_length=4_000,
        description="the feed as it was added",
        examples=["https://example.org/feed.xml"],
    ),
]

router = APIRouter(prefix="/v1")


@router.get(
    "/feeds",
    operation_id="listFeeds",
    summary="List feeds",
    tags=["feeds"],
    response_model=list[FeedReply],
    responses=problems(),
    response_description="The feeds, by address.",
)
async def feeds(api: ApiContext, _: Operator) -> list[WatchedFeed]:
    """All feeds that are fetched, with what went wrong last."""
    return await api.change(api.service.feeds.all)


@router.post(
    "/feeds",
    operation_id="addFeed",
    summary="Add a feed",
    tags=["feeds"],
    status_code=201,
    response_model=FeedReply,
    responses=problems("conflict", "too-large", "unsupported-media-type"),
    response_description="The feed; it is fetched at once.",
)
async def add(request: Request, api: ApiContext, _: Operator, body: FeedBody) -> WatchedFeed:
    """Fetch a feed from now on. All of its present items count as new. One that is known already
    stays as it is, but for its login."""
    feed = await api.change(
        partial(api.service.feeds.add, body.url, allow_private=body.allow_private)
    )
    changed(request, feed.url)
    return feed


@router.patch(
    "/feeds",
    operation_id="editFeed",
    summary="Edit a feed",
    tags=["feeds"],
    response_model=FeedReply,
    responses=problems("not-found", "too-large", "unsupported-media-type"),
    response_description="The feed as it is now.",
)
async def edit(api: ApiContext, _: Operator, url: FeedUrl, body: FeedEditBody) -> WatchedFeed:
    """Change its title, folder, interval, or whether it may be on a private address."""
    interval = None
    if body.interval is not None:
        try:
            interval = 0 if body.interval == "auto" else parse_duration(body.interval) / 1_000_000
        except ValueError as error:
            raise Invalid(str(error), "interval") from None
    change = partial(
        api.service.feeds.edit,
        url,
        title=body.title,
        folder=body.folder,
        interval=interval,
        private=body.allow_private,
    )
    return await api.change(change)


@router.post(
    "/feeds/pause",
    operation_id="pauseFeed",
    summary="Pause a feed",
    tags=["feeds"],
    response_model=FeedReply,
    responses=problems("not-found"),
    response_description="The feed as it is now.",
)
async def pause(api: ApiContext, _: Operator, url: FeedUrl) -> WatchedFeed:
    """Fetch a feed no more until it is resumed."""
    return await api.change(partial(api.service.feeds.pause, url))


@router.post(
    "/feeds/resume",
    operation_id="resumeFeed",
    summary="Resume a feed",
    tags=["feeds"],
    response_model=FeedReply,
    responses=problems("not-found"),
    response_description="The feed as it is now; it is fetched at once.",
)
async def resume(api: ApiContext, _: Operator, url: FeedUrl) -> WatchedFeed:
    """Fetch a feed again that was paused, or that was gone."""
    return await api.change(partial(api.service.feeds.resume, url))


@router.post(
    "/feeds/refresh",
    operation_id="refreshFeed",
    summary="Refresh a feed",
    tags=["feeds"],
    response_model=FeedReply,
    responses=problems("not-found", "conflict"),
    response_description="The feed; it is fetched at once.",
)
async def refresh(api: ApiContext, _: Operator, url: FeedUrl) -> WatchedFeed:
    """Fetch a feed now, whenever it would be due."""
    return await api.change(partial(api.service.feeds.refresh, url))


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
    _: Operator,
    url: FeedUrl,
) -> Response:
    """Fetch a feed no more. Its items stay known: added again it brings only what is new."""
    await api.change(partial(api.service.feeds.remove, url))
    return Response(status_code=204)

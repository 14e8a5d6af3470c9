"""Routes that find feeds and exchange lists of them: by a site's address, as OPML, the samples."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from broker.service.api.access import Operator, changed, unchanged
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies import Reply
from broker.service.api.schemas import Body, FeedBody, Text
from broker.service.core.answers import ListedFeeds
from broker.service.sites import Site

router = APIRouter(prefix="/v1/feeds", tags=["feeds"])

_OPML = "text/x-opml"
_OPML_LENGTH = 5_000_000
"""The largest number of characters of a list."""


class ImportBody(Body):
    """A list of feeds, as feed readers export it."""

    opml: Annotated[
        Text,
        Field(
            min_length=1,
            max_length=_OPML_LENGTH,
            examples=['<opml><body><outline xmlUrl="https://example.org/feed.xml"/></body></opml>'],
        ),
    ]
    folder: Text = Field(default="", max_length=1_000, description="the folder to put them in")
    allow_private: bool = Field(
        default=False, description="whether they may be on this machine or in its network"
    )


class SiteFeedReply(Reply):
    """A feed of a site."""

    url: str = Field(examples=["https://example.org/feed.xml"])
    title: str
    dialect: str = Field(description="what it is written in", examples=["atom10"])
    items: int = Field(description="how many it has now")
    newest: str | None = Field(description="the title of an item of it, the newest as a rule")
    same_as: str | None = Field(description="the address of a better one with the same items")


class SiteReply(Reply):
    """What is at the address of a site."""

    feeds: list[SiteFeedReply] = Field(description="the best first")
    problems: list[str] = Field(description="what could not be fetched, and why")


class ListedReply(Reply):
    """What became of a list of feeds."""

    feeds: int = Field(description="how many feeds the list has that are fetched", examples=[17])
    new: int = Field(description="how many of them are new", examples=[17])
    left_out: list[str] = Field(description="which are not fetched, and why")


@router.post(
    "/discover",
    operation_id="discoverFeeds",
    summary="Find the feeds of a site",
    response_model=SiteReply,
    responses=problems("too-large", "unsupported-media-type"),
    response_description="The feeds; none is added.",
)
async def discover(request: Request, api: ApiContext, _: Operator, body: FeedBody) -> Site:
    """Fetch a page and find its feeds: those that it declares, those that it links to, and those
    at the usual places. The address of a feed finds that."""
    unchanged(request)
    find = partial(api.service.feeds.discover, body.url, allow_private=body.allow_private)
    return await api.try_out(find)


@router.get(
    "/opml",
    operation_id="exportFeeds",
    summary="Export the feeds",
    responses={
        200: {
            "content": {
                _OPML: {"schema": {"type": "string", "examples": ['<opml version="2.0"/>']}}
            },
            "description": "All feeds with their folders, without logins.",
        },
        **problems(),
    },
    response_class=Response,
)
async def export(api: ApiContext, _: Operator) -> Response:
    """All feeds as OPML, which feed readers import."""
    opml = await api.change(api.service.feeds.export_list)
    name = 'attachment; filename="feeds.opml"'
    return Response(opml, media_type=_OPML, headers={"Content-Disposition": name})


@router.post(
    "/opml",
    operation_id="importFeeds",
    summary="Import feeds",
    response_model=ListedReply,
    responses=problems("too-large", "unsupported-media-type"),
    response_description="They are fetched at once.",
)
async def import_list(
    request: Request, api: ApiContext, _: Operator, body: ImportBody
) -> ListedFeeds:
    """Fetch all feeds of a list from now on. All of their present items count as new. Those that
    are known already stay as they are."""
    read = partial(
        api.service.feeds.import_list,
        body.opml.encode(),
        folder=body.folder,
        allow_private=body.allow_private,
    )
    listed = await api.change(read)
    changed(request, f"{listed.new} feeds")
    return listed


@router.post(
    "/samples",
    operation_id="addSampleFeeds",
    summary="Add the sample feeds",
    response_model=ListedReply,
    responses=problems(),
    response_description="They are read at once.",
)
async def samples(request: Request, api: ApiContext, _: Operator) -> ListedFeeds:
    """Add the sample feeds that come with the program, to try it out. They need no network."""
    listed = await api.change(api.service.feeds.add_samples)
    changed(request, f"{listed.new} sample feeds")
    return listed

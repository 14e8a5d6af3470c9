"""Routes for streams: what is known of their documents."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field

from broker.service.api.access import Member
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies import Reply, Time
from broker.service.core.errors import Invalid

router = APIRouter(prefix="/v1/streams", tags=["streams"])

Name = Annotated[str, Path(max_length=1_000, description="a stream", examples=["S"])]


class StreamCountReply(Reply):
    """A stream that has stored documents."""

    name: str = Field(examples=["S"])
    documents: int = Field(description="how many are stored", examples=[20])
    known: int = Field(description="how many of them have label paths that are counted")
    since: Time = Field(validation_alias="first", description="when the first of them ended")
    until: Time = Field(validation_alias="last", description="when the last of them ended")


class ValueReply(Reply):
    """A value, perhaps shortened."""

    value: str
    documents: int = Field(description="how many documents of the sample have it")


class PathReply(Reply):
    """A label path of a stream."""

    path: str = Field(description="by local names", examples=["/item/title"])
    documents: int = Field(description="how many documents have it", examples=[20])
    exact: bool = Field(description="whether that is counted; else it is estimated from a sample")
    nodes: float = Field(description="how many nodes such a document has there, on average")
    sampled: int = Field(description="how many documents of the sample have the path")
    distinct: int = Field(description="how many values differ in the sample")
    values: list[ValueReply] = Field(description="the most frequent values")


class StreamReply(Reply):
    """What is known of a stream by its stored documents."""

    name: str = Field(examples=["S"])
    documents: int = Field(description="how many are stored", examples=[20])
    known: int = Field(description="how many of them have label paths that are counted")
    since: str = Field(description="when the first of them ended; nothing older is known")
    until: str = Field(description="when the last of them ended")
    per_day: float = Field(description="documents a day, by their own times")
    sampled: int = Field(description="documents whose values were read")
    cut: int = Field(description="documents that have further paths, which are not named")
    size: float = Field(description="bytes of a document, on average of the sampled ones")
    paths: list[PathReply]


@router.get(
    "",
    operation_id="listStreams",
    summary="List streams",
    response_model=list[StreamCountReply],
    responses=problems(),
    response_description="The streams that have stored documents, by name.",
)
async def streams(api: ApiContext, who: Member) -> list[Any]:
    """How many documents of each stream are stored, and since when; of those that the token may
    read."""
    return [each for each in await api.watch(api.service.streams.all) if who.may_read(each.name)]


class PlaceReply(Reply):
    """A label path of a stream."""

    stream: str = Field(examples=["S"])
    path: str = Field(examples=["/item/item_url"])


class SuggestionReply(Reply):
    """A join that documents suggest."""

    id: str = Field(description="the label of the query", examples=["same-item_url"])
    query: str = Field(description="a query that is ready to be subscribed")
    left: PlaceReply
    right: PlaceReply
    values: int = Field(description="values that both sides have")
    matches: int = Field(description="matches that the query found among the sampled documents")
    documents: int = Field(description="documents in these matches")
    sampled: int = Field(description="documents that were looked at")
    partners: list[str] = Field(description="ids of those that it joins with the given `document`")


@router.get(
    "/suggestions",
    operation_id="suggestJoins",
    summary="Ask for joins that documents suggest",
    responses=problems("not-found"),
    response_description="Joins, best first.",
)
async def suggestions(
    api: ApiContext,
    who: Member,
    stream: Annotated[
        list[str],
        Query(max_length=8, description="one stream, or several to join with each other"),
    ] = [],  # noqa: B006  # FastAPI copies it
    document: Annotated[
        str | None,
        Query(max_length=4_000, description="the id of a stored document: what joins with this?"),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=20, description="how many at most")] = 5,
) -> list[SuggestionReply]:
    """Pairs of label paths whose values meet, within one stream or between several, from a sample
    of their documents; each with a query, which was tried on the sample. With `document` those that
    join this one with others, of the given streams or of all, also of those near it in time."""
    for name in stream:
        who.check_read(name)
    streams = api.service.streams
    if document is not None:
        ask = partial(streams.suggest_for, document, stream, limit, who.may_read)
    elif stream:
        ask = partial(streams.suggest, stream, limit)
    else:
        raise Invalid("name a stream, or a document", "stream")
    found = await api.change(ask)
    return [SuggestionReply.model_validate(each.as_json()) for each in found]


@router.get(
    "/{name}",
    operation_id="getStream",
    summary="Look at a stream",
    responses=problems("not-found"),
    response_description="The stream.",
)
async def stream(
    api: ApiContext,
    who: Member,
    name: Name,
    values: Annotated[int, Query(ge=0, le=100, description="values of each path")] = 3,
) -> StreamReply:
    """The label paths of its documents: how many have each, exactly, and a few values."""
    who.check_read(name)
    seen = await api.watch(partial(api.service.streams.get, name, values))
    return StreamReply.model_validate(seen.as_json())

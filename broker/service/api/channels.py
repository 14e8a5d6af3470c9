"""Routes for channels, and for deliveries that were given up."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from broker.delivery import Channel, Dead
from broker.service.access.scopes import OPERATE, Identity
from broker.service.api.access import Member, check_subscription, own_channel, own_entries
from broker.service.api.common import ApiContext, Context, channel_spec, problems
from broker.service.api.replies import (
    ChangedChannelReply,
    ChannelReply,
    CountReply,
    DeadDeliveryReply,
    TestReply,
    attributes,
)
from broker.service.api.schemas import (
    LARGEST,
    AckBody,
    ChannelBody,
    Name,
    Numbers,
    ResendBody,
    ResetBody,
    split_numbers,
)

channels = APIRouter(prefix="/v1/channels", tags=["channels"])
deliveries = APIRouter(prefix="/v1/deliveries/dead", tags=["deliveries"])

Known = Annotated[str, Path(max_length=1_000, description="a channel", examples=["desk"])]

OfChannel = Annotated[str | None, Query(max_length=1_000, description="only those of this channel")]


@channels.get(
    "",
    operation_id="listChannels",
    summary="List channels",
    response_model=list[ChannelReply],
    responses=problems(),
    response_description="The channels by name.",
)
async def list_channels(api: ApiContext, who: Member) -> list[dict[str, Any]]:
    """All channels, with how far each has got and what went wrong last."""
    entries = await api.read(api.service.channels.all)
    owns = api.service.access.owns
    entries = [channel for channel in entries if owns(who, channel.subscription)]
    backlog = (await api.read(api.service.mailbox.figures)).backlog
    return [
        {**attributes(channel.without_secrets()), "waiting": backlog.get(channel.name, 0)}
        for channel in entries
    ]


@channels.put(
    "/{name}",
    operation_id="putChannel",
    summary="Make or change a channel",
    response_model=ChangedChannelReply,
    responses=problems("not-found", "conflict", "too-large", "unsupported-media-type"),
    response_description="The channel, with its secrets.",
)
async def put(
    api: ApiContext,
    who: Member,
    name: Annotated[Name, Path(description="a channel")],
    body: ChannelBody,
) -> dict[str, Any]:
    """A new channel begins with what is found from now on; one that is changed goes on where it is.

    A webhook without a secret gets one made.
    """
    if body.kind == "file":
        who.require(OPERATE, "only operators make channels that write files")
    if body.subscription is None:
        who.require(OPERATE, "a channel of all subscriptions is for operators; name one of yours")
    else:
        check_subscription(api, who, body.subscription)
    await api.read(partial(api.service.tenants.check_channel, who, name))
    spec = channel_spec(api.service.settings.state, body, name)
    put = partial(api.service.channels.put, spec, body.subscription, replace=body.replace)
    channel, before = await api.change(put)
    return {**attributes(channel), "was": before and before.without_secrets()}


@channels.get(
    "/{name}",
    operation_id="getChannel",
    summary="Look at a channel",
    response_model=ChannelReply,
    responses=problems("not-found"),
    response_description="The channel.",
)
async def one(
    api: ApiContext,
    who: Member,
    name: Known,
    secrets: Annotated[bool, Query(description="show the secret of a webhook as well")] = False,
) -> Channel:
    """One channel: where it delivers, how far it has got, what went wrong last."""
    channel = await api.read(partial(own_channel, api, who, name))
    return channel if secrets else channel.without_secrets()


@channels.delete(
    "/{name}",
    operation_id="deleteChannel",
    summary="Remove a channel",
    status_code=204,
    responses=problems("not-found"),
    response_description="The channel is gone.",
)
async def delete(api: ApiContext, who: Member, name: Known) -> Response:
    """Remove a channel. What it has not delivered stays in the log and is not delivered by it."""
    await api.read(partial(own_channel, api, who, name))
    await api.read(partial(api.service.channels.drop, name))
    return Response(status_code=204)


@channels.post(
    "/{name}/pause",
    operation_id="pauseChannel",
    summary="Pause a channel",
    response_model=ChannelReply,
    responses=problems("not-found"),
    response_description="The channel as it is now.",
)
async def pause(api: ApiContext, who: Member, name: Known) -> Channel:
    """Deliver nothing until it is resumed; nothing is lost meanwhile."""
    await api.read(partial(own_channel, api, who, name))
    return (await api.read(partial(api.service.channels.pause, name))).without_secrets()


@channels.post(
    "/{name}/resume",
    operation_id="resumeChannel",
    summary="Resume a channel",
    response_model=ChannelReply,
    responses=problems("not-found"),
    response_description="The channel as it is now.",
)
async def resume(api: ApiContext, who: Member, name: Known) -> Channel:
    """Go on where a paused or disabled channel stopped, at once."""
    await api.read(partial(own_channel, api, who, name))
    return (await api.read(partial(api.service.channels.resume, name))).without_secrets()


@channels.post(
    "/{name}/ack",
    operation_id="acknowledge",
    summary="Acknowledge matches",
    response_model=ChannelReply,
    responses=problems("not-found", "conflict", "too-large", "unsupported-media-type"),
    response_description="The channel as it is now.",
)
async def ack(api: ApiContext, who: Member, name: Known, body: AckBody) -> Channel:
    """Say that all matches up to a number are dealt with; only for pull channels.

    The cursor never goes backwards.
    """
    await api.read(partial(own_channel, api, who, name))
    return (await api.read(partial(api.service.channels.ack, name, body.n))).without_secrets()


@channels.post(
    "/{name}/reset",
    operation_id="resetChannel",
    summary="Begin a channel again",
    response_model=ChannelReply,
    responses=problems("not-found", "conflict", "too-large", "unsupported-media-type"),
    response_description="The channel as it is now.",
)
async def reset(api: ApiContext, who: Member, name: Known, body: ResetBody) -> Channel:
    """Deliver all that is in the log behind a number, also what was delivered before."""
    await api.read(partial(own_channel, api, who, name))
    call = partial(api.service.channels.reset, name, body.after)
    return (await api.read(call)).without_secrets()


@channels.post(
    "/{name}/test",
    operation_id="testChannel",
    summary="Try a channel",
    responses=problems("not-found", "conflict"),
    response_description="What came of it.",
)
async def test(api: ApiContext, who: Member, name: Known) -> TestReply:
    """Deliver one message of its own, of the type `test`, and wait for what comes of it.

    It is no match, moves nothing, and is not tried again. A pull channel cannot be tried.
    """
    await api.read(partial(own_channel, api, who, name))
    delivered, detail = await api.try_out(partial(api.service.channels.test, name))
    return TestReply(ok=delivered, detail=detail)


# -- given up ----------------------------------------------------------------------------------


@deliveries.get(
    "",
    operation_id="listDeadDeliveries",
    summary="List deliveries that were given up",
    response_model=list[DeadDeliveryReply],
    responses=problems(),
    response_description="The deliveries, oldest first.",
)
async def dead(
    api: ApiContext,
    who: Member,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="only numbers above it")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
    channel: OfChannel = None,
) -> list[Dead]:
    """Matches that a receiver did not take, however often it was tried, with the last reason."""
    read = partial(api.service.mailbox.dead, channel=channel)
    return await api.read(
        lambda: own_entries(api, who, read, after, limit, lambda each: each.subscription)
    )


@deliveries.delete(
    "",
    operation_id="forgetDeadDeliveries",
    summary="Forget deliveries that were given up",
    responses=problems(),
    response_description="How many were forgotten.",
)
async def forget(
    api: ApiContext,
    who: Member,
    numbers: Annotated[Numbers | None, Query(description="only these")] = None,
    channel: OfChannel = None,
) -> CountReply:
    """Forget deliveries that were given up: some by number, those of a channel, or all."""
    await _check_channel(api, who, channel)
    call = partial(api.service.mailbox.forget_dead, split_numbers(numbers), channel=channel)
    return CountReply(count=await api.read(call))


@deliveries.post(
    "/resend",
    operation_id="resendDeadDeliveries",
    summary="Try given-up deliveries again",
    status_code=202,
    responses=problems("not-found", "too-large", "unsupported-media-type"),
    response_description="They will be tried again.",
)
async def resend(api: ApiContext, who: Member, body: ResendBody) -> CountReply:
    """Try deliveries again that were given up: some by number, those of a channel, or all."""
    await _check_channel(api, who, body.channel)
    count = await api.read(partial(api.service.mailbox.resend, body.numbers, body.channel))
    return CountReply(count=count)


async def _check_channel(api: Context, who: Identity, channel: str | None) -> None:
    """Raises Forbidden or NotFound for deliveries that are not all one's own."""
    if channel is None:
        who.require(OPERATE, "the deliveries of all channels are for operators; name one of yours")
    elif not who.operates:
        await api.read(partial(own_channel, api, who, channel))

"""Routes for tokens, for who one is, and for the log of changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request

from broker.service.access.access import Token
from broker.service.access.change_log import Change
from broker.service.access.scopes import Identity, Quota
from broker.service.api.access import Anyone, Operator, changed
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies import attributes
from broker.service.api.schemas import (
    LARGEST,
    Before,
    QuotaBody,
    RotateBody,
    TokenBody,
    TokenChangeBody,
)
from broker.service.api.token_replies import (
    ChangedTokenReply,
    ChangeReply,
    IdentityReply,
    MadeTokenReply,
    NewTokenReply,
    RevokedReply,
    TokenReply,
)

router = APIRouter(prefix="/v1", tags=["tokens"])

Known = Annotated[str, Path(max_length=100, description="a token", examples=["desk"])]


@router.get(
    "/identity",
    operation_id="getIdentity",
    summary="Ask who one is",
    response_model=IdentityReply,
    responses=problems(),
    response_description="The name and the scopes of the token that was sent.",
)
async def identity(who: Anyone) -> Identity:
    """What the token that is sent may do. The service's own token has an empty name."""
    return who


@router.get(
    "/tokens",
    operation_id="listTokens",
    summary="List tokens",
    response_model=list[TokenReply],
    responses=problems(),
    response_description="The tokens by name, without their secrets.",
)
async def tokens(api: ApiContext, _: Operator) -> list[Token]:
    """All tokens but the service's own, which is in its settings or its state directory."""
    return await api.read(api.service.access.all)


@router.post(
    "/tokens",
    operation_id="addToken",
    summary="Make a token",
    status_code=201,
    response_model=MadeTokenReply,
    responses=problems("conflict", "too-large", "unsupported-media-type"),
    response_description="The token with its secret, which is shown this once.",
)
async def add(request: Request, api: ApiContext, _: Operator, body: TokenBody) -> dict[str, Any]:
    """A token with scopes: what it may read, publish, subscribe to or operate. It is taken from now
    on. Only a hash of its secret is stored. It has the subscriptions that a former one of its name
    has left; those that read or publish what it may not are paused."""
    quota = Quota(**body.quota.model_dump())
    make = partial(api.service.tenants.add, body.name, body.scopes, quota)
    token, secret, paused = await api.change(make)
    changed(request, body.name, scopes=token.scopes, quota=_given(quota), paused=len(paused))
    return {**attributes(token), "secret": secret, "paused": paused}


@router.patch(
    "/tokens/{name}",
    operation_id="changeToken",
    summary="Change a token",
    response_model=ChangedTokenReply,
    responses=problems("not-found", "too-large", "unsupported-media-type"),
    response_description="The token as it is now.",
)
async def change(
    request: Request, api: ApiContext, _: Operator, name: Known, body: TokenChangeBody
) -> dict[str, Any]:
    """Give a token other scopes or another quota; its secret stays. Subscriptions that read or
    publish what it may not any more are paused. Streams of matches under it end, and may be opened
    again."""
    quota = None
    if body.quota is not None:
        before = api.service.access.get(name).quota
        quota = replace(before, **body.quota.model_dump(exclude_unset=True))
    token, paused = await api.change(partial(api.service.tenants.change, name, body.scopes, quota))
    changed(request, name, scopes=token.scopes, quota=_given(token.quota), paused=len(paused))
    return {**attributes(token), "paused": paused}


@router.post(
    "/tokens/{name}/rotate",
    operation_id="rotateToken",
    summary="Give a token another secret",
    response_model=NewTokenReply,
    responses=problems("not-found", "too-large", "unsupported-media-type"),
    response_description="The token with its new secret, which is shown this once.",
)
async def rotate(
    request: Request, api: ApiContext, _: Operator, name: Known, body: RotateBody
) -> dict[str, Any]:
    """Replace the secret. The former one is taken for the time of `overlap`, by default no longer:
    requests that wait and streams under it end. Addresses of Atom feeds change with it."""
    token, secret = await api.change(partial(api.service.access.rotate, name, body.overlap))
    changed(request, name)
    return {**attributes(token), "secret": secret}


@router.delete(
    "/tokens/{name}",
    operation_id="revokeToken",
    summary="Revoke a token",
    responses=problems("not-found"),
    response_description="The token is not taken any more.",
)
async def revoke(
    request: Request,
    api: ApiContext,
    _: Operator,
    name: Known,
    subscriptions: Annotated[
        Literal["pause", "drop", "keep"],
        Query(description="what becomes of its subscriptions and their channels"),
    ] = "pause",
) -> RevokedReply:
    """End a token at once, also for requests that wait and for streams that are open."""
    ids = await api.change(partial(api.service.tenants.revoke, name, subscriptions))
    changed(request, name, subscriptions=subscriptions, count=len(ids))
    return RevokedReply(name=name, subscriptions=ids)


@router.get(
    "/changes",
    operation_id="listChanges",
    summary="Read the log of changes",
    response_model=list[ChangeReply],
    responses=problems(),
    response_description="The changes, oldest first.",
)
async def changes(
    api: ApiContext,
    _: Operator,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="only numbers above it")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
    token: Annotated[
        str | None,
        Query(max_length=100, description="only those by this token; empty: by the service's own"),
    ] = None,
    action: Annotated[
        str | None,
        Query(max_length=100, description="only those of this operation", examples=["backup"]),
    ] = None,
    before: Before = None,
) -> list[Change]:
    """Who has changed what through the API: tokens, subscriptions, channels, feeds and what else
    there is but documents that were published and matches that were acknowledged."""
    read = partial(api.service.access.log.read, after, limit, token, action=action, before=before)
    return await api.read(read)


def _given(quota: Quota | QuotaBody) -> dict[str, Any]:
    """The bounds of a quota that are set."""
    fields = ("subscriptions", "documents", "bytes", "state")
    bounds = {name: getattr(quota, name) for name in fields}
    return {name: bound for name, bound in bounds.items() if bound is not None}

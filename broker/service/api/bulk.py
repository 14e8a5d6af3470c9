"""Routes for pausing, resuming and dropping very many subscriptions by one request."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request

from broker.model import UNBOUNDED
from broker.service.access.scopes import Identity
from broker.service.api.access import Member, changed, unchanged
from broker.service.api.common import ApiContext, Context, problems
from broker.service.api.replies import ChangedReply
from broker.service.api.schemas import ChangeBody, UnsubscribeBody
from broker.service.bulk import Change, Selection
from broker.service.core.answers import Pending

router = APIRouter(prefix="/v1/subscriptions", tags=["subscriptions"])

_PROBLEMS = problems("too-large", "unsupported-media-type")
_ANSWER = "What became of them. All of it was done in one transaction."


@router.post(
    "/pause",
    operation_id="pauseSubscriptions",
    summary="Pause several subscriptions",
    responses=_PROBLEMS,
    response_description=_ANSWER,
)
async def pause(request: Request, api: ApiContext, who: Member, body: ChangeBody) -> ChangedReply:
    """Let documents pass them by, from one and the same document on, until they are resumed.

    Documents wait meanwhile: who changes very many and does not want that sets a `limit` and asks
    again, each time with `last` as `after`, until nothing is `left`.
    """
    return await _change(request, api, who, "pause", body)


@router.post(
    "/resume",
    operation_id="resumeSubscriptions",
    summary="Resume several subscriptions",
    responses=_PROBLEMS,
    response_description=_ANSWER,
)
async def resume(request: Request, api: ApiContext, who: Member, body: ChangeBody) -> ChangedReply:
    """Let them count again from the next document on, after a pause or a suspension."""
    return await _change(request, api, who, "resume", body)


@router.post(
    "/unsubscribe",
    operation_id="unsubscribeSeveral",
    summary="Unsubscribe several",
    responses=_PROBLEMS,
    response_description=_ANSWER,
)
async def unsubscribe(
    request: Request, api: ApiContext, who: Member, body: UnsubscribeBody
) -> ChangedReply:
    """End them. No document that is published from now on counts for any of them."""
    return await _change(request, api, who, "unsubscribe", body, body.pending)


async def _change(
    request: Request,
    api: Context,
    who: Identity,
    change: Change,
    body: ChangeBody,
    pending: Pending = "deliver",
) -> ChangedReply:
    selection = Selection(
        None if body.ids is None else tuple(body.ids),
        body.prefix or "",
        body.after,
        body.limit or UNBOUNDED,
    )
    call = partial(
        api.service.bulk.change, change, selection, pending=pending, dry_run=body.dry_run, who=who
    )
    result = await api.change(call)
    if body.dry_run:
        unchanged(request)
    else:
        changed(request, *result.changed)
    return ChangedReply.model_validate(result)

"""Routes without the token of the API: Atom feeds, which have keys; health; metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from hashlib import blake2b
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import JSONResponse, Response

from broker.delivery.atom import atom
from broker.service import health
from broker.service.api.common import ApiContext, Context
from broker.service.api.problems import Problem, documented
from broker.service.api.replies import HealthReply, ReadyReply
from broker.service.api.rules import same
from broker.service.api.subscriptions import atom_url
from broker.service.core.errors import ServiceError, Starting

router = APIRouter()

ATOM = "application/atom+xml"
_MAX_AGE = 60
"""Seconds for which feed readers may cache a feed."""

_SETTLED = 2
"""Full seconds after a match until no other of the same second can be added to the log."""


# -- Atom ------------------------------------------------------------------------------------------


@router.get(
    "/feeds/{subscription}.atom",
    operation_id="getAtomFeed",
    summary="Read a subscription in a feed reader",
    tags=["matches"],
    response_class=Response,
    responses={
        200: {
            "description": "The newest matches, newest first.",
            "content": {
                ATOM: {
                    "schema": {"type": "string"},
                    "example": '<feed xmlns="http://www.w3.org/2005/Atom"><id>…</id>…</feed>',
                }
            },
            "headers": {
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in (
                    ("ETag", "Sent back as If-None-Match, it saves fetching what is the same."),
                    (
                        "Last-Modified",
                        "When the newest match came into the log, once that is over.",
                    ),
                )
            },
        },
        304: {"description": "Nothing has changed since."},
        **documented(
            "malformed", "not-found", "misdirected-host", "invalid", "internal", "starting"
        ),
    },
)
async def atom_feed(
    request: Request,
    api: ApiContext,
    subscription: Annotated[
        str, Path(max_length=1_000, description="the subscription", examples=["pair"])
    ],
    key: Annotated[
        str, Query(max_length=100, description="from `atom_url` of the subscription")
    ] = "",
    if_none_match: Annotated[str | None, Header(description="ETags that are known")] = None,
    if_modified_since: Annotated[str | None, Header(description="when it was last fetched")] = None,
) -> Response:
    """An Atom feed of the matches of a subscription; its address, with the key, is `atom_url` of
    GET /v1/subscriptions/{id}.
    """
    if not same(key, api.feed_key(subscription)):
        raise Problem("not-found", "there is no such feed, or the key is not its own")
    body, changed = await api.read(
        partial(_feed, api, subscription, atom_url(api, request, subscription))
    )
    etag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": f"private, max-age={_MAX_AGE}"}
    if changed is not None:
        headers["Last-Modified"] = format_datetime(changed, usegmt=True)
    if _known(etag, changed, if_none_match, if_modified_since):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=ATOM, headers=headers)


def _feed(api: Context, subscription: str, url: str) -> tuple[bytes, datetime | None]:
    """The feed, and when its newest match entered the log; None while others may follow in the same
    second, as two versions of the feed would then have the same time."""
    mailbox = api.service.mailbox
    now = mailbox.now() // 1_000_000  # before the feed is read
    newest = mailbox.latest(subscription, 1)
    since = None if newest else api.service.subscriptions.get(subscription).since
    body = atom(mailbox, subscription, url, since=since)
    changed = newest[0].taken // 1_000_000 if newest else now
    return body, datetime.fromtimestamp(changed, UTC) if changed + _SETTLED <= now else None


def _known(etag: str, changed: datetime | None, match: str | None, since: str | None) -> bool:
    """Whether the client has this version already (RFC 9110, section 13.2.2: the ETag takes
    precedence)."""
    if match is not None:
        tags = [tag.strip().removeprefix("W/") for tag in match.split(",")]
        return "*" in tags or etag in tags
    if since is None or changed is None:
        return False
    try:
        return changed <= parsedate_to_datetime(since)
    except (ValueError, TypeError, OverflowError):
        return False


# -- health ----------------------------------------------------------------------------------------


@router.get(
    "/health/live",
    operation_id="isAlive",
    summary="Ask whether the process is alive",
    tags=["service"],
    responses=documented("misdirected-host", "internal"),
    response_description="It is.",
)
async def live() -> HealthReply:
    """The process answers. Restart it if it does not."""
    return HealthReply(status="alive")


@router.get(
    "/health/ready",
    operation_id="isReady",
    summary="Ask whether the service does its work",
    tags=["service"],
    response_model=ReadyReply,
    responses={
        503: {"model": ReadyReply, "description": "It does not, for the reasons given."},
        **documented("misdirected-host", "internal"),
    },
    response_description="It does.",
)
async def ready(api: ApiContext) -> Response:
    """Whether documents are accepted and matched; if not, why."""
    try:
        figures = await api.watch(api.service.figures)
        reasons = health.reasons(figures, api.service.settings.intake.min_free)
    except ServiceError as error:
        code = "starting" if isinstance(error, Starting) else "failed"
        reasons = [health.Reason(code, str(error))]
    reply = ReadyReply.model_validate({"ready": not reasons, "reasons": reasons})
    status = 503 if reasons else 200
    return JSONResponse(reply.model_dump(), status, {"Cache-Control": "no-store"})


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Read metrics",
    tags=["service"],
    response_class=Response,
    responses={
        200: {
            "description": "Metrics in the text format of Prometheus, or in OpenMetrics.",
            "content": {
                "text/plain": {
                    "schema": {"type": "string"},
                    "example": "# TYPE broker_backlog_documents gauge\nbroker_backlog_documents "
                    "0\n",
                }
            },
        },
        **documented("unauthorized", "misdirected-host", "internal"),
    },
)
async def metrics(
    api: ApiContext, accept: Annotated[str, Header(description="which format is wanted")] = ""
) -> Response:
    """The service in numbers, for Prometheus. It needs a token of its own if one is set."""
    body, media_type = await api.watch(partial(api.service.metrics.exposition, accept))
    return Response(body, headers={"Content-Type": media_type})

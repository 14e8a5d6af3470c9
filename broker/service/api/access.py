"""What routes ask the identity of a request, and what they say about a change for the log.

`scope["identity"]` is set by the guard. Each route below /v1 names who may use it: `Operator` or
`Member`; a route for members asks besides whether a subscription or channel is the member's own.
What is another's is not there for a member: the response is that for what does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import structlog
from fastapi import Depends, Request
from starlette.types import Scope

from broker.delivery import Channel, Dead, Event
from broker.service.access.scopes import OPERATE, SUBSCRIBE, Identity
from broker.service.api.common import Context
from broker.service.core.errors import NotFound

_log = structlog.get_logger(__name__)

Numbered = TypeVar("Numbered", Dead, Event)

_UNRECORDED = frozenset({"publishDocuments", "acknowledge"})
"""Operations that are no changes: what flows."""
_SHOWN = 20
"""Names of what was changed, of which an entry of the log has so many."""


async def member(request: Request) -> Identity:
    """For all who may subscribe; whatever is not theirs is not there for them."""
    identity = identity_of(request)
    identity.require(SUBSCRIBE, "it is for those who have subscriptions")
    return identity


async def operator(request: Request) -> Identity:
    """For operators alone."""
    identity = identity_of(request)
    identity.require(OPERATE, "it is for operators")
    return identity


async def anyone(request: Request) -> Identity:
    """For all whose token is taken."""
    return identity_of(request)


Member = Annotated[Identity, Depends(member)]
Operator = Annotated[Identity, Depends(operator)]
Anyone = Annotated[Identity, Depends(anyone)]


def identity_of(request: Request) -> Identity:
    identity: Identity = request.scope["identity"]
    return identity


def check_subscription(api: Context, who: Identity, id: str) -> None:
    """Raises NotFound for a subscription that is not one's own."""
    if not api.service.access.owns(who, id):
        raise NotFound("subscription", id)


def own_channel(api: Context, who: Identity, name: str) -> Channel:
    """A channel of one's own subscriptions. Raises NotFound."""
    channel = api.service.channels.get(name)
    if not api.service.access.owns(who, channel.subscription):
        raise NotFound("channel", name)
    return channel


def names_of(api: Context, who: Identity, subscription: str | None) -> str | tuple[str, ...] | None:
    """The subscriptions of a request that names one, or all: None is all that there are. One that
    is not one's own, or no longer, is none."""
    if subscription is not None:
        return subscription if api.service.access.owns(who, subscription) else ()
    return None if who.operates else tuple(api.service.access.owned(who.name))


def own_entries(
    api: Context,
    who: Identity,
    read: Callable[[int, int], Sequence[Numbered]],
    after: int,
    limit: int,
    subscription: Callable[[Numbered], str | None],
) -> list[Numbered]:
    """At most `limit` entries of `read(after, count)` of one's own subscriptions. What is read may
    go backwards from `after`."""
    found: list[Numbered] = []
    while len(found) < limit:
        entries = read(after, limit)
        found += [each for each in entries if api.service.access.owns(who, subscription(each))]
        if len(entries) < limit:
            break
        after = entries[-1].number
    return found[:limit]


# -- the log of changes --------------------------------------------------------------------------


def changed(request: Request, *subjects: str, **detail: Any) -> None:
    """Say what a request has changed, other than its path says."""
    shown = ", ".join(subjects[:_SHOWN])
    if len(subjects) > _SHOWN:
        shown += f" and {len(subjects) - _SHOWN:,} more"
    request.scope["change"] = shown, detail


def unchanged(request: Request) -> None:
    """Say that a request has changed nothing."""
    request.scope["change"] = None


def is_change(scope: Scope) -> bool:
    """Whether a request that succeeded is to be recorded."""
    route = scope.get("route")
    return (
        route is not None
        and "identity" in scope
        and route.operation_id not in _UNRECORDED
        and scope.get("change", ()) is not None
    )


async def record(api: Context, scope: Scope) -> None:
    """Record the change that a request has made."""
    subject, detail = scope.get("change") or (_subject(scope), {})
    identity: Identity = scope["identity"]
    address = (scope.get("client") or ("",))[0]
    action = scope["route"].operation_id
    try:
        await api.change(
            lambda: api.service.access.log.record(identity, address, action, subject, detail)
        )
    except Exception as error:
        # The change is made. Without an entry it is at least in the service's own log.
        _log.error("change.unrecorded", action=action, subject=subject, exc_info=error)


def _subject(scope: Scope) -> str:
    """What a request is about: the names in its path, or the address of a feed, without a login."""
    named = [str(each) for each in scope.get("path_params", {}).values()]
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    if "url" in query:
        try:
            parts = urlsplit(query["url"])
            host = parts.netloc.rpartition("@")[2]
            named.append(urlunsplit(parts._replace(netloc=host)))
        except ValueError:
            pass
    return ", ".join(named)

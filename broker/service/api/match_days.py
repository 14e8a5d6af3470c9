"""The route that counts the matches of subscriptions by the day, for small charts."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from broker.delivery import Mailbox
from broker.service.api.access import Member, check_subscription
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies import Reply

router = APIRouter(prefix="/v1/matches", tags=["matches"])

_DAY = 86_400 * 1_000_000
_COUNTED = 10_000
"""Matches of a subscription that are counted at most."""


class MatchDaysReply(Reply):
    """How many matches a subscription had each day."""

    subscription: str = Field(examples=["pair"])
    days: list[int] = Field(
        description="matches taken on each day of UTC, today last", examples=[[0, 2, 5]]
    )
    more: bool = Field(description="there are more than were counted")


@router.get(
    "/days",
    operation_id="countMatches",
    summary="Count matches by the day",
    responses=problems("not-found"),
    response_description="The counts of each subscription, in the order of the request.",
)
async def count_matches(
    api: ApiContext,
    who: Member,
    subscription: Annotated[
        list[str], Query(min_length=1, max_length=100, description="whose matches")
    ],
    days: Annotated[int, Query(ge=1, le=366, description="how many days, with today")] = 14,
) -> list[MatchDaysReply]:
    """Count the matches that are still kept, by the day on which they were found. Of a subscription
    with very many not all are counted."""
    for name in subscription:
        check_subscription(api, who, name)
    return await api.read(partial(_count, api.service.mailbox, subscription, days))


def _count(mailbox: Mailbox, names: list[str], days: int) -> list[MatchDaysReply]:
    today = mailbox.now() // _DAY
    since = (today - days + 1) * _DAY
    found: list[MatchDaysReply] = []
    for name in names:
        counts = [0] * days
        taken = mailbox.taken_since(name, since, _COUNTED)
        for time in taken:
            counts[min(days - 1, (time - since) // _DAY)] += 1
        found.append(MatchDaysReply(subscription=name, days=counts, more=len(taken) >= _COUNTED))
    return found

"""The route that shows what all subscriptions share."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from broker.service.api.access import Operator
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies import Reply
from broker.service.sharing import Sharing

router = APIRouter(prefix="/v1", tags=["subscriptions"])


class SharedJoinReply(Reply):
    """An operator of a template."""

    operator: str = Field(examples=["FOLLOWED BY"])
    left: list[int] = Field(description="numbers of blocks, from 0")
    right: list[int]
    equalities: int = Field(description="how many values are equal between its sides")


class SharedTemplateReply(Reply):
    """A shape of joins that queries have in common: one query decides all of them."""

    number: int
    blocks: int
    joins: list[SharedJoinReply]
    conditions: int = Field(description="conditions that are no equalities")
    queries: int = Field(description="different queries of this shape")
    subscriptions: int = Field(description="subscriptions of these queries")
    examples: list[str] = Field(description="ids of some of them")


class SharedPathReply(Reply):
    """A state of the automaton that reads the paths of all queries."""

    depth: int = Field(description="its depth in the tree; 0 are streams")
    label: str = Field(examples=["//item"])
    states: int = Field(description="states below it, and itself")
    ends: int = Field(description="paths of queries that end here")


class SharingReply(Reply):
    """What all subscriptions share."""

    subscriptions: int = Field(examples=[10])
    queries: int = Field(description="queries that differ in more than who asks, inner ones too")
    patterns: int = Field(description="event patterns among the subscriptions")
    template_count: int = Field(description="templates that there are")
    templates: list[SharedTemplateReply] = Field(description="those of most subscriptions")
    states: int = Field(description="states of the automaton")
    steps: int = Field(description="states that it had if no two paths shared one")
    paths: list[SharedPathReply] = Field(description="its largest parts, as a tree in order")


@router.get(
    "/sharing",
    operation_id="getSharing",
    summary="Look at what subscriptions share",
    response_model=SharingReply,
    responses=problems(),
    response_description="Templates, queries, and the automaton.",
)
async def sharing(api: ApiContext, _: Operator) -> Sharing:
    """The templates of most subscriptions, and the automaton of all paths as a tree."""
    return await api.explain(api.service.sharing)

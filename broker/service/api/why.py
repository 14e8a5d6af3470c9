"""Routes that tell why queries have matched or not."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from broker.service.api.access import Member, check_subscription, unchanged
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies_why import (
    Explained,
    ExplanationReply,
    GivenReply,
    PatternReply,
    reply_of,
)
from broker.service.api.schemas import WhyBody
from broker.why.model import Budget

router = APIRouter(prefix="/v1", tags=["why"])

Id = Annotated[str, Path(max_length=1_000, description="a subscription", examples=["pair"])]
Most = Annotated[
    int, Query(ge=1, le=1_000_000, description="look at so many documents, the newest")
]
_MOST = Budget().documents


@router.get(
    "/subscriptions/{id}/why",
    operation_id="explainMatches",
    summary="Ask why a subscription has matched or not",
    response_model=list[Explained],
    responses=problems("not-found", "conflict"),
    response_description="The query, and behind it those in its FROM.",
)
async def why(
    api: ApiContext, who: Member, id: Id, documents_at_most: Most = _MOST
) -> list[PatternReply | ExplanationReply]:
    """How many stored documents passed each block and at which condition the others failed, how
    many pairs agree, what order and windows leave of them, and what came near; of an event pattern
    what waits, and what was blocked by which document.

    It is worked out anew from what is stored, beside the pipeline. A conflict if it is an event
    pattern that is not active.
    """
    check_subscription(api, who, id)
    ask = partial(api.service.explanations.of_subscription, id, Budget(documents_at_most), who)
    return [reply_of(each) for each in await api.explain(ask)]


@router.get(
    "/subscriptions/{id}/why/documents",
    operation_id="explainDocuments",
    summary="Ask what holds between documents",
    response_model=list[GivenReply],
    responses=problems("not-found", "conflict"),
    response_description="One entry.",
)
async def why_documents(
    api: ApiContext,
    who: Member,
    id: Id,
    document: Annotated[
        list[str], Query(min_length=1, max_length=10, description="ids of stored documents")
    ],
) -> list[GivenReply]:
    """Step by step what holds and what does not for these documents, with nodes and values. A
    conflict if one of them is not stored, or the query is an event pattern."""
    check_subscription(api, who, id)
    ask = partial(api.service.explanations.between, id, False, document, Budget(), who)
    return [GivenReply.model_validate(each) for each in await api.explain(ask)]


@router.post(
    "/why",
    operation_id="explainQueries",
    summary="Ask why queries would match or not",
    response_model=list[Explained] | list[GivenReply],
    responses=problems("xscl", "conflict", "too-large", "unsupported-media-type"),
    response_description="An entry for each query; with `documents`, what holds between those.",
)
async def why_text(
    request: Request, api: ApiContext, who: Member, body: WhyBody
) -> list[PatternReply | ExplanationReply] | list[GivenReply]:
    """The same for the queries of a text, which need not be registered."""
    unchanged(request)
    explanations, budget = api.service.explanations, Budget(body.documents_at_most)
    if body.documents:
        ask = partial(explanations.between, body.text, True, body.documents, budget, who)
        return [GivenReply.model_validate(each) for each in await api.explain(ask)]
    found = await api.explain(partial(explanations.of_text, body.text, budget, who))
    return [reply_of(each) for each in found]

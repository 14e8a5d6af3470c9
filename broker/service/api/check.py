"""The route that checks a text of XSCL while it is written."""

from __future__ import annotations

from functools import partial
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from broker.service.api.access import Member, unchanged
from broker.service.api.common import ApiContext, problems
from broker.service.api.problems import Finding, finding
from broker.service.api.replies import Reply
from broker.service.api.schemas import TEXT_LENGTH, Text

router = APIRouter(prefix="/v1", tags=["subscriptions"])


class CheckBody(BaseModel):
    """A text to check."""

    model_config = ConfigDict(extra="forbid")

    text: Text = Field(max_length=TEXT_LENGTH, description="in XSCL", examples=["one: S//item"])


class PartReply(Reply):
    """A part of a pattern, to be drawn."""

    depth: int = Field(description="0, and deeper in what holds it")
    kind: Literal["block", "operator", "holder"] = Field(
        description="holder: NOT, parentheses or a group, which hold the deeper parts behind it"
    )
    name: str = Field(examples=["FOLLOWED BY"])
    text: str = Field(description="of a block its text, of others what they ask")
    window: str | None = Field(examples=["2 days"])


class PriceReply(Reply):
    """What a query is expected to cost, by the documents that are stored: an upper estimate."""

    candidates: float = Field(description="pairs that are looked at, a day")
    bytes: float = Field(description="of documents that pass its blocks, a day")
    documents: list[float] = Field(description="documents that pass each block, a day")
    grows: bool = Field(description="it has no window, so each day has more than the one before")
    unjoined: bool = Field(description="no value joins some block with the others")


class CheckedQueryReply(Reply):
    """A query of the text."""

    id: str = Field(examples=["one"])
    text: str = Field(description="in its canonical form")
    outcome: Literal["new", "replaced", "unchanged"] = Field(
        description="what subscribing would do; replaced: there is one of that id with another text"
    )
    outline: list[PartReply] = Field(description="its pattern in parts, in the order of the text")
    price: PriceReply | None = Field(
        description="null of an event pattern, and where nothing is stored of a stream"
    )


class CheckReply(BaseModel):
    """What a check of a text finds."""

    queries: list[CheckedQueryReply] = Field(description="none if there is an error")
    findings: list[Finding] = Field(description="errors, or warnings, in the order of the text")


@router.post(
    "/check",
    operation_id="checkText",
    summary="Check a text",
    responses=problems("too-large", "unsupported-media-type"),
    response_description="What was found; an error of the language is no problem of the request.",
)
async def check(request: Request, api: ApiContext, who: Member, body: CheckBody) -> CheckReply:
    """Check queries without registering them: errors and warnings with their places and hints, and
    what subscribing would do."""
    unchanged(request)
    checked = await api.change(partial(api.service.subscriptions.check, body.text, who=who))
    return CheckReply(
        queries=[CheckedQueryReply.model_validate(each) for each in checked.queries],
        findings=[finding(each) for each in checked.findings],
    )

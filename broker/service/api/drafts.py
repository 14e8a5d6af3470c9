"""Routes for ready questions: queries for what people often want, from a few answers."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import Field

from broker.drafts import DRAFTS, Draft, WrongAnswer
from broker.service.api.access import Member, unchanged
from broker.service.api.common import ApiContext, problems
from broker.service.api.replies import Reply
from broker.service.api.schemas import Body, Text
from broker.service.core.errors import Invalid, NotFound

router = APIRouter(prefix="/v1/drafts", tags=["subscriptions"])


class QuestionReply(Reply):
    """What a ready question needs to know."""

    name: str = Field(examples=["within"])
    asks: str = Field(examples=["within which time"])
    kind: Literal["stream", "block", "path", "text", "window", "count"]
    default: str | None = Field(description="null: it has to be answered", examples=["2 days"])


class DraftReply(Reply):
    """Something that people often want."""

    name: str = Field(examples=["same-link"])
    finds: str = Field(examples=["the same link in two feeds"])
    questions: list[QuestionReply]


class AnswersBody(Body):
    """The answers, and what to call the query."""

    id: Text | None = Field(default=None, max_length=1_000, description="null: as the question")
    answers: dict[Text, Text] = Field(
        default={},
        max_length=20,
        description="by the names of what is asked; what is left out has its default",
        examples=[{"within": "2 days"}],
    )


class WrittenReply(Reply):
    """A query that was written."""

    text: str = Field(description="in XSCL", examples=["one: S//item;"])


@router.get(
    "",
    operation_id="listDrafts",
    summary="List ready questions",
    response_model=list[DraftReply],
    responses=problems(),
    response_description="The questions.",
)
async def drafts(_: Member) -> list[Draft]:
    """What people often want, and what has to be known for it. `broker new` asks the same."""
    return list(DRAFTS.values())


@router.post(
    "/{name}",
    operation_id="writeDraft",
    summary="Have a query written",
    responses=problems("not-found", "too-large", "unsupported-media-type", "xscl"),
    response_description="The query; it is not registered.",
)
async def write(
    request: Request,
    api: ApiContext,
    _: Member,
    name: Annotated[str, Path(max_length=100, description="a question", examples=["same-link"])],
    body: AnswersBody,
) -> WrittenReply:
    """The text of a query for a ready question, with the answers that are given."""
    unchanged(request)
    draft = DRAFTS.get(name)
    if draft is None:
        raise NotFound("ready question", name)
    unknown = body.answers.keys() - {question.name for question in draft.questions}
    if unknown:
        raise Invalid(f"it does not ask for {min(unknown)!r}", f"answers.{min(unknown)}")
    try:
        return WrittenReply(text=await api.read(lambda: draft.text(body.id or name, body.answers)))
    except WrongAnswer as error:
        raise Invalid(str(error), "answers") from None

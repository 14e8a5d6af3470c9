"""The response bodies that tell why queries have matched or not."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from broker.service.api.replies import Reply, Time
from broker.standing.why import Why
from broker.text.units import format_duration
from broker.why.model import Explanation

Window = Annotated[
    str | None,
    BeforeValidator(lambda value: format_duration(value) if isinstance(value, int) else value),
    Field(description="as in XSCL; null for none", examples=["2 days"]),
]


class SeenReply(Reply):
    """A document of an event pattern."""

    id: str
    time: Time = Field(description="its time; of a result its end")


class TakenReply(Reply):
    """How many stored documents a block takes."""

    block: str
    documents: int


class PendingReply(Reply):
    """Documents that may become a match."""

    documents: list[SeenReply]
    decides: Time | None = Field(
        description="the time of documents or of the clock that decides it; null for never"
    )


class BlockedReply(Reply):
    """Documents that would be a match, but for a NOT."""

    documents: list[SeenReply]
    absent: str = Field(description="what must not be there")
    by: list[SeenReply] = Field(
        description="what is there; empty: it looks back to before the query was registered"
    )


class PatternReply(Reply):
    """What became of the stored documents of an event pattern."""

    kind: Literal["pattern"] = "pattern"
    query: str = Field(examples=["pair"])
    sentence: str = Field(description="the most important thing, for people")
    answers: str = Field(description="when it answers, in words")
    growth: str = Field(description="how many matches there may be, in words")
    blocks: list[TakenReply]
    found: int | None = Field(
        description="matches among the stored documents; null: too much would have to be tried"
    )
    waiting: list[PendingReply] = Field(description="what is not decided; what is decided first")
    waiting_count: int = Field(description="counted up to a bound")
    blocked: list[BlockedReply] = Field(description="the youngest")
    blocked_count: int
    plans: list[str] = Field(
        description="the trees by which they were searched, with expected and actual numbers"
    )


class FellReply(Reply):
    """Documents that passed all conditions of a block before this one, and not this one."""

    place: int = Field(description="its index among the conditions")
    condition: str
    documents: int
    examples: list[str] = Field(description="ids of some of them")
    hint: str | None = Field(description="what to write instead")


class BlockReply(Reply):
    """A block of a query, the box of a picture: how many stored documents passed it."""

    number: int = Field(description="from 0, in the order of the pattern")
    block: str
    stream: str
    conditions: list[str] = Field(description="what it asks, in order")
    documents: int = Field(description="stored documents of its stream that were looked at")
    passed: int
    fell: list[FellReply]
    hint: str | None = Field(description="about its stream, if nothing flows through it")


class EqualityReply(Reply):
    """An equality, and the pairs of documents that agree on it alone."""

    text: str
    pairs: int
    exact: bool = Field(description="false: there are at least so many")


class NearMissReply(Reply):
    """A pair of documents that came far."""

    left: str
    right: str
    failed: Literal["join", "order", "window", "predicate"]
    values: list[str]
    detail: str = Field(description="for instance how far apart they are")


class JoinReply(Reply):
    """Two blocks, the edge of a picture: what becomes of the pairs of documents that pass them."""

    left: int = Field(description="number of a block")
    right: int
    operator: Literal["JOIN", "FOLLOWED BY"]
    equalities: list[EqualityReply]
    predicates: list[str] = Field(description="what else is asked between the two")
    window: Window
    agree: int = Field(description="pairs that satisfy all equalities")
    ordered: int = Field(description="of these, those in the order that FOLLOWED BY asks for")
    within: int = Field(description="of these, those within the window")
    passed: int = Field(description="of these, those that satisfy the other predicates")
    near: list[NearMissReply]
    hint: str | None = Field(description="what to write instead")
    exact: bool = Field(description="false: there are at least so many")


class WholeReply(Reply):
    """Combinations of a document for each block."""

    joined: int = Field(description="those that satisfy all predicates")
    ordered: int = Field(description="of these, those in order")
    matched: int = Field(description="of these, those within all windows")
    counted: int | None = Field(
        description="of these, those that came since the registration; null: not registered"
    )
    examples: list[list[str]] = Field(description="ids of the documents of some")
    exact: bool


class ExplanationReply(Reply):
    """What became of the stored documents of a query."""

    kind: Literal["query"] = "query"
    query: str = Field(examples=["pair"])
    text: str
    sentence: str = Field(description="the most important thing, for people")
    lines: list[str] = Field(description="all of it, as a picture in text")
    blocks: list[BlockReply]
    joins: list[JoinReply]
    whole: WholeReply
    documents: int = Field(description="how many were looked at, the newest")
    stored: int = Field(description="how many there are")
    status: str | None = Field(description="of the subscription; null: not registered")


class StepReply(Reply):
    """Something that is asked, and whether it holds."""

    asked: str
    holds: bool | None = Field(description="null: not asked, for one before it fails")
    detail: str


class NodeReply(Reply):
    """A node that a variable takes."""

    variable: str
    path: str = Field(examples=["/book/author[2]"])
    text: str


class GivenBlockReply(Reply):
    """A document at a block."""

    document: str
    block: int
    passed: bool
    steps: list[StepReply]
    nodes: list[NodeReply]


class GivenJoinReply(Reply):
    """Two documents at two blocks that take them."""

    left: int
    right: int
    left_document: str
    right_document: str
    holds: bool
    steps: list[StepReply]


class GivenReply(Reply):
    """What holds between given documents."""

    documents: list[str]
    blocks: list[GivenBlockReply]
    joins: list[GivenJoinReply]
    lines: list[str] = Field(description="all of it in words")


Explained = Annotated[PatternReply | ExplanationReply, Field(discriminator="kind")]


def reply_of(told: Why | Explanation) -> PatternReply | ExplanationReply:
    """The reply about a query."""
    if isinstance(told, Why):
        return PatternReply.model_validate(told)
    return ExplanationReply.model_validate(told)

"""The request bodies of the HTTP API, and the types of their fields.

In: JSON. Out: checked values. Durations are written as in XSCL ("7 days") and become microseconds.
All valid values can be stored: no lone surrogates, no NUL, no number beyond 64 bits.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from fastapi import Query
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from broker.text.units import finite, parse_duration

LARGEST = 2**63 - 1
"""The largest number that can be stored."""

TEXT_LENGTH = 1_000_000
"""The largest number of characters of an XSCL text."""


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair") from None
    if "\0" in text:
        raise ValueError("it holds the character NUL")
    return text


def split_numbers(numbers: str | None) -> list[int] | None:
    """The numbers in a text of the type `Numbers`."""
    return None if numbers is None else [int(number) for number in numbers.split(",")]


def _all_storable(value: Any) -> Any:
    """Check every text in a JSON value, names of members too."""
    match value:
        case str():
            _storable(value)
        case dict():
            for name, member in value.items():
                _storable(name)
                _all_storable(member)
        case list():
            for member in value:
                _all_storable(member)
        case int() if abs(value) > LARGEST:
            raise ValueError("a number is too large")
        case float() if value != value or value in (float("inf"), -float("inf")):
            raise ValueError("a number is not finite")
    return value


Text = Annotated[str, AfterValidator(_storable)]
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_NUMBERS = r"^[0-9]{1,18}(,[0-9]{1,18})*$"
PATTERNS = {
    _NAME: (
        "a name begins with a letter or digit of ASCII, and goes on with those, '.', '_' and '-'"
    ),
    _NUMBERS: "write numbers, with commas between them",
}
"""The error message for each pattern."""

Name = Annotated[str, Field(pattern=_NAME, max_length=100, examples=["desk"])]
"""The name of a channel."""

Count = Annotated[int, Field(ge=1, le=LARGEST)]
Number = Annotated[int, Field(ge=0, le=LARGEST)]
Json = Annotated[dict[str, Any], BeforeValidator(_all_storable)]
Period = Annotated[
    int,
    BeforeValidator(parse_duration),
    AfterValidator(finite),
    WithJsonSchema({"type": "string", "examples": ["1 h"]}),
]
"""A duration in microseconds, written as a text."""

Overlap = Annotated[
    int,
    BeforeValidator(parse_duration),
    Field(le=31 * 86_400_000_000),
    WithJsonSchema({"type": "string", "examples": ["1 day"]}),
]
"""A duration of at most a month."""

Reach = Annotated[
    int,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "examples": ["7 days", "INFINITY"]}),
]
"""A duration that may be INFINITY."""


Numbers = Annotated[str, Field(pattern=_NUMBERS, max_length=100_000, examples=["1,2"])]
"""Numbers in the query of a URL, separated by commas."""


Before = Annotated[
    int | None,
    Query(ge=0, le=LARGEST, description="only numbers below it, and the newest first"),
]
"""A number of a log that is read backwards from there."""


class Body(BaseModel):
    """The body of a request; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


class ThrottleBody(Body):
    """At most one notification per value of a variable and period."""

    variable: Text | None = Field(
        default=None,
        max_length=200,
        description="a variable of the query; without one the query as a whole",
    )
    period: Period = Field(description="for how long there is no further notification for a value")


class LimitBody(Body):
    """So many matches per period; a subscription that finds more is suspended."""

    matches: Count = Field(description="matches, at most", examples=[10_000])
    period: Period = Field(description="in this time")


class ChannelBody(Body):
    """Where matches go, and how."""

    kind: Literal["file", "webhook", "mail", "pull"] = Field(description="how they are delivered")
    subscription: Text | None = Field(
        default=None,
        max_length=1_000,
        description="whose matches; null: those of all subscriptions",
    )
    settings: Json = Field(
        default={},
        description="by kind. file: path, format, rotate_bytes, keep. webhook: url, secret, "
        "events, headers. mail: to, subject, every, limit, attach, format. pull: none",
        examples=[{"url": "https://example.org/hook"}],
    )
    ordered: bool = Field(
        default=True,
        description="keep the order: a match that cannot be delivered holds up those behind it",
    )
    replace: bool = Field(
        default=False,
        description="take the place of a channel of that name which is of another kind, leads "
        "elsewhere or has another subscription; else that is a conflict",
    )


class OwnChannelBody(Body):
    """A channel of the subscriptions that are made with it."""

    name: Name | None = Field(
        default=None, description="without one: the subscription and the kind"
    )
    kind: Literal["file", "webhook", "mail", "pull"] = Field(description="how they are delivered")
    settings: Json = Field(default={}, description="by kind, as in PUT /v1/channels/{name}")
    ordered: bool = Field(default=True, description="keep the order")


class WhyBody(Body):
    """Queries that are explained, without being registered."""

    text: Text = Field(
        max_length=TEXT_LENGTH,
        description="one or several XSCL queries",
        examples=["S//book[./title->t] FOLLOWED BY {t = u, 7 days} S//blog[./title->u]"],
    )
    documents: list[Text] = Field(
        default=[],
        max_length=10,
        description="ids of stored documents, to be told exactly what holds between them",
    )
    documents_at_most: int = Field(
        default=50_000, ge=1, le=1_000_000, description="look at so many documents, the newest"
    )


class SubscribeBody(Body):
    """Queries to register, all or none."""

    text: Text = Field(
        max_length=TEXT_LENGTH,
        description="one or several XSCL queries; a label gives a query its id",
        examples=[
            "pair: S//book->b[./title->t] FOLLOWED BY {t = u, 7 days} S//blog->p[./title->u]"
        ],
    )
    name: Text = Field(default="<request>", max_length=300, description="what errors call the text")
    dry_run: bool = Field(
        default=False, description="only tell what it would match in what is stored"
    )
    backfill: Reach | None = Field(
        default=None, description="how far back matches among stored documents count as well"
    )
    throttle: ThrottleBody | None = None
    limit: LimitBody | None = None
    lift: list[Literal["throttle", "limit"]] = Field(
        default=[], description="what the subscriptions have no more, if they had it"
    )
    channels: list[OwnChannelBody] = Field(
        default=[], max_length=20, description="channels to make for the subscription"
    )


class ChangeBody(Body):
    """Which subscriptions: those of a list, or those of a prefix."""

    ids: list[Text] | None = Field(
        default=None, max_length=10_000, description="their ids", examples=[["news-1", "news-2"]]
    )
    prefix: Text | None = Field(
        default=None, max_length=1_000, description="all whose ids begin so", examples=["news-"]
    )
    after: Text = Field(
        default="", max_length=1_000, description="of a prefix, only ids behind this one"
    )
    limit: Count | None = Field(
        default=None, description="of a prefix, how many at most, in the order of ids; null: all"
    )
    dry_run: bool = Field(default=False, description="only tell what would be done")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.ids is None) == (self.prefix is None):
            raise ValueError("give either ids or a prefix")
        return self


class UnsubscribeBody(ChangeBody):
    """Which subscriptions go, and what becomes of what they found."""

    pending: Literal["deliver", "drop"] = Field(
        default="deliver",
        description="what becomes of matches that their own channels have not delivered yet",
    )


class AckBody(Body):
    """How far a pull consumer has got."""

    n: Number = Field(description="the number of the last match that was dealt with", examples=[42])


class ResetBody(Body):
    """Where a channel begins again."""

    after: Number = Field(
        description="the number of a match; 0 for all that is in the log", examples=[0]
    )


class ResendBody(Body):
    """Which given-up deliveries are tried again."""

    numbers: list[Count] | None = Field(
        default=None, max_length=10_000, description="their numbers; null: all", examples=[[1, 2]]
    )
    channel: Name | None = Field(default=None, description="only those of this channel")


class ResendMatchBody(Body):
    """Where a match is sent again."""

    channel: Name


class BackupBody(Body):
    """Where a copy of the state is put."""

    directory: Text = Field(
        min_length=1,
        max_length=4_000,
        description="a directory of the machine that the service runs on, new or empty",
        examples=["/var/backups/broker/monday"],
    )


class FeedBody(Body):
    """A feed to fetch."""

    url: Text = Field(min_length=1, max_length=4_000, examples=["https://example.org/feed.xml"])
    allow_private: bool = Field(
        default=False, description="whether it may be on this machine or in its network"
    )


class FeedEditBody(Body):
    """What is to be changed of a feed; what is left out, or null, stays as it is."""

    title: Text | None = Field(
        default=None, max_length=1_000, description="what to call it; empty: as it calls itself"
    )
    folder: Text | None = Field(
        default=None, max_length=1_000, description="as a/b; empty: none", examples=["news/local"]
    )
    interval: Text | None = Field(
        default=None,
        max_length=100,
        description="time between two fetches; auto: as for all feeds",
        examples=["5 min"],
    )
    allow_private: bool | None = Field(
        default=None, description="whether it may be on this machine or in its network"
    )


class QuotaBody(Body):
    """The most that a token may use; null: no bound."""

    subscriptions: Number | None = Field(default=None, description="subscriptions at a time")
    documents: float | None = Field(
        default=None, gt=0, le=1e9, description="documents a second that it publishes"
    )
    bytes: Count | None = Field(default=None, description="bytes a second that it publishes")
    state: Count | None = Field(
        default=None, description="bytes of its documents that are stored at a time"
    )


Scopes = Annotated[
    list[Annotated[str, Field(max_length=300)]],
    Field(
        min_length=1,
        max_length=1_000,
        description="`read:STREAM` and `publish:STREAM`, where the stream may end in `*`; "
        "`subscribe`: subscriptions of its own; `operate`: everything",
        examples=[["subscribe", "read:news.*"]],
    ),
]


class TokenBody(Body):
    """A token to make."""

    name: Name
    scopes: Scopes
    quota: QuotaBody = QuotaBody()


class TokenChangeBody(Body):
    """What is to be changed of a token; what is left out, or null, stays as it is."""

    scopes: Scopes | None = None
    quota: QuotaBody | None = Field(
        default=None, description="its fields that are given; null in one of them: no bound"
    )


class RotateBody(Body):
    """How a token gets another secret."""

    overlap: Overlap = Field(default=0, description="for how long the former one is taken too")

"""The response bodies of tokens, and of the log of changes. As in `replies.py`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from broker.service.api.replies import Reply, Time


class QuotaReply(Reply):
    """The most that a token may use; null: no bound."""

    subscriptions: int | None = Field(description="subscriptions at a time")
    documents: float | None = Field(description="documents a second that it publishes")
    bytes: int | None = Field(description="bytes a second that it publishes")
    state: int | None = Field(description="bytes of its documents that are stored at a time")


class IdentityReply(Reply):
    """Whose a request is, and what that one may do."""

    name: str = Field(
        description="the name of a token; empty for the service's own", examples=["desk"]
    )
    scopes: list[str] = Field(examples=[["read:S", "subscribe"]])
    quota: QuotaReply


class TokenReply(Reply):
    """A token without its secret."""

    name: str = Field(examples=["desk"])
    scopes: list[str] = Field(examples=[["read:S", "subscribe"]])
    quota: QuotaReply
    made: Time
    rotated: Time = Field(description="when it got its secret")
    former_until: Time | None = Field(description="until when its former secret is taken too")
    subscriptions: int = Field(description="subscriptions of its own")


class NewTokenReply(TokenReply):
    """A token with its secret."""

    secret: str = Field(description="what clients send; it is shown this once")


Paused = Annotated[
    list[str],
    Field(description="its subscriptions that were paused, since it may not do what they do"),
]


class MadeTokenReply(NewTokenReply):
    """A token that was made, with its secret."""

    paused: Paused


class ChangedTokenReply(TokenReply):
    """A token that was changed."""

    paused: Paused


class RevokedReply(Reply):
    """A token that was revoked."""

    name: str = Field(examples=["desk"])
    subscriptions: list[str] = Field(
        examples=[["desk-pair"]], description="its subscriptions, which were treated as asked"
    )


class ChangeReply(Reply):
    """An entry of the log of changes."""

    number: int
    at: Time
    who: str = Field(
        description="the name of a token; empty for the service's own", examples=["desk"]
    )
    address: str = Field(description="the client's address", examples=["127.0.0.1"])
    action: str = Field(description="the operation by its id", examples=["putChannel"])
    subject: str = Field(description="what was changed", examples=["phone"])
    detail: dict[str, Any]

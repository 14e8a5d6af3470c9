"""The identity of a request: whose it is, and what that one may do.

In: scopes as texts. Out: answers to "may it?", or Forbidden, which names the scope that is missing.

| scope | what it allows |
| --- | --- |
| `read:STREAM` | queries over the stream, also over stored documents |
| `publish:STREAM` | publishing to it, by request and by PUBLISH |
| `subscribe` | subscriptions and channels of its own, and their matches |
| `operate` | everything |

A stream may end in `*`. The service's own streams, which begin with `broker.`, need their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from broker.model import RESERVED
from broker.service.core.errors import ServiceError
from xscl.syntax.lexer import NAME

OPERATE = "operate"
SUBSCRIBE = "subscribe"

_SCOPE = re.compile(rf"(read|publish):((?:{NAME})?\*?)")


class Forbidden(ServiceError):
    """The identity lacks a scope."""

    def __init__(self, name: str, scope: str, why: str) -> None:
        super().__init__(f"the token {name!r} lacks the scope {scope}: {why}")
        self.name = name
        self.scope = scope

    @property
    def hint(self) -> str:
        kind, _, stream = self.scope.partition(":")
        option = f"--{kind} {stream}" if stream else f"--{kind}"
        return f"an operator adds it with: broker tokens change {self.name} {option}"


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that an identity may use; None: no bound. Subscriptions at a time, documents and
    bytes a second that it publishes, and bytes of its documents that are stored at a time."""

    subscriptions: int | None = None
    documents: float | None = None
    bytes: int | None = None
    state: int | None = None


@dataclass(slots=True, eq=False)
class Identity:
    """Who makes a request. `name` is that of a token, or "" for the service's own, which may do
    everything and whose subscriptions are those of all operators.

    An identity `ended` when its token was revoked, rotated or changed: what goes on under it, such
    as a stream of events, ends too.
    """

    name: str
    scopes: frozenset[str]
    quota: Quota = Quota()
    ended: bool = False

    @property
    def operates(self) -> bool:
        return OPERATE in self.scopes

    @property
    def owner(self) -> str:
        """Whose the subscriptions and documents are that it makes: an operator's are everybody's
        who operates."""
        return "" if self.operates else self.name

    def require(self, scope: str, why: str) -> None:
        """Raises Forbidden without a scope."""
        if not self.operates and scope not in self.scopes:
            raise Forbidden(self.name, scope, why)

    def check_read(self, stream: str) -> None:
        """Raises Forbidden unless it may read the documents of a stream."""
        self._check("read", stream, f"the documents of {stream} are not for everybody")

    def may_read(self, stream: str) -> bool:
        """Whether it may read the documents of a stream."""
        return self.operates or self._has("read", stream)

    def check_publish(self, stream: str) -> None:
        """Raises Forbidden unless it may publish to a stream."""
        self._check("publish", stream, f"not everybody may publish to {stream}")

    def _check(self, kind: str, stream: str, why: str) -> None:
        if not self.operates and not self._has(kind, stream):
            raise Forbidden(self.name, f"{kind}:{stream}", why)

    def _has(self, kind: str, stream: str) -> bool:
        return any(_covers(scope, kind, stream) for scope in self.scopes if ":" in scope)


SERVICE = Identity("", frozenset({OPERATE}))
"""The identity of the service's own token."""


def _covers(scope: str, kind: str, stream: str) -> bool:
    own_kind, _, pattern = scope.partition(":")
    if own_kind != kind:
        return False
    if not pattern.endswith("*"):
        return pattern == stream
    begin = pattern[:-1]
    return stream.startswith(begin) and (
        not stream.startswith(RESERVED) or begin.startswith(RESERVED)
    )


def checked_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes. Raises ValueError, with what to write instead, for one that there is not."""
    found = frozenset(scopes)
    for scope in sorted(found - {OPERATE, SUBSCRIBE}):
        match = _SCOPE.fullmatch(scope)
        if match is None or not match[2]:
            raise ValueError(
                f"there is no scope {scope[:100]!r}: write read:STREAM or publish:STREAM, where "
                f"the stream may end in *, {SUBSCRIBE} or {OPERATE}"
            )
    if not found:
        raise ValueError(f"give at least one scope: read:STREAM, publish:STREAM, {SUBSCRIBE}, …")
    return found

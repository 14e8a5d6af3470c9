"""Requests that are answered without the framework: how they are told from others, and how they
are answered.

In: the head of a request, as the parser of a connection finds it. Out: whether it is one of the
service's own token, sent plainly; and the bytes of a response. All else goes to the application,
which also says what is wrong with it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from functools import lru_cache

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from broker.service.api.guard import host_name
from broker.service.api.rules import Rules

Observe = Callable[[str, str, int], None]
"""Counts a response by method, route and status."""

_ONCE = frozenset(
    {
        *(b"host", b"authorization", b"content-length", b"content-type"),
        *(b"document-id", b"document-timestamp", b"document-revision"),
    }
)
"""Headers that are looked at, which come once."""
_OTHERS = frozenset(
    {b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"idempotency-key"}
)
"""Headers of requests that are for the application."""


class OwnToken:
    """Tells which requests have the service's own token and nothing out of the ordinary."""

    def __init__(self, rules: Rules) -> None:
        self._bearer = f"Bearer {rules.token}".encode("utf-8", "surrogatepass")
        self._is_host = lru_cache(256)(
            lambda host: rules.hosts is None or host_name(host.decode("latin-1")) in rules.hosts
        )

    def headers(self, sent: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
        """The headers of such a request that are looked at; None of all others."""
        found: dict[bytes, bytes] = {}
        for name, value in sent:
            if name in _ONCE:
                if name in found:
                    return None
                found[name] = value
            elif name in _OTHERS:
                return None
        if hmac.compare_digest(found.get(b"authorization", b""), self._bearer) and self._is_host(
            found.get(b"host", b"")
        ):
            return found
        return None


class OwnCycle:
    """Stands for uvicorn's cycle of a request and its response, whose attributes it has."""

    response_started = response_complete = disconnected = False
    keep_alive = True
    method = "GET"
    route = ""
    size = 0
    """Bytes of the body."""

    def __init__(self) -> None:
        self.message_event = self

    def set(self) -> None:
        """Nobody waits for events of it."""

    def end(self) -> None:
        """The client is gone before it has a response."""


def written(
    status: int, dated: Sequence[tuple[bytes, bytes]], head: bytes, body: bytes, *, goes_on: bool
) -> bytes:
    """A response as bytes, after which the connection goes on or not."""
    own = b"".join([b"%b: %b\r\n" % each for each in dated])
    end = b"\r\n" if goes_on else b"connection: close\r\n\r\n"
    return b"".join([STATUS_LINE[status], own, head, end, body])

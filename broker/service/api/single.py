"""Requests that publish one document with the service's own token, answered without the framework.

In: such requests, as the parser of a connection finds them. Out: their responses. A document that
comes by itself costs the most of all that is published: a task, the layers of the application and
a thread of a pool cost several times what it takes to store it. What is not plainly such a request
goes to the application, which also says what is wrong with it.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from broker.service.api import problems
from broker.service.api.documents import (
    LONGEST_STREAM,
    STREAM,
    header_flag,
    header_text,
    header_time,
    is_xml,
    media_type,
    not_empty,
)
from broker.service.api.guard import host_name
from broker.service.api.protocol import BoundedProtocol, Connections
from broker.service.api.rules import Rules
from broker.service.api.together import Single, Together
from broker.service.core.answers import Accepted, Posted
from broker.service.core.errors import Invalid

_LARGEST = 1 << 16
"""Bytes of a document; for others the layers are no matter."""
_HELD = 64 << 20
"""Bytes of all documents that are being received or stored."""
_PATH = re.compile(rb"/v1/streams/([\w.-]+)/documents", re.ASCII)
_ROUTE = "/v1/streams/{stream}/documents"
_OURS = {
    *(b"host", b"authorization", b"content-length", b"content-type"),
    *(b"document-id", b"document-timestamp", b"document-revision"),
}
"""Headers that are looked at, which come once."""
_OTHERS = {b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"idempotency-key"}
"""Headers of requests that are for the application."""
_HEAD = (
    b"content-type: application/json\r\nx-content-type-options: nosniff\r\n"
    b"cache-control: no-store\r\ncontent-length: %d\r\n"
)


class Singles:
    """What the connections of a server have in common for such requests. `observe` counts a
    response by method, route and status."""

    def __init__(
        self, rules: Rules, together: Together, observe: Callable[[str, str, int], None]
    ) -> None:
        self.together = together
        self.observe = observe
        self.held = 0
        self._most = min(rules.max_body, _LARGEST)
        self._bearer = f"Bearer {rules.token}".encode("utf-8", "surrogatepass")
        self._is_host = lru_cache(256)(
            lambda host: rules.hosts is None or host_name(host.decode("latin-1")) in rules.hosts
        )

    def publishing(
        self, url: bytes, headers: list[tuple[bytes, bytes]]
    ) -> tuple[str, Posted, int] | None:
        """The stream, the document that is still without its content, and the bytes of this, of a
        POST with this address and headers; None if it is for the application."""
        path = _PATH.fullmatch(url)
        if path is None:
            return None
        found: dict[bytes, bytes] = {}
        for name, value in headers:
            if name in _OURS:
                if name in found:
                    return None
                found[name] = value
            elif name in _OTHERS:
                return None
        stream, length = _stream(path[1]), found.get(b"content-length", b"")
        if (
            stream is None
            or not hmac.compare_digest(found.get(b"authorization", b""), self._bearer)
            or not _is_plain_xml(found.get(b"content-type", b""))
            or not self._is_host(found.get(b"host", b""))
            or not (length.isdigit() and len(length) < 10 and 0 < int(length) <= self._most)
            or self.held + int(length) > _HELD
        ):
            return None
        try:
            posted = Posted(
                b"",
                header_text("Document-Id", _text(found.get(b"document-id"))),
                header_time(_text(found.get(b"document-timestamp"))),
                header_flag(_text(found.get(b"document-revision"))),
            )
        except Invalid:
            return None
        return stream, posted, int(length)


class _Cycle:
    """Stands for uvicorn's cycle of a request and its response, whose attributes it has."""

    response_started = response_complete = disconnected = False
    keep_alive = True

    def __init__(self, stream: str, posted: Posted, size: int) -> None:
        self.stream = stream
        self.posted = posted
        self.size = size
        self.message_event = self

    def set(self) -> None:
        """Nobody waits for events of it."""


class SingleProtocol(BoundedProtocol):
    """The protocol of a connection on which such requests may come."""

    singles: Singles
    _receiving: _Cycle | None = None
    """The request whose body is being received."""
    _parts: bytes = b""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._receiving is not None:
            self.singles.held -= self._receiving.size
            self.singles.observe("POST", _ROUTE, 499)
            self._receiving = None
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        before: Any = self.cycle
        if (
            self.parser.get_method() == b"POST"
            and (before is None or before.response_complete)
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and (found := self.singles.publishing(self.url, self.headers)) is not None
        ):
            self._receiving = cycle = _Cycle(*found)
            self.cycle = cycle  # type: ignore[assignment]
            self.singles.held += cycle.size
            self._parts = b""
            self.body_begins()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._receiving is None:
            super().on_body(body)
        else:
            self._unread = 0
            self._parts += body

    def on_message_complete(self) -> None:
        cycle = self._receiving
        if cycle is None:
            super().on_message_complete()
            return
        self._unread = 0
        self._stop_clock()
        self._receiving = None
        posted = cycle.posted
        try:
            xml = not_empty(self._parts)
        except Invalid as error:
            self._answer(cycle, error)
            return
        whole = Posted(xml, posted.id, posted.timestamp, posted.revision)
        self.singles.together.add(Single(cycle.stream, whole, partial(self._answer, cycle)))

    def _answer(self, cycle: _Cycle, outcome: Accepted | Exception) -> None:
        """Send the response of a request."""
        self.singles.held -= cycle.size
        if isinstance(outcome, Exception):
            refusing = self._problem(cycle, outcome)
            task = self.loop.create_task(refusing)
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            return
        body = b'{"accepted":1,"known":%d,"first":%d,"last":%d,"ids":[%b]}' % (
            outcome.known,
            outcome.first,
            outcome.last,
            problems.to_json(outcome.ids[0]),
        )
        self._send(cycle, 202, _HEAD % len(body), body)

    async def _problem(self, cycle: _Cycle, error: Exception) -> None:
        """Send the problem that the application would send."""
        response: Response = await problems.handle(Request({**self.scope, "method": "POST"}), error)
        response.headers["x-content-type-options"] = "nosniff"
        response.headers["cache-control"] = "no-store"
        head = b"".join([b"%b: %b\r\n" % header for header in response.raw_headers])
        self._send(cycle, response.status_code, head, bytes(response.body))

    def _send(self, cycle: _Cycle, status: int, head: bytes, body: bytes) -> None:
        gone = cycle.disconnected or self.transport.is_closing()
        self.singles.observe("POST", _ROUTE, 499 if gone else status)
        if gone:
            return
        dated = b"".join([b"%b: %b\r\n" % each for each in self.server_state.default_headers])
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(b"".join([STATUS_LINE[status], dated, head, end, body]))
        cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def protocol(connections: Connections, singles: Singles) -> type[asyncio.Protocol]:
    """The protocol of the connections of a server."""
    return type(
        "Protocol", (SingleProtocol,), {"connections_open": connections, "singles": singles}
    )


@lru_cache(256)
def _stream(name: bytes) -> str | None:
    """The name of a stream; None for one that there cannot be."""
    text = name.decode("ascii")
    return text if len(text) <= LONGEST_STREAM and STREAM.fullmatch(text) else None


@lru_cache(256)
def _is_plain_xml(header: bytes) -> bool:
    """Whether a media type is one of XML that does not say how the document is encoded."""
    type_, charset = media_type(header.decode("latin-1"))
    return is_xml(type_) and not isinstance(charset, str)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")

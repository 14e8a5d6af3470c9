"""Requests that publish one document with the service's own token, answered without the framework.

In: such requests, as the parser of a connection finds them. Out: their responses. A document that
comes by itself costs the most of all that is published: a task, the layers of the application and
a thread of a pool cost several times what it takes to store it. What is not plainly such a request
goes to the application, which also says what is wrong with it.
"""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache, partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

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
from broker.service.api.match_pages import Page
from broker.service.api.own_requests import Observe, OwnCycle, OwnToken, written
from broker.service.api.protocol import BoundedProtocol, Connections
from broker.service.api.pulls import Pull, Pulls
from broker.service.api.rules import Rules
from broker.service.api.together import Single, Together
from broker.service.core.answers import Accepted, Posted
from broker.service.core.errors import Invalid
from broker.text.json_text import to_json

_LARGEST = 1 << 16
"""Bytes of a document; for others the layers are no matter."""
_HELD = 64 << 20
"""Bytes of all documents that are being received or stored."""
_PATH = re.compile(rb"/v1/streams/([\w.-]+)/documents", re.ASCII)
_ROUTE = "/v1/streams/{stream}/documents"
_HEAD = (
    b"content-type: application/json\r\nx-content-type-options: nosniff\r\n"
    b"cache-control: no-store\r\ncontent-length: %d\r\n"
)


class Singles:
    """What the connections of a server have in common for such requests. `observe` counts a
    response by method, route and status."""

    def __init__(self, own: OwnToken, rules: Rules, together: Together, observe: Observe) -> None:
        self.together = together
        self.observe = observe
        self.held = 0
        self._own = own
        self._most = min(rules.max_body, _LARGEST)

    def publishing(self, url: bytes, headers: list[tuple[bytes, bytes]]) -> Publishing | None:
        """The document, still without its content, of a POST with this address and headers; None
        if it is for the application."""
        path = _PATH.fullmatch(url)
        found = None if path is None else self._own.headers(headers)
        if path is None or found is None:
            return None
        stream, length = _stream(path[1]), found.get(b"content-length", b"")
        if (
            stream is None
            or not _is_plain_xml(found.get(b"content-type", b""))
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
        return Publishing(stream, posted, int(length))


class Publishing(OwnCycle):
    """A request that publishes a document, of `size` bytes."""

    method = "POST"
    route = _ROUTE

    def __init__(self, stream: str, posted: Posted, size: int) -> None:
        super().__init__()
        self.stream = stream
        self.posted = posted
        self.size = size


class OwnProtocol(BoundedProtocol):
    """The protocol of a connection on which such requests may come, and such for matches."""

    singles: Singles
    pulls: Pulls
    _receiving: OwnCycle | None = None
    """The request that is being received."""
    _parts: bytes = b""
    _waiting: Pull | None = None
    """A request that waits for matches."""

    def connection_lost(self, exc: Exception | None) -> None:
        for own in (self._receiving, self._waiting):
            if own is not None:
                self.singles.held -= own.size
                self.singles.observe(own.method, own.route, 499)
                own.end()
        self._receiving = self._waiting = None
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        before: Any = self.cycle
        cycle: OwnCycle | None = None
        if (
            (before is None or before.response_complete)
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        ):
            method = self.parser.get_method()
            if method == b"POST":
                cycle = self.singles.publishing(self.url, self.headers)
            elif method == b"GET":
                cycle = self.pulls.wanted(self.url, self.headers)
        if cycle is None:
            super().on_headers_complete()
            return
        self._receiving = cycle
        self.cycle = cycle  # type: ignore[assignment]
        self.singles.held += cycle.size
        self._parts = b""
        self.body_begins()

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
        if isinstance(cycle, Pull):
            self._waiting = cycle
            cycle.begin(partial(self._answer_pull, cycle))
        elif isinstance(cycle, Publishing):
            posted = cycle.posted
            try:
                xml = not_empty(self._parts)
            except Invalid as error:
                self._answer(cycle, error)
                return
            whole = Posted(xml, posted.id, posted.timestamp, posted.revision)
            self.singles.together.add(Single(cycle.stream, whole, partial(self._answer, cycle)))

    def _answer(self, cycle: Publishing, outcome: Accepted | Exception) -> None:
        """Send the response of a request."""
        self.singles.held -= cycle.size
        if isinstance(outcome, Exception):
            self._refuse_own(cycle, outcome)
            return
        body = b'{"accepted":1,"known":%d,"first":%d,"last":%d,"ids":[%b]}' % (
            outcome.known,
            outcome.first,
            outcome.last,
            to_json(outcome.ids[0]),
        )
        self._send(cycle, 202, _HEAD % len(body), body)

    def _answer_pull(self, cycle: Pull, outcome: Page | Exception) -> None:
        self._waiting = None
        if isinstance(outcome, Exception):
            self._refuse_own(cycle, outcome)
        else:
            self._send(cycle, 200, *self.pulls.response(outcome))

    def _refuse_own(self, cycle: OwnCycle, error: Exception) -> None:
        task = self.loop.create_task(self._problem(cycle, error))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _problem(self, cycle: OwnCycle, error: Exception) -> None:
        """Send the problem that the application would send."""
        request = Request({**self.scope, "method": cycle.method})
        response: Response = await problems.handle(request, error)
        response.headers["x-content-type-options"] = "nosniff"
        response.headers["cache-control"] = "no-store"
        head = b"".join([b"%b: %b\r\n" % header for header in response.raw_headers])
        self._send(cycle, response.status_code, head, bytes(response.body))

    def _send(self, cycle: OwnCycle, status: int, head: bytes, body: bytes) -> None:
        gone = cycle.disconnected or self.transport.is_closing()
        self.singles.observe(cycle.method, cycle.route, 499 if gone else status)
        if gone:
            return
        dated = self.server_state.default_headers
        self.transport.write(written(status, dated, head, body, goes_on=cycle.keep_alive))
        cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def protocol(connections: Connections, singles: Singles, pulls: Pulls) -> type[asyncio.Protocol]:
    """The protocol of the connections of a server."""
    shared = {"connections_open": connections, "singles": singles, "pulls": pulls}
    return type("Protocol", (OwnProtocol,), shared)


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

"""Checks host, token and size of each request before its body is read.

An ASGI layer around the application. In: a request. Out: the same request, with its body counted,
or a problem.

- If the service listens on loopback only, `Host` must be one of its names. So a web page whose
  domain is made to resolve to this machine (DNS rebinding) has no access.
- Paths below `/v1` need a token: the service's own, compared in constant time, or one that was
  made, found by its hash; or the cookie of a browser that is signed in. The request then has an
  identity (`scope["identity"]`), and routes ask it what it may do. `/metrics` has a token of its
  own if one is set. Atom feeds have a key in the address, since feed readers send no headers.
- Changes are recorded in the log of changes before the client has the response.
- A body is at most `max_body`, and all bodies in memory together a few times that: further
  requests get 429 with Retry-After.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker.service.access.scopes import SERVICE, Identity
from broker.service.api.access import is_change
from broker.service.api.problems import Problem, response
from broker.service.api.rules import Rules, same
from broker.service.web.sessions import LASTS, Session, Sessions, csrf, fingerprint
from broker.text.units import format_size

_log = structlog.get_logger(__name__)

_TOKEN = (
    "the setting server.token, or of the file `token` in the state directory, or one that an"
    " operator made with broker tokens add"
)

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})

COOKIE_AGE = LASTS
"""Seconds for which a browser keeps its cookie."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

_BODIES = 8
"""How many bodies of the largest size may be in memory at once."""


def cookie_name(token: str) -> str:
    """The name of the cookie: a browser does not tell services apart by their ports."""
    return f"broker-{fingerprint(token)[:12]}"


def identity_of_session(identity: str, rules: Rules) -> Identity | None:
    """Whose a session is, by what it keeps of its token; None if that token is no longer one."""
    if same(identity, fingerprint(rules.token)):
        return SERVICE
    return rules.identify_key(identity)


def session_of(
    scope: Scope, rules: Rules, sessions: Sessions, *, changes: bool
) -> tuple[str, Session, Identity]:
    """The cookie of a request, its session and whose that is. What changes something needs the
    header X-CSRF-Token beside the cookie. Raises Problem."""
    headers = Headers(scope=scope)
    cookie = cookie_parser(headers.get("cookie", "")).get(cookie_name(rules.token), "")
    found = sessions.find(cookie) if cookie else None
    identity = None if found is None else identity_of_session(found.identity, rules)
    if found is None or identity is None:
        raise Problem("unauthorized", "no browser is signed in here: broker open signs one in")
    if changes and not same(headers.get("x-csrf-token", ""), csrf(cookie)):
        raise Problem("unauthorized", "a change needs the header X-CSRF-Token of GET /session")
    return cookie, found, identity


def still_allowed(scope: Scope) -> bool:
    """Whether the sender of a request that goes on, such as a stream, may still send it."""
    allowed: Callable[[], bool] | None = scope.get("broker.allowed")
    return allowed is None or allowed()


class Guard:
    """The layer around the application."""

    def __init__(
        self,
        app: ASGIApp,
        rules: Rules,
        observe: Callable[[str, str, int], None],
        record: Callable[[Scope], Awaitable[None]],
        sessions: Sessions,
    ) -> None:
        self.app = app
        self._record = record
        self.rules = rules
        self.sessions = sessions
        self._observe = observe
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, reply = _Body(self, receive), _Reply(scope, send, self._record)
        try:
            self._check(scope, Headers(scope=scope))
            await self.app(scope, body.receive, reply.send)
        except Problem as problem:
            await response(problem)(scope, receive, reply.send)
        except Exception as error:
            _log.error("api.failed", method=scope["method"], route=_route(scope), exc_info=error)
            if not reply.complete:
                raise  # the server closes the connection, which marks the response as incomplete
        finally:
            self._held -= body.size
            self._observe(scope["method"], _route(scope), reply.status)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Find out whose request it is. Raises Problem if host, token or length are not allowed."""
        path, hosts = scope["path"], self.rules.hosts
        if hosts is not None and host_name(headers.get("host", "")) not in hosts:
            raise Problem("misdirected-host", "the Host header names another host")
        if path == "/v1" or path.startswith("/v1/"):
            if "authorization" not in headers and (
                cookie_name(self.rules.token) in headers.get("cookie", "")
            ):
                self._check_session(scope)
            else:
                scope["identity"] = self._identity(headers)
        elif path == "/metrics" and self.rules.metrics_token is not None:
            token = _bearer(headers)
            expected = self.rules.metrics_token
            if not token or not same(token, expected):
                raise _unauthorized("the setting server.metrics_token")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self.rules.max_body:
            raise self._too_large()

    def _check_session(self, scope: Scope) -> None:
        """A browser may do what the token may with which it was signed in."""
        changes = scope["method"] not in _SAFE
        _, session, who = session_of(scope, self.rules, self.sessions, changes=changes)
        scope["identity"] = who
        scope["broker.allowed"] = lambda: self.sessions.lasts(session)

    def _identity(self, headers: Headers) -> Identity:
        """Whose request it is. Raises Problem."""
        token = _bearer(headers)
        if token:
            if self.rules.token and same(token, self.rules.token):
                return SERVICE
            if (known := self.rules.identify(token)) is not None:
                return known
        raise _unauthorized(_TOKEN)

    def _too_large(self) -> Problem:
        limit = format_size(self.rules.max_body)
        return Problem(
            "too-large", f"the body is larger than {limit} (server.max_body); send less at once"
        )

    def hold(self, body: _Body, more: int) -> None:
        """Count received bytes of a body. Raises Problem if they are too many."""
        body.size += more
        self._held += more
        if body.size > self.rules.max_body:
            raise self._too_large()
        if self._held > _BODIES * self.rules.max_body:
            detail = "too many large requests at once"
            raise Problem("backlog-full", detail, headers={"Retry-After": "1"})


class _Body:
    """The body of one request, whose bytes are counted as they are received."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self.guard = guard
        self.size = 0
        self._receive = receive

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.guard.hold(self, len(message.get("body", b"")))
        return message


class _Reply:
    """The response to one request, with headers that forbid guessing of content types and, below
    /v1, caching."""

    def __init__(
        self, scope: Scope, send: Send, record: Callable[[Scope], Awaitable[None]]
    ) -> None:
        self.status = 499  # until there is a response: the client closed the connection
        self.complete = False
        self._scope = scope
        self._send = send
        self._record = record if scope["method"] in _CHANGING else None
        self._extra = [(b"x-content-type-options", b"nosniff")]
        if scope["path"].startswith("/v1/"):
            self._extra.append((b"cache-control", b"no-store"))

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._record is not None and self.status < 400 and is_change(self._scope):
                await self._record(self._scope)
            known = {name.lower() for name, _ in message["headers"]}
            extra = (header for header in self._extra if header[0] not in known)
            message["headers"] = [*message["headers"], *extra]
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True


def _bearer(headers: Headers) -> str | None:
    """The token in the header Authorization."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _unauthorized(where: str) -> Problem:
    return Problem(
        "unauthorized",
        f"send the header Authorization: Bearer TOKEN, with the token of {where}",
        headers={"WWW-Authenticate": 'Bearer realm="broker"'},
    )


def _route(scope: Scope) -> str:
    """The path of the route, not of the request, so that the number of labels is bounded."""
    return getattr(scope.get("route"), "path", "none")


def host_name(host: str) -> str:
    """The name in a Host header, without port, brackets and a final dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()

"""Checks a request before any of it is read: host, token, size, and how much is under way.

An ASGI layer around the application. In: a request. Out: the same request, with its body counted,
or a problem.

- The `Host` must be a name of this service while it listens on loopback only, so that a web page
  whose name was made to point here (DNS rebinding) gets nothing.
- Everything below `/v1` needs the token, compared in constant time; `/metrics` its own, if there is
  one. Atom feeds carry a key of their own in the address, since feed readers send no headers.
- A body is never larger than `max_body`, and all bodies under way together not larger than a few
  of those: further requests get 429 with Retry-After.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker.service.api.problems import Problem, response
from broker.settings.schema import is_loopback
from broker.text.units import format_size

_log = structlog.get_logger(__name__)

_TOKEN = "the setting server.token, or of the file `token` in the state directory"

_BODIES = 8
"""How many bodies of the largest size may be held at once."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the guard goes by. `hosts`: names that a Host header may have, None for any."""

    token: str
    metrics_token: str | None
    hosts: frozenset[str] | None
    max_body: int


def own_hosts(host: str, public_url: str | None) -> frozenset[str] | None:
    """The names under which a service that listens on `host` is asked; None if others reach it."""
    if not is_loopback(host):
        return None
    names = {"localhost", "127.0.0.1", "::1", host.lower()}
    public = urlsplit(public_url).hostname if public_url else None
    return frozenset(names | {public.lower()} if public else names)


def feed_key(token: str, subscription: str) -> str:
    """The key in the address of a subscription's feed: it opens that feed and nothing else."""
    named = b"feed:" + subscription.encode("utf-8", "surrogatepass")
    return hmac.digest(token.encode(), named, "sha256").hex()[:32]


def same(given: str, expected: str) -> bool:
    """Whether two secrets are equal, in a time that does not tell how far they are."""
    return hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )


class Guard:
    """The layer around the application."""

    def __init__(
        self, app: ASGIApp, rules: Rules, observe: Callable[[str, str, int], None]
    ) -> None:
        self.app = app
        self.rules = rules
        self._observe = observe
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, answer = _Body(self, receive), _Answer(scope["path"], send)
        try:
            self._check(scope["path"], Headers(scope=scope))
            await self.app(scope, body.receive, answer.send)
        except Problem as problem:
            await response(problem)(scope, receive, answer.send)
        except Exception as error:
            _log.error("api.failed", method=scope["method"], route=_route(scope), exc_info=error)
            if not answer.complete:
                raise  # the server breaks the connection, so that nobody takes it for all
        finally:
            self._held -= body.size
            self._observe(scope["method"], _route(scope), answer.status)

    def _check(self, path: str, headers: Headers) -> None:
        """Raises Problem."""
        hosts = self.rules.hosts
        if hosts is not None and _name(headers.get("host", "")) not in hosts:
            raise Problem("misdirected-host", "the Host header names another host")
        if path == "/v1" or path.startswith("/v1/"):
            self._check_token(headers, self.rules.token, _TOKEN)
        elif path == "/metrics" and self.rules.metrics_token is not None:
            self._check_token(headers, self.rules.metrics_token, "the setting server.metrics_token")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self.rules.max_body:
            raise self._too_large()

    def _check_token(self, headers: Headers, expected: str, where: str) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if not expected or scheme.lower() != "bearer" or not same(given.strip(), expected):
            raise Problem(
                "unauthorized",
                f"send the header Authorization: Bearer TOKEN, with the token of {where}",
                headers={"WWW-Authenticate": 'Bearer realm="broker"'},
            )

    def _too_large(self) -> Problem:
        limit = format_size(self.rules.max_body)
        return Problem(
            "too-large", f"the body is larger than {limit} (server.max_body); send less at once"
        )

    def hold(self, body: _Body, more: int) -> None:
        """Account for bytes of a body that have come. Raises Problem if they are too many."""
        body.size += more
        self._held += more
        if body.size > self.rules.max_body:
            raise self._too_large()
        if self._held > _BODIES * self.rules.max_body:
            detail = "too many large requests at once"
            raise Problem("backlog-full", detail, headers={"Retry-After": "1"})


class _Body:
    """The body of one request, counted as it comes."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self.guard = guard
        self.size = 0
        self._receive = receive

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.guard.hold(self, len(message.get("body", b"")))
        return message


class _Answer:
    """The answer to one request. Nothing is guessed about types of content, and nothing below /v1
    stays in a cache."""

    def __init__(self, path: str, send: Send) -> None:
        self.status = 499  # the client went away before there was one
        self.complete = False
        self._send = send
        self._extra = [(b"x-content-type-options", b"nosniff")]
        if path.startswith("/v1/"):
            self._extra.append((b"cache-control", b"no-store"))

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            known = {name.lower() for name, _ in message["headers"]}
            extra = (header for header in self._extra if header[0] not in known)
            message["headers"] = [*message["headers"], *extra]
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True


def _route(scope: Scope) -> str:
    """The path of the route, not of the request: there are only so many."""
    return getattr(scope.get("route"), "path", "none")


def _name(host: str) -> str:
    """The name in a Host header, without port, brackets and a final dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()

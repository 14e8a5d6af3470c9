"""The HTTP API of the service: the application with all routes.

In: a started service. Out: an ASGI application for a server. The routes are in the modules beside
this one, request bodies in `schemas.py`, responses in `replies.py`, errors in `problems.py`;
`guard.py` checks each request before it reaches a route.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPBearer
from starlette.responses import HTMLResponse, JSONResponse
from starlette.types import ASGIApp

from broker.model import MICROSECONDS
from broker.service.api import (
    bulk,
    channels,
    check,
    documents,
    drafts,
    feed_lists,
    feeds,
    match_days,
    matches,
    operations,
    problems,
    public,
    sharing,
    streams,
    subscriptions,
    tokens,
    web,
    why,
)
from broker.service.api.access import record
from broker.service.api.common import KEEP_ALIVE, SIZES, Context, PageSizes
from broker.service.api.direct import Direct
from broker.service.api.docs import HEADERS, page
from broker.service.api.guard import Guard, identity_of_session
from broker.service.api.known import Known
from broker.service.api.protocol import Connections
from broker.service.api.replies import MatchReply
from broker.service.api.rules import Rules, own_hosts
from broker.service.api.together import Together
from broker.service.api.waiting import Waiting
from broker.service.service import Service
from broker.service.web.sessions import Sessions

_DESCRIPTION = """\
An XML stream-join message broker: documents come in, subscriptions find those that belong \
together, matches go out.

Everything below /v1 needs the header `Authorization: Bearer TOKEN`; the token is in the file \
`token` of the state directory unless it was set. It may do everything; operators make others, \
whose scopes say what they may do. (A browser that is signed in has a cookie in its place, and \
sends `X-CSRF-Token` with each change.) Errors are problem details (RFC 9457), of the \
type application/problem+json: `type` is one of a few, `errors` tells each finding with its place. \
After 429 and 503 the header `Retry-After` says when to try again. Times are ISO 8601 in UTC, \
durations are written as in XSCL: "90 s", "7 days".\
"""

_TAGS = [
    ("documents", "Documents come in. They are accepted once they are stored durably."),
    ("subscriptions", "Queries over documents to come. They change while documents flow."),
    ("streams", "What is known of the documents: their label paths, how often, with which values."),
    (
        "matches",
        "What was found: read with a cursor, by long polling, as a stream, in a feed reader.",
    ),
    ("channels", "Ways out: files, webhooks, mail, and consumers that pull."),
    ("deliveries", "Deliveries that were given up, and how to try them again."),
    ("dead letters", "Documents that could not be processed, with the reason."),
    ("feeds", "Feeds that are fetched, whose items are documents."),
    ("why", "Why queries have matched or not, from the documents that are stored."),
    ("tokens", "Who may do what, and who has changed what."),
    ("service", "Looking after the service."),
]

_bearer = HTTPBearer(auto_error=False, description="The token of the service, or one with scopes.")

ROUTERS = (
    documents.router,
    subscriptions.router,
    check.router,
    drafts.router,
    sharing.router,
    bulk.router,
    streams.router,
    matches.router,
    match_days.router,
    channels.channels,
    channels.deliveries,
    operations.router,
    feeds.router,
    feed_lists.router,
    tokens.router,
    why.router,
    web.codes,
)
"""The routes below /v1."""


class Api:
    """The application over a service.

    `app` is for the server; `drain` ends requests that wait for matches, so that the server can
    stop. Streams without matches send a comment every `keep_alive` seconds.
    """

    def __init__(
        self,
        service: Service,
        keep_alive: float = KEEP_ALIVE,
        sizes: PageSizes = SIZES,
    ) -> None:
        self.service = service
        self.waiting = Waiting()
        server = service.settings.server
        secret = server.metrics_token
        rules = Rules(
            token=service.token,
            identify=service.access.identity,
            identify_key=service.access.by_key,
            metrics_token=secret.get_secret_value() if secret else None,
            hosts=own_hosts(server.host, server.public_url),
            max_body=server.max_body,
        )
        self.connections = Connections(
            server.head_timeout / MICROSECONDS,
            server.body_timeout / MICROSECONDS,
            server.connections,
            server.client_connections,
        )
        sessions = Sessions(service.state / "sessions.json", service.clock)
        sessions.keep(lambda identity: identity_of_session(identity, rules) is not None)
        known = Known()
        together = Together(service, known)
        context = Context(
            service,
            self.waiting,
            rules,
            sessions,
            together,
            keep_alive=keep_alive,
            sizes=sizes,
            known=known,
        )
        service.metrics.read_from(service.figures, self.waiting.__len__)
        app = Direct(_application(context), context, documents.router.routes)
        service.awaiting.append(self.waiting.is_awaited)
        service.access.on_end = self.waiting.wake
        self.rules = rules
        self.together = together
        self.read = context.read
        self.app: ASGIApp = Guard(
            app, rules, service.metrics.observe_request, partial(record, context), sessions
        )

    def drain(self) -> None:
        """End all event streams and long polls, present and later ones. For any thread."""
        self.waiting.drain()


def _application(context: Context) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        context.waiting.start(context.service.mailbox)
        try:
            yield
        finally:
            context.waiting.stop()
            context.publishers.shutdown(wait=False)
            context.together.close()

    app = FastAPI(
        title="Broker",
        version=version("xml-stream-broker"),
        description=_DESCRIPTION,
        openapi_tags=[{"name": name, "description": text} for name, text in _TAGS],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.context = context
    for kind in problems.HANDLED:
        app.add_exception_handler(kind, problems.handle)
    token = [Depends(_bearer)]  # for the description only; the guard checks the token
    for router in ROUTERS:
        app.include_router(router, dependencies=token)
    app.include_router(public.router)
    app.include_router(web.router)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """Add the routes of the API's description. It is made when it is first read, in a thread of its
    own: it takes longer than all the rest of a start."""

    @cache
    def description() -> dict[str, Any]:
        return _description(app)

    @app.get("/openapi.json", include_in_schema=False)
    def openapi() -> JSONResponse:
        return JSONResponse(description())

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(page(description()), headers=HEADERS)


def _description(app: FastAPI) -> dict[str, Any]:
    description = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    schemas = description["components"]["schemas"]
    for model in (problems.ProblemDetails, MatchReply):
        _add(schemas, model.model_json_schema(ref_template="#/components/schemas/{model}"))
    # FastAPI's own responses to invalid requests, which this application replaces.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for methods in description["paths"].values():
        for operation in methods.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    return description


def _add(schemas: dict[str, Any], schema: dict[str, Any]) -> None:
    schemas.update(schema.pop("$defs", {}))
    schemas[schema["title"]] = schema

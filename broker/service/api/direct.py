"""Runs the routes that get a thousand requests a second without the framework.

An ASGI layer around the application. In: a request. Out: for one of these routes the response of
its endpoint; other requests go to the application, which describes these routes too. FastAPI's
middleware, dependencies and replies cost several times as much as the rest of a small request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from broker.service.api import problems
from broker.service.api.common import Context


class _Direct(NamedTuple):
    """A route: `headers` are the parameters of its endpoint, and their names in a request."""

    route: APIRoute
    path: re.Pattern[str]
    endpoint: Callable[..., Coroutine[Any, Any, Response]]
    headers: tuple[tuple[str, bytes], ...]


class Direct:
    """The layer around the application, for routes whose endpoints take the request, the context,
    texts of the path and headers, check them, and return a response."""

    def __init__(self, app: ASGIApp, context: Context, routes: Sequence[BaseRoute]) -> None:
        self.app = app
        self._context = context
        self._routes = {
            method: _direct(route)
            for route in routes
            if isinstance(route, APIRoute)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._routes.get(scope["method"]) if scope["type"] == "http" else None
        match = found and found.path.match(scope["path"])
        if found is None or match is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = found.route
        # Of a header that is sent twice, the first counts.
        sent = dict(reversed(scope["headers"]))
        headers = {
            name: sent[key].decode("latin-1") if key in sent else None
            for name, key in found.headers
        }
        request = Request(scope, receive)
        try:
            response = await found.endpoint(request, self._context, **match.groupdict(), **headers)
        except ClientDisconnect:
            return  # nobody is there to read a response
        except Exception as error:
            response = await problems.handle(request, error)
        await response(scope, receive, send)


def _direct(route: APIRoute) -> _Direct:
    names = [parameter.name for parameter in route.dependant.header_params]
    headers = tuple((name, name.replace("_", "-").encode("ascii")) for name in names)
    return _Direct(route, route.path_regex, route.endpoint, headers)

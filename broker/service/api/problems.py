"""Errors as HTTP responses: problem details (RFC 9457) in JSON.

In: exceptions of the service, of the language and of the framework. Out: responses of the type
`application/problem+json`. All kinds of problems are in `KINDS`, with their status; `type` is for
programs, `detail` for people, and `errors` has the places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from broker.delivery import DamagedMatch
from broker.service.access.quotas import OverQuota
from broker.service.access.scopes import Forbidden
from broker.service.api.schemas import PATTERNS
from broker.service.core import errors
from broker.text.json_text import to_json
from xscl.errors import Diagnostic, XsclError

_log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:xscl-broker:"

KINDS: dict[str, tuple[int, str]] = {
    "malformed": (400, "The request cannot be read"),
    "unauthorized": (401, "The token is missing or wrong"),
    "forbidden": (403, "The token may not do this"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "The method is not possible here"),
    "too-slow": (408, "The request did not come in time"),
    "conflict": (409, "It does not go together with what is there"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "The body has the wrong type"),
    "misdirected-host": (421, "The host named is not this service"),
    "invalid": (422, "The request is not valid"),
    "xscl": (422, "The text is not valid XSCL"),
    "backlog-full": (429, "The service is behind; try again later"),
    "over-quota": (429, "A quota of the token is used up"),
    "internal": (500, "The service failed"),
    "starting": (503, "The service is starting"),
    "draining": (503, "The service is stopping"),
    "too-many-connections": (503, "There are too many connections"),
    "disk-failed": (503, "The disk has failed"),
    "disk-full": (507, "The disk is nearly full"),
}
"""Code of each kind of problem (its `type` is PREFIX and the code), its status and title."""

_BY_KIND: dict[type[errors.ServiceError], str] = {
    errors.DiskFull: "disk-full",
    errors.TooLarge: "too-large",
    errors.NotFound: "not-found",
    errors.Conflict: "conflict",
}
_WAITS: dict[type[errors.ServiceError], str] = {
    errors.Busy: "backlog-full",
    errors.Starting: "starting",
    errors.DiskFailed: "disk-failed",
    OverQuota: "over-quota",
}
"""Problems that pass with time."""
_MESSAGES = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such field",
}
_BY_STATUS = {400: "malformed", 404: "not-found", 405: "method-not-allowed", 413: "too-large"}


class Finding(BaseModel):
    """One thing that is wrong, and where."""

    code: str = Field(description="what it is, for programs", examples=["syntax"])
    message: str = Field(description="what is wrong", examples=["expected a name"])
    where: str | None = Field(
        default=None, description="the field, parameter or header", examples=["text"]
    )
    line: int | None = Field(default=None, description="line of the text or of the body, from 1")
    column: int | None = Field(default=None, description="column of the text, from 1")
    length: int | None = Field(
        default=None, description="how many characters of the text it is about"
    )
    hint: str | None = Field(default=None, description="what to do about it")
    severity: Literal["error", "warning"] = Field(default="error", description="how bad it is")
    rendered: str | None = Field(
        default=None, description="all of it as text, with the place marked"
    )


class ProblemDetails(BaseModel):
    """Problem details as RFC 9457 has them."""

    type: str = Field(description="the kind of problem", examples=[PREFIX + "invalid"])
    title: str = Field(description="the kind of problem in words")
    status: int = Field(description="the status of the response", examples=[422])
    detail: str = Field(description="what is wrong this time")
    errors: list[Finding] = Field(default=[], description="each finding, with its place")


class Problem(HTTPException):
    """A problem as the response to a request. `code` is a key of `KINDS`."""

    def __init__(
        self,
        code: str,
        detail: str,
        findings: Sequence[Finding] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(KINDS[code][0], detail, headers)
        self.code = code
        self.findings = findings


def finding(diagnostic: Diagnostic) -> Finding:
    """A diagnostic of the language, with its rendered text."""
    return Finding(
        code=diagnostic.code,
        message=diagnostic.message,
        line=diagnostic.span.line,
        column=diagnostic.span.column,
        length=diagnostic.span.end - diagnostic.span.start,
        hint=diagnostic.hint,
        severity="warning" if diagnostic.severity == "warning" else "error",
        rendered=diagnostic.render(),
    )


def response(problem: Problem) -> Response:
    """The response of a problem."""
    status, title = KINDS[problem.code]
    details = ProblemDetails(
        type=PREFIX + problem.code,
        title=title,
        status=status,
        detail=problem.detail,
        errors=list(problem.findings),
    )
    body = to_json(details.model_dump(exclude_none=True))
    return Response(body, status, problem.headers, MEDIA_TYPE)


# -- from exceptions ---------------------------------------------------------------------------


def of_service(error: errors.ServiceError | XsclError) -> Problem:
    """The problem for an error of the service or of the language."""
    match error:
        case XsclError():
            findings = [finding(diagnostic) for diagnostic in error.diagnostics]
            first = error.diagnostics[0]
            return Problem("xscl", f"line {first.span.line}: {first.message}", findings)
        case errors.Busy() | errors.Starting() | errors.DiskFailed() | OverQuota():
            wait = str(max(1, math.ceil(error.retry_after)))
            return Problem(_WAITS[type(error)], str(error), headers={"Retry-After": wait})
        case Forbidden():
            lacking = Finding(code="scope", message=str(error), where=error.scope, hint=error.hint)
            scheme = f'Bearer realm="broker", error="insufficient_scope", scope="{error.scope}"'
            return Problem(
                "forbidden", f"{error}; {error.hint}", [lacking], {"WWW-Authenticate": scheme}
            )
        case errors.Draining():
            return Problem("draining", str(error), headers={"Retry-After": "10"})
        case errors.Invalid():
            findings = [
                Finding(code="invalid", message=str(error), where=error.where, line=error.line)
            ]
            place = "" if error.line is None else f"line {error.line}: "
            return Problem("invalid", f"{place}{error}", findings)
    for kind, code in _BY_KIND.items():
        if isinstance(error, kind):
            return Problem(code, str(error))
    _log.error("api.failed", exc_info=error)
    return Problem("internal", f"an error that the service has no answer for: {error}")


def wrong_type(expected: str, request: Request) -> Problem:
    """The problem for a body of another type than the expected one."""
    sent = request.headers.get("content-type") or "nothing"
    detail = (
        f"the body must be of the type {expected}, and the header Content-Type says {sent[:100]}"
    )
    return Problem("unsupported-media-type", detail)


def of_validation(error: RequestValidationError, request: Request) -> Problem:
    """The problem for a request with invalid parameters or an invalid body."""
    problems = error.errors()
    if any(e["loc"] == ("body",) and isinstance(e.get("input"), bytes) for e in problems):
        return wrong_type("application/json", request)
    broken = next((e for e in problems if e["type"] == "json_invalid"), None)
    if broken is not None:
        return _broken_json(broken, error.body)
    findings = [Finding(code=e["type"], message=_message(e), where=_where(e)) for e in problems]
    first = findings[0]
    detail = f"{first.where}: {first.message}" if first.where else first.message
    return Problem("invalid", detail, findings)


def _message(error: dict[str, Any]) -> str:
    """The message of a validation error, without the wording of the library."""
    if error["type"] == "string_pattern_mismatch":
        return f"{error['input'][:100]!r}: {PATTERNS.get(error['ctx']['pattern'], error['msg'])}"
    message: str = error["msg"]
    return _MESSAGES.get(error["type"], message.removeprefix("Value error, "))


def _broken_json(error: dict[str, Any], body: object) -> Problem:
    text, at = str(body), int(error["loc"][-1])
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    message = f"not JSON: {error['ctx']['error']}"
    cause = Finding(code="json", message=message, where="body", line=line, column=column)
    return Problem("malformed", f"{message}, line {line} column {column}", [cause])


def _where(error: dict[str, Any]) -> str | None:
    """The name of a parameter, or the place in the body: channels.0.kind."""
    place = error["loc"][1:]
    return ".".join(map(str, place)) or None


async def handle(request: Request, error: Exception) -> Response:
    """The exception handler of the application."""
    match error:
        case Problem():
            return response(error)
        case HTTPException():
            return response(_of_framework(request, error))
        case RequestValidationError():
            return response(of_validation(error, request))
        case XsclError() | errors.ServiceError():
            return response(of_service(error))
    _log.error("api.failed", method=request.method, exc_info=error)
    if isinstance(error, DamagedMatch):
        return response(of_service(errors.DiskFailed(str(error))))
    if isinstance(error, errors.STORAGE):
        failed = errors.DiskFailed(
            "a file of the state failed, the log of the service tells more; what was asked for may"
            " be done or not: ask again"
        )
        return response(of_service(failed))
    return response(Problem("internal", "an unexpected error; the log of the service tells more"))


def _of_framework(request: Request, error: HTTPException) -> Problem:
    code = _BY_STATUS.get(error.status_code, "internal")
    detail = error.detail
    if detail == HTTPStatus(error.status_code).phrase:
        detail = f"{request.method} {request.url.path}: {KINDS[code][1].lower()}; see /docs"
    return Problem(code, detail, headers=error.headers)


HANDLED: tuple[type[Exception], ...] = (
    HTTPException,
    RequestValidationError,
    XsclError,
    errors.ServiceError,
    Exception,
)

# -- for the description -----------------------------------------------------------------------


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may return these kinds of problems."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code][0], []).append(code)
    return {status: _documented(status, same) for status, same in sorted(by_status.items())}


def _documented(status: int, codes: Iterable[str]) -> dict[str, Any]:
    examples = {
        code: {
            "summary": KINDS[code][1],
            "value": {
                "type": PREFIX + code,
                "title": KINDS[code][1],
                "status": status,
                "detail": _EXAMPLES.get(code, "what is wrong this time"),
            },
        }
        for code in codes
    }
    documentation: dict[str, Any] = {
        "description": ". ".join(KINDS[code][1] for code in codes) + ".",
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/ProblemDetails"},
                "examples": examples,
            }
        },
    }
    if status in (429, 503):
        documentation["headers"] = {
            "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        }
    return documentation


_EXAMPLES = {
    "malformed": "not JSON: Expecting value, line 1 column 1",
    "unauthorized": "send the header Authorization: Bearer TOKEN, with the token of …",
    "forbidden": "the token 'desk' lacks the scope read:S: …; an operator adds it with: …",
    "not-found": "no subscription 'same-page'",
    "too-slow": "the head did not come within 15 s (server.head_timeout)",
    "conflict": "channel 'desk' is of another kind",
    "too-large": "more than 10 MB",
    "unsupported-media-type": "the body must be of the type application/json",
    "invalid": "limit: Input should be less than or equal to 1000",
    "xscl": "line 1: expected a name",
    "backlog-full": "100,000 documents are waiting",
    "over-quota": "the token 'desk' may publish 10 documents a second",
    "starting": "subscriptions are being loaded",
    "draining": "the service is stopping",
    "too-many-connections": "there are 4,000 connections already (server.connections)",
    "disk-failed": "the disk failed (disk I/O error): what was sent may be stored or not",
    "disk-full": "90 MB are free, 100 MB must be",
}

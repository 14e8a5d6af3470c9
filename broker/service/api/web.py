"""Routes of the page in a browser: its files, one-time codes, and the session that a code begins.

The session is in a cookie that scripts cannot read and other sites do not send (HttpOnly,
SameSite=Strict). As other programs on this machine are the same site to a browser, whatever port
they have, a change needs the header `X-CSRF-Token` beside it, which only the page itself can know.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from broker.service.access.scopes import SERVICE, Identity
from broker.service.api.access import Member
from broker.service.api.common import ApiContext, problems
from broker.service.api.guard import COOKIE_AGE, cookie_name, identity_of_session, session_of
from broker.service.api.problems import Problem, documented
from broker.service.api.replies import Reply, Time
from broker.service.web import pages
from broker.service.web.sessions import Session, csrf, fingerprint

router = APIRouter(tags=["service"])
codes = APIRouter(prefix="/v1", tags=["service"])


class CodeReply(Reply):
    """A code with which a browser signs in, once."""

    code: str = Field(examples=["K7QM-4XWD-R2HB"])
    path: str = Field(
        description="the page with the code, below the address of the service; the code is behind "
        "a #, which browsers send to nobody",
        examples=["/#code=K7QM-4XWD-R2HB"],
    )
    until: Time = Field(description="until when it can be used")


class SignInBody(BaseModel):
    """What a browser signs in with."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(
        max_length=100, description="as `broker open` shows it", examples=["K7QM-4XWD-R2HB"]
    )


class SessionReply(Reply):
    """A browser that is signed in."""

    csrf: str = Field(description="what it sends as X-CSRF-Token with each change")
    name: str = Field(description="that of its token; the service's own has none", examples=[""])
    operates: bool = Field(description="whether it may do everything")
    until: Time = Field(description="until when it is signed in")


@codes.post(
    "/sign-in-codes",
    operation_id="makeSignInCode",
    summary="Make a code for a browser",
    status_code=201,
    responses=problems(),
    response_description="The code.",
)
async def make_code(api: ApiContext, who: Member) -> CodeReply:
    """Make a code with which a browser signs in, once and within two minutes. It may then do what
    the token of this request may do, as long as that is not revoked or rotated."""
    token = fingerprint(api.rules.token) if who is SERVICE else api.service.access.key(who)
    code, until = api.sessions.new_code(token)
    return CodeReply.model_validate(
        {"code": code, "path": f"/#code={code}", "until": round(until * 1_000_000)}
    )


_KNOWN = documented("unauthorized", "misdirected-host", "internal")


@router.post(
    "/session",
    operation_id="signIn",
    summary="Sign in with a code",
    status_code=201,
    response_model=SessionReply,
    responses=documented(
        *("malformed", "unauthorized", "misdirected-host", "too-large", "invalid", "internal"),
        "unsupported-media-type",
    ),
    response_description="The session; its cookie is in the header Set-Cookie.",
)
async def sign_in(request: Request, api: ApiContext, body: SignInBody) -> Response:
    """Begin a session with a one-time code. It lasts a week, also beyond a restart."""
    cookie = await api.read(partial(api.sessions.begin, body.code))
    if cookie is None:
        raise Problem(
            "unauthorized", "the code is wrong, was used, or is too old: broker open makes another"
        )
    found = api.sessions.find(cookie)
    who = None if found is None else identity_of_session(found.identity, api.rules)
    if found is None or who is None:
        raise Problem("unauthorized", "the token of the code was revoked or rotated meanwhile")
    reply = _session(cookie, found, who, 201)
    public = api.service.settings.server.public_url or ""
    reply.set_cookie(
        cookie_name(api.rules.token),
        cookie,
        max_age=COOKIE_AGE,
        secure=request.url.scheme == "https" or public.startswith("https:"),
        httponly=True,
        samesite="strict",
    )
    return reply


@router.get(
    "/session",
    operation_id="getSession",
    summary="Ask whether a browser is signed in",
    response_model=SessionReply,
    responses=_KNOWN,
    response_description="It is.",
)
async def session(request: Request, api: ApiContext) -> Response:
    """The session of the cookie that comes with the request."""
    return _session(*session_of(request.scope, api.rules, api.sessions, changes=False), 200)


@router.delete(
    "/session",
    operation_id="signOut",
    summary="Sign out",
    status_code=204,
    responses=_KNOWN,
    response_description="The session is over, and so are its open streams.",
)
async def sign_out(request: Request, api: ApiContext) -> Response:
    """End the session of the cookie that comes with the request."""
    _, found, _ = session_of(request.scope, api.rules, api.sessions, changes=True)
    await api.read(partial(api.sessions.end, found))
    api.waiting.wake()
    reply = Response(status_code=204)
    reply.delete_cookie(cookie_name(api.rules.token), httponly=True, samesite="strict")
    return reply


def _session(cookie: str, found: Session, who: Identity, status: int) -> Response:
    reply = SessionReply.model_validate(
        {
            "csrf": csrf(cookie),
            "name": who.name,
            "operates": who.operates,
            "until": round(found.until * 1_000_000),
        }
    )
    return JSONResponse(reply.model_dump(), status, {"Cache-Control": "no-store"})


# -- files -------------------------------------------------------------------------------------


@router.get("/", include_in_schema=False)
async def index(
    accept_encoding: Annotated[str, Header()] = "", if_none_match: Annotated[str, Header()] = ""
) -> Response:
    return _file("index.html", accept_encoding, if_none_match)


@router.get("/ui/{name}", include_in_schema=False)
async def file(
    name: Annotated[str, Path(max_length=100)],
    accept_encoding: Annotated[str, Header()] = "",
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    return _file(name, accept_encoding, if_none_match)


def _file(name: str, accepts: str, known: str) -> Response:
    found = pages.file(name)
    if found is None:
        raise Problem("not-found", "the page has no such file")
    headers = {**pages.HEADERS, "ETag": found.tag}
    if found.tag in known:
        return Response(status_code=304, headers=headers)
    body = found.body
    if "gzip" in accepts:
        body = found.zipped
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type=found.media_type)

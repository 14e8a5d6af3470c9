"""The route for publishing documents, which are accepted once they are on disk."""

from __future__ import annotations

import re
from dataclasses import replace
from email.message import Message
from functools import lru_cache, partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request
from starlette.responses import Response

from broker.service.access.scopes import SERVICE, Identity
from broker.service.api.access import identity_of
from broker.service.api.common import ApiContext, Context, problems
from broker.service.api.known import keys_of
from broker.service.api.problems import Problem, wrong_type
from broker.service.api.replies import AcceptedReply
from broker.service.core.answers import Accepted, Posted
from broker.service.core.errors import Invalid
from broker.service.intake import read_lines, source_of
from broker.sources.documents import microseconds
from xscl.stage1.document import encode_text
from xscl.syntax.lexer import NAME

router = APIRouter(tags=["documents"])
"""Its route is run by `direct.py`, for most requests with one document by `single.py`."""

_LINES = {
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
}
STREAM = re.compile(NAME)
_TRUE = {"true", "1", "?1"}
_FALSE = {"false", "0", "?0"}
LONGEST_STREAM = 200
_LONGEST_ID = 2_000

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One XML document, or many documents as lines of JSON.",
        "content": {
            "application/xml": {
                "schema": {"type": "string"},
                "examples": {
                    "one": {
                        "summary": "One document",
                        "value": "<book><title>The Tide Clerk</title></book>",
                    }
                },
            },
            "application/x-ndjson": {
                "schema": {
                    "type": "object",
                    "description": "Each line.",
                    "required": ["xml"],
                    "properties": {
                        "xml": {"type": "string", "description": "the document"},
                        "id": {"type": "string", "description": "its id"},
                        "timestamp": {
                            "description": "its time: ISO 8601, or seconds since 1970",
                            "oneOf": [{"type": "string"}, {"type": "number"}],
                        },
                        "revision": {
                            "type": "boolean",
                            "description": "it replaces the document of that id",
                        },
                        "source": {
                            "type": "string",
                            "description": "whose ids these are; `post:` and the stream by default",
                        },
                    },
                },
                "examples": {
                    "two": {
                        "summary": "Two documents",
                        "value": '{"id":"d1","timestamp":"2026-10-05T06:40:00Z","xml":"<book/>"}\n'
                        '{"id":"d2","timestamp":"2026-10-05T06:45:00Z","xml":"<blog/>"}\n',
                    }
                },
            },
        },
    }
}


@router.post(
    "/v1/streams/{stream}/documents",
    operation_id="publishDocuments",
    summary="Publish documents",
    status_code=202,
    responses=problems(
        "too-large",
        "unsupported-media-type",
        "backlog-full",
        "over-quota",
        "draining",
        "disk-failed",
        "disk-full",
    ),
    response_model=AcceptedReply,
    response_description="The documents are stored durably.",
    openapi_extra=_BODY,
)
async def publish(
    request: Request,
    api: ApiContext,
    stream: Annotated[
        str,
        Path(
            max_length=LONGEST_STREAM,
            description="the stream that they flow through",
            examples=["S"],
        ),
    ],
    content_type: Annotated[
        str | None, Header(description="`application/xml` or `application/x-ndjson`")
    ] = None,
    document_id: Annotated[str | None, Header(description="the id of the one document")] = None,
    document_timestamp: Annotated[
        str | None, Header(description="its time: ISO 8601, or seconds since 1970; else it is now")
    ] = None,
    document_revision: Annotated[
        str | None, Header(description="`true`: it replaces the document of that id")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="makes ids of documents that have none, so that the request may be repeated"
        ),
    ] = None,
) -> Response:
    """One XML document, or many as lines of JSON: all of them or none.

    The response is 202 once the documents are on disk; from then on they are processed whatever
    happens. A request without a response may be repeated: a document whose id is known already is
    dropped, and `known` counts those. A document that is not well-formed is accepted too, and
    becomes a dead letter with the reason (see /v1/dead-letters).
    """
    who = identity_of(request)
    if len(stream) > LONGEST_STREAM or not STREAM.fullmatch(stream):
        raise Invalid(f"{stream!r} cannot be the name of a stream", "stream")
    if who is not SERVICE:
        who.check_publish(stream)
        await api.publish(partial(api.service.quotas.check, who))
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("unsupported-media-type", "the body must not be compressed")
    type_, charset = media_type(content_type)
    key = header_text("Idempotency-Key", idempotency_key)
    if type_ in _LINES:
        body = await _body(request)
        call = partial(_publish_lines, api, who, stream, body, key)
    elif is_xml(type_):
        timestamp = header_time(document_timestamp)
        id = header_text("Document-Id", document_id)
        revision = header_flag(document_revision)
        xml = _recode(await _body(request), charset)
        posted = Posted(xml, id or key, timestamp, revision)
        call = partial(_publish, api, who, stream, [posted])
    else:
        raise wrong_type("application/xml or application/x-ndjson", request)
    accepted = AcceptedReply.model_validate(await api.publish(call))
    return Response(accepted.model_dump_json(), 202, media_type="application/json")


def _publish_lines(
    api: Context, who: Identity, stream: str, body: bytes, key: str | None
) -> Accepted:
    return _publish(api, who, stream, read_lines(body, key))


def _publish(api: Context, who: Identity, stream: str, documents: list[Posted]) -> Accepted:
    if who.owner:
        documents = [
            replace(each, source=source_of(who.owner, each.source or stream)) for each in documents
        ]
    keys = keys_of(stream, documents)
    known = sum(api.known.repeated(api.service.core, keys, documents))
    accepted = api.service.intake.publish(stream, documents, who.owner)
    if who is not SERVICE:
        api.service.quotas.used(who, len(documents), sum(len(each.xml) for each in documents))
    api.known.accepted(keys, accepted.first)
    return replace(accepted, known=known)


@lru_cache(maxsize=256)
def media_type(header: str | None) -> tuple[str, object]:
    """The type in a header Content-Type, and its charset."""
    kind = Message()
    kind["content-type"] = header or "none/none"
    return kind.get_content_type(), kind.get_param("charset")


def is_xml(type_: str) -> bool:
    """Whether a media type is one of XML (RFC 7303)."""
    return type_ in ("application/xml", "text/xml") or type_.endswith("+xml")


async def _body(request: Request) -> bytes:
    """The whole body, whose size the guard limits."""
    whole = bytearray()
    async for part in request.stream():
        whole += part
    return not_empty(bytes(whole))


def not_empty(body: bytes) -> bytes:
    """A body. Raises Invalid for one of white space."""
    if not body or body.isspace():
        raise Invalid("the body is empty", "body")
    return body


def _recode(body: bytes, charset: object) -> bytes:
    """The document, in UTF-8 if the header has a charset, which takes precedence over the
    document's own declaration (RFC 7303, section 3)."""
    if not isinstance(charset, str):
        return body
    try:
        return encode_text(body.decode(charset))
    except LookupError:
        raise Problem("unsupported-media-type", f"there is no charset {charset!r}") from None
    except (UnicodeError, ValueError) as error:
        raise Invalid(f"the body is not {charset}: {error}", "body") from None


def header_text(name: str, value: str | None) -> str | None:
    """The text of a header in UTF-8, which was decoded as Latin-1. Raises Invalid."""
    if value is None:
        return None
    try:
        text = value.encode("latin-1").decode()
    except UnicodeError:
        raise Invalid(f"the header {name} is not UTF-8", name) from None
    if not text or len(text) > _LONGEST_ID or not text.isprintable():
        raise Invalid(f"the header {name} must be 1 to {_LONGEST_ID:,} printable characters", name)
    return text


def header_time(value: str | None) -> int | None:
    """Microseconds of the header Document-Timestamp. Raises Invalid."""
    if value is None:
        return None
    time = microseconds(value)
    if time is None:
        raise Invalid(f"{value!r} is neither a date nor a number of seconds", "Document-Timestamp")
    return time


def header_flag(value: str | None) -> bool:
    """The header Document-Revision. Raises Invalid."""
    if value is not None and value.lower() not in _TRUE | _FALSE:
        raise Invalid("the header Document-Revision is `true` or `false`", "Document-Revision")
    return value is not None and value.lower() in _TRUE

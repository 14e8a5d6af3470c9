"""What is logged, and how: text for people, or a line of JSON each, on standard error.

In: `structlog.get_logger()` and the logging of libraries, warnings too. Out: lines with the fields
`time` (UTC), `level`, `logger`, `event`, then those of the event, and `exception` where there is
one. No secret is written: not under a name such as token, nor inside of a text.
"""

from __future__ import annotations

import logging
import logging.config
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

HIDDEN = "[hidden]"

_QUIET = ("asyncio", "httpx", "httpcore", "py4j", "mail")
"""Libraries that log every request; only their warnings are logged."""

_SECRET_NAMES = re.compile(r"token|secret|password|passwd|authorization|login|api_?key", re.I)
_SECRET_TEXTS = (
    (re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]+"), rf"\1 {HIDDEN}"),
    (re.compile(r"\bwhsec_[\w+/=-]+"), HIDDEN),
    (re.compile(r"(://)[^/@\s'\"?#]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(?i)([?&](?:key|token|secret|password|hub\.secret)=)[^&\s'\"]+"), rf"\1{HIDDEN}"),
)


def configure(
    level: str = "info",
    form: Literal["auto", "text", "json"] = "auto",
    stream: TextIO | None = None,
) -> None:
    """Log to `stream` (standard error) from now on; "auto" is text on a terminal, else JSON."""
    out = sys.stderr if stream is None else stream
    terminal = out is not None and out.isatty()
    renderer: Processor
    if form == "text" or (form == "auto" and terminal):
        renderer = structlog.dev.ConsoleRenderer(colors=terminal, timestamp_key="time")
        last: list[Processor] = [renderer]
    else:
        renderer = structlog.processors.JSONRenderer(default=str)
        last = [_in_order, renderer]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        _without_secrets,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.PositionalArgumentsFormatter(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(False)  # a second call would have no effect otherwise
    logging.captureWarnings(True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        theirs = logging.getLogger(name)
        theirs.handlers.clear()
        theirs.propagate = True
        theirs.setLevel(logging.NOTSET)  # a server may have set one of its own


def _in_order(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """The fields that every line has, first."""
    first = {name: event.pop(name) for name in ("time", "level", "logger", "event")}
    return first | dict(event)


def _without_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {name: _hidden(name, value) for name, value in event.items()}


def _hidden(name: str, value: Any) -> Any:
    """The value without what is secret in it. Only plain data is looked into."""
    if _SECRET_NAMES.search(name) and value is not None and not isinstance(value, bool | int):
        return HIDDEN
    if isinstance(value, str):
        value = value.rstrip("\n")
        for pattern, instead in _SECRET_TEXTS:
            value = pattern.sub(instead, value)
        return value
    if isinstance(value, Mapping):
        return {key: _hidden(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden("", inner) for inner in value]
    if isinstance(value, BaseException):
        return _hidden("", str(value))
    return value

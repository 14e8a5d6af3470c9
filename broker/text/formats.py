"""Matches as text: JSON lines, XML documents, or paragraphs for people."""

from __future__ import annotations

import fcntl
import io
import json
import os
import sys
from collections.abc import Callable
from typing import Literal, get_args

from broker.model import Match
from broker.text.people import as_text


def as_jsonl(match: Match) -> str:
    """One line of JSON."""
    return json.dumps(match.to_json(), ensure_ascii=False)


def as_xml(match: Match) -> str:
    """The result document."""
    return match.result


FORMATS: dict[str, Callable[[Match], str]] = {"jsonl": as_jsonl, "xml": as_xml, "text": as_text}

WebhookForm = Literal["standard", "ntfy", "slack", "matrix", "telegram", "text"]
"""What a webhook is sent: the match as JSON, signed, or a message as one of these services takes
it."""
WEBHOOK_FORMS: tuple[WebhookForm, ...] = get_args(WebhookForm)


class ReaderGone(Exception):
    """The reader of standard output has closed it; unacknowledged matches are delivered next
    time."""


def output_is_closed() -> bool:
    """Whether standard output is missing or closed."""
    if sys.stdout is None:
        return True
    try:
        return fcntl.fcntl(sys.stdout.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    except (OSError, io.UnsupportedOperation):
        return False

"""What a service answers: JSON, lines of JSON, problems (RFC 9457). Raises Failed where something
else than a service answers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from broker.cli.shared import Failed
from feeds.schedule import retry_after

if TYPE_CHECKING:
    import httpx


def problem_of(response: httpx.Response) -> dict[str, Any]:
    """The problem document of an answer; empty where it has none."""
    if not response.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        found = response.json()
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    errors = found.get("errors")
    listed = errors if isinstance(errors, list) else []
    return found | {
        "type": str(found.get("type", "")),
        "errors": [error for error in listed if isinstance(error, dict)],
    }


class _Answer(dict[str, Any]):
    """An object in an answer: what it lacks it has not from a broker of this version."""

    def __missing__(self, name: str) -> Any:
        raise Failed(
            f'what answers is no broker, or one of another version: "{name}" is missing in its '
            "answer"
        )


_DECODER = json.JSONDecoder(object_hook=_Answer)


def object_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer. Raises Failed where it is none, and where something is read in
    it that it does not have."""
    return _object(response, _json(response, response.text))


def objects_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The objects of a JSON array, as `object_of`."""
    return _objects(response, _json(response, response.text))


def lines_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The objects of lines of JSON, as `object_of`."""
    return lines_as_objects(response, [line for line in response.text.split("\n") if line])


def lines_as_objects(response: httpx.Response, lines: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of some lines of JSON, as `object_of`. They are decoded as one array, in half the
    time."""
    return _objects(response, _json(response, f"[{','.join(lines)}]"))


def lines_in(response: httpx.Response) -> Iterator[list[str]]:
    """The lines of an answer as they come in, some at a time. Other than for `iter_lines`, which
    follows Unicode, a line feed alone ends one."""
    rest = b""
    for piece in response.iter_bytes():
        *whole, rest = (rest + piece).split(b"\n")
        if whole:
            yield [line.decode() for line in whole]
    if rest:
        yield [rest.decode()]


def line_of(response: httpx.Response, line: str) -> dict[str, Any]:
    """The object of one line of JSON, as `object_of`."""
    return _object(response, _json(response, line))


def _json(response: httpx.Response, text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise no_broker(response, "something that is no JSON") from None


def _objects(response: httpx.Response, found: Any) -> list[dict[str, Any]]:
    if not isinstance(found, list):
        raise no_broker(response, "JSON of another form")
    return [_object(response, each) for each in found]


def _object(response: httpx.Response, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise no_broker(response, "JSON of another form")
    return found


def no_broker(response: httpx.Response, found: str) -> Failed:
    return Failed(f"{response.url} answers with {found}, not as a broker does: look at the address")


def asked_to_wait(response: httpx.Response) -> float:
    """How many seconds the service asks to wait; one where it does not say."""
    seconds = retry_after(response.headers.get("retry-after", ""), time.time())
    return 1.0 if seconds is None else max(0.1, seconds)

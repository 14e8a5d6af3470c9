"""The kinds of values of settings: as people write them in, and as they are written out.

In: texts such as "2 days" and "100 MB". Out: integers of microseconds and of bytes.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, SecretStr

from broker.text.units import (
    FOREVER,
    finite,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


def _keep(value: Any) -> int | None:
    size = parse_duration(value)
    return None if size >= FOREVER else size


def _size(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError("a size is a text with a unit, as '100 MB'")
    return parse_size(value)


def _size_text(value: int) -> str:
    text = format_size(value)
    return text if parse_size(text.removesuffix("ytes")) == value else f"{value} B"


def _one_line(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text or text != text.strip() or not text.isprintable():
        raise ValueError("a secret is one line of printable characters, not empty")
    return value


Duration = Annotated[
    int, BeforeValidator(parse_duration), AfterValidator(finite), PlainSerializer(format_duration)
]
"""A duration in microseconds, longer than nothing."""

AnyDuration = Annotated[int, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
"""A duration in microseconds; FOREVER (2**62) for INFINITY."""

Keep = Annotated[
    int | None,
    BeforeValidator(_keep),
    PlainSerializer(lambda value: format_duration(FOREVER if value is None else value)),
]
"""A duration in microseconds; None for INFINITY."""

Size = Annotated[int, BeforeValidator(_size), PlainSerializer(_size_text)]
"""A size in bytes."""

Secret = Annotated[SecretStr, AfterValidator(_one_line)]
Port = Annotated[int, Field(ge=0, le=65535)]
Count = Annotated[int, Field(ge=1)]

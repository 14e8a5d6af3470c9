"""Settings as they are shown to people: with their dotted names, and without secrets.

In: settings. Out: a row for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from broker.settings.schema import Settings
from broker.settings.sources import leaves

MASK = "********"


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting: its dotted name, how its value is written (JSON; None if it is not set), and
    whether it is other than by default."""

    name: str
    value: Any
    changed: bool


def shown(settings: Settings) -> Iterator[Shown]:
    """All settings in the order of their tables."""
    defaults = {path: written for path, _, written in leaves(Settings())}
    for path, value, written in leaves(settings):
        masked = MASK if isinstance(value, SecretStr) else without_logins(written)
        yield Shown(".".join(path), masked, written != defaults[path])


def without_logins(value: Any) -> Any:
    """A value of settings with the logins in addresses of feeds masked."""
    if isinstance(value, list):
        return [without_logins(each) for each in value]
    return (
        re.sub(r"(://(?:[^/?#:@]*:)?)[^/?#]*@", rf"\1{MASK}@", value)
        if isinstance(value, str)
        else value
    )

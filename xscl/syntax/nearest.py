"""Hints for misspelt names: the nearest known name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_SHOWN = 12

# Comparing names is slow, and a text with thousands of wrong names must be refused quickly.
_COMPARED = 200
_LONGEST = 60


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """`did you mean b?` for the nearest of the known names, None if none is near."""
    if len(name) > _LONGEST:
        return None
    names = [other for other in islice(known, _COMPARED) if len(other) <= _LONGEST]
    near = get_close_matches(name, names, 1)
    return f"did you mean {near[0]}?" if near else None


def known_names(name: str, known: Iterable[str], what: str, none: str) -> str:
    """A hint that names the nearest known name and lists all; `none` if there are none."""
    names = list(islice(known, _COMPARED))
    if not names:
        return none
    near = did_you_mean(name, names)
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{near + ' ' if near else ''}{what}: {shown}"

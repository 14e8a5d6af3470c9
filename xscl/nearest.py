"""The known name that was probably meant: hints for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 12


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """`did you mean b?` for the nearest of the known names, None where none is near."""
    near = get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else None


def known_names(name: str, known: Iterable[str], what: str, none: str) -> str:
    """A hint that lists the known names, the nearest first said; `none` where there are none."""
    names = list(dict.fromkeys(known))
    if not names:
        return none
    near = did_you_mean(name, names)
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{near + ' ' if near else ''}{what}: {shown}"

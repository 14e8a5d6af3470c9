"""Untrusted text, made safe for a terminal.

Ids of feeds and documents come from outside. Raw, a control character in one of them moves the
cursor, clears the screen, or begins a line that looks like another message; a character that turns
the direction of writing hides what is there. In: any text. Out: the same text with these written as
escapes.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_HIDDEN_IN_LINES = re.compile(_HIDDEN.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def visible(text: str) -> str:
    r"""One line, whatever is in the text: "a\x1b[2Jb\nc" has no line feed and no escape in it."""
    # `isprintable` is ten times as fast as the substitution, and false for all hidden characters.
    return text if text.isprintable() else _HIDDEN.sub(_escaped, text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines; tabs stay as well."""
    return _HIDDEN_IN_LINES.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")

"""Located diagnostics: the one form in which the language reports errors and warnings.

A `Diagnostic` is data (code, message, place, hint); `XsclError` carries one or several of them.
Rendering to text with a caret lives here too, so that the library and the command show the same.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

# Of a line with more than `_WIDEST` characters a part is shown, which begins `_LEAD` characters
# before the place of the error.
_WIDEST = 160
_LEAD = 60
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Source:
    """A named text: a query file, or a string handed to the library."""

    name: str
    text: str

    def locate(self, offset: int) -> tuple[int, int]:
        """Line and column, both counted from 1, of a character offset."""
        starts = _line_starts(self.text)
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        starts = _line_starts(self.text)
        if number > len(starts):
            return ""
        end = starts[number] - 1 if number < len(starts) else None
        return self.text[starts[number - 1] : end].rstrip("\r")


@lru_cache(maxsize=1)  # of a text there may be very many errors and warnings
def _line_starts(text: str) -> list[int]:
    """Where the lines of a text begin."""
    return [0, *(found.end() for found in re.finditer("\n", text))]


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` up to, not including, `end` of a source."""

    source: Source = field(repr=False)
    start: int
    end: int

    def to(self, other: Span) -> Span:
        return Span(self.source, self.start, other.end)

    @property
    def line(self) -> int:
        return self.source.locate(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.locate(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `severity` is "error" or "warning"; `also` are further places, with a label."""

    code: str
    message: str
    span: Span
    hint: str | None = None
    severity: str = "error"
    also: tuple[tuple[str, Span], ...] = ()

    def render(self) -> str:
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        lines += _excerpt(self.span)
        for label, span in self.also:
            lines.append(f"  {label}")
            lines += _excerpt(span)
        if self.hint:
            lines.append(f"  help: {self.hint}")
        return "\n".join(lines)


class XsclError(Exception):
    """The text is not a valid set of XSCL queries; `diagnostics` says where and why."""

    def __init__(self, diagnostics: Sequence[Diagnostic] | Diagnostic) -> None:
        if isinstance(diagnostics, Diagnostic):
            diagnostics = (diagnostics,)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))

    def __reduce__(self) -> tuple[type[XsclError], tuple[tuple[Diagnostic, ...]]]:
        # By default an exception is unpickled from its message, not from the diagnostics.
        return type(self), (self.diagnostics,)


def _excerpt(span: Span) -> list[str]:
    line, column = span.source.locate(span.start)
    text = span.source.line(line)
    start = column - 1
    end = max(start, min(start + span.end - span.start, len(text)))
    first, last = 0, len(text)
    if last > _WIDEST:
        first = max(0, start - _LEAD)
        last = min(last, first + _WIDEST)
        end = min(end, last)
    lead = ("…" if first else "") + _printable(text[first:start])
    shown = lead + _printable(text[start:last]) + ("…" if last < len(text) else "")
    gutter = " " * len(str(line))
    return [
        f"{gutter}--> {span.source.name}:{line}:{column}",
        f"{gutter} |",
        f"{line} | {shown}",
        f"{gutter} | {' ' * _cells(lead)}{'^' * max(1, _cells(text[start:end]))}",
    ]


def _printable(text: str) -> str:
    """The text with control characters replaced, character by character, so that columns stay."""
    return _CONTROL.sub("\ufffd", text.replace("\t", " "))


def _cells(text: str) -> int:
    """The width of a text in terminal columns: two for East Asian wide characters and emoji, none
    for combining marks (Unicode Standard Annex 11)."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )

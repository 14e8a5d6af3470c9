"""Located diagnostics: the one way in which the language says that something is wrong.

A `Diagnostic` is data (code, message, place, hint); `XsclError` carries one or several of them.
Rendering to text with a caret lives here too, so that the library and the command show the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """A named text: a query file, or a string handed to the library."""

    name: str
    text: str

    def locate(self, offset: int) -> tuple[int, int]:
        """Line and column, both counted from 1, of a character offset."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""


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
    """One finding. `severity` is "error" or "warning"; `also` names further places it is about."""

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


def _excerpt(span: Span) -> list[str]:
    line, column = span.source.locate(span.start)
    text = span.source.line(line)
    shown = text.replace("\t", " ")
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    if len(shown) > 160:
        first = max(0, column - 1 - 60)
        shown = shown[first : first + 160]
        column -= first
        width = max(1, min(width, 160 - column + 1))
    gutter = " " * len(str(line))
    return [
        f"{gutter}--> {span.source.name}:{line}:{span.column}",
        f"{gutter} |",
        f"{line} | {shown}",
        f"{gutter} | {' ' * (column - 1)}{'^' * width}",
    ]

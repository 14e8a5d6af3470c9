"""Matches on a terminal: under the first comment of their query, in colour, with titles as links.

    ● A story moves from one section of a newspaper to the next                 same-story
    │ Ferry terminal reopens
    │   Courier City, 2026-10-05 06:40 UTC
    │   https://courier.example/ferry
    │ Ferry terminal reopens
    │   Courier Business, 1 h 35 min later
    │ joined because link = next_link = "https://courier.example/ferry"

There are no colours if the terminal has none, or if NO_COLOR is set. The text format elsewhere than
on a terminal is that of `broker/text/people.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import TextIO
from zlib import crc32

from rich.console import Console
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

import xscl
from broker.model import Match
from broker.text.people import lines, others, reasons
from broker.text.printable import visible

_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "bright_red")
_NARROWEST = 20
_LONGEST = 200
_SHORTEST_HEADING = 3
"""The number of words before a colon that suffice as a heading."""


def headings(files: Iterable[xscl.ast.File]) -> dict[str, str]:
    """The first sentences of the comments directly above queries, by the queries' names."""
    found = {}
    for file in files:
        for query in file.statements:
            name = isinstance(query, xscl.ast.Query) and (query.label or query.publish)
            if isinstance(query, xscl.ast.Query) and name:
                start = query.label_span or query.span
                above = query.span.source.text[: min(start.start, query.span.start)]
                if sentence := _sentence(above):
                    found[name] = sentence
    return found


def _sentence(above: str) -> str:
    """The beginning of the comment at the end of a text: up to the end of its first sentence, or to
    a colon that precedes an explanation."""
    *before, last = above.split("\n")
    if last.strip():  # the query does not begin its line
        return ""
    comments = [*takewhile(lambda line: line.lstrip().startswith("--"), reversed(before))]
    words = " ".join(line.strip().lstrip("-").strip() for line in reversed(comments))
    sentence = words.partition(". ")[0].rstrip(".:")
    lead = sentence.partition(": ")[0]
    if len(lead.split()) >= _SHORTEST_HEADING:
        sentence = lead
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1] + "…"


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal with colours and cursor movement."""
    return stream.isatty() and not Console(file=stream).is_dumb_terminal


class Screen:
    """Renders matches for a terminal as standard output."""

    def __init__(self, headings: Mapping[str, str]) -> None:
        self._headings = headings
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
        encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
        self._bullet, self._gutter = ("●", "│") if encoding.startswith("utf") else ("*", "|")

    def __call__(self, match: Match) -> str:
        colour = colour_of(match.query)
        with self._console.capture() as captured:
            for line in self._lines(match, colour):
                self._console.print(line, end="")
        return captured.get()

    def _lines(self, match: Match, colour: str) -> Iterator[Segments]:
        console = self._console
        width = max(_NARROWEST, console.width) - 2
        options = console.options.update(width=width, no_wrap=False, overflow="fold")
        mark = self._bullet
        for text in [self._head(match, colour, width), *_body(match, width)]:
            for segments in console.render_lines(text, options, pad=False):
                yield Segments([Segment(f"{mark} ", Style.parse(colour)), *segments])
                mark = self._gutter

    def _head(self, match: Match, colour: str, width: int) -> Text:
        """The heading, with the name of the query at the end of the line if there is room."""
        heading = self._headings.get(match.query)
        head = Text(visible(heading or match.query), style=f"bold {colour}")
        name = visible(match.query if heading else "")
        if match.stream:
            name = f"{name} -> {visible(match.stream)}".strip()
        if name:
            room = width - head.cell_len - len(name)
            head.append(" " * room if room > 1 else "  ")
            head.append(name, style="not bold dim default")
        return head


class Segments:
    """A rendered line."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments

    def __rich_console__(self, *_: object) -> Iterator[Segment]:
        yield from self._segments
        yield Segment.line()


def colour_of(query: str) -> str:
    """The colour of a query, which depends on its name only."""
    return _COLOURS[crc32(query.encode("utf-8", "replace")) % len(_COLOURS)]


def _body(match: Match, width: int) -> Iterator[Text | Padding]:
    last_link = None
    for line in lines(match):
        link = f" link {line.link}" if line.link else ""
        yield Text(visible(line.title), style=f"bold{link}")
        yield _indented(Text(visible(f"{line.feed}, {line.when}"), style="dim"))
        if line.link not in (None, last_link, line.title):
            yield _indented(Text(visible(line.link or ""), style=f"blue{link}"))
            last_link = line.link
    for n, (names, value) in enumerate(reasons(match)):
        because = Text("           and " if n else "joined because ", style="dim")
        because.append(visible(f"{names} = "), style="not dim")
        shared = Text(visible(value), style="green")
        if because.cell_len + shared.cell_len <= width:
            yield because.append_text(shared)
        else:
            because.rstrip()
            yield because
            yield _indented(shared)
    for name, texts in others(match):
        yield Text(visible(f"{name}: "), style="dim").append(visible(texts), style="not dim")


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2))

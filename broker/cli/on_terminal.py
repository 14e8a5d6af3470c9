"""Matches as a terminal shows them: under what the query says of itself, in colour, with titles
that are links.

    ● A story moves from one section of a newspaper to the next                 same-story
    │ Ferry terminal reopens
    │   Courier City, 2026-10-05 06:40 UTC
    │   https://courier.example/ferry
    │ Ferry terminal reopens
    │   Courier Business, 1 h 35 min later
    │ joined because link = next_link = "https://courier.example/ferry"

Where colours are not wanted (NO_COLOR) or not possible there are none. Elsewhere than on a terminal
matches in text are those of `broker/text/people.py`.
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
_CLAIM = 3
"""Words before a colon that say something by themselves."""


def headings(files: Iterable[xscl.ast.File]) -> dict[str, str]:
    """What the comments right above queries say, its first sentence, by the queries' names."""
    found = {}
    for file in files:
        for query in file.statements:
            name = isinstance(query, xscl.ast.Query) and (query.label or query.publish)
            if isinstance(query, xscl.ast.Query) and name:
                start = query.label_span or query.span
                above = query.span.source.text[: min(start.start, query.span.start)]
                if said := _sentence(above):
                    found[name] = said
    return found


def _sentence(above: str) -> str:
    """What the comment at the end of a text says first: up to the end of a sentence, or to a
    colon behind which it is explained."""
    *before, last = above.split("\n")
    if last.strip():  # the query does not begin its line
        return ""
    comments = [*takewhile(lambda line: line.lstrip().startswith("--"), reversed(before))]
    words = " ".join(line.strip().lstrip("-").strip() for line in reversed(comments))
    sentence = words.partition(". ")[0].rstrip(".:")
    claim = sentence.partition(": ")[0]
    if len(claim.split()) >= _CLAIM:
        sentence = claim
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1] + "…"


def is_terminal(stream: TextIO) -> bool:
    """Whether it is a terminal that can show more than plain lines."""
    return stream.isatty() and not Console(file=stream).is_dumb_terminal


class Screen:
    """Renders matches for the terminal that standard output is."""

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
        said = self._headings.get(match.query)
        head = Text(visible(said or match.query), style=f"bold {colour}")
        name = visible(match.query if said else "")
        if match.stream:
            name = f"{name} -> {visible(match.stream)}".strip()
        if name:
            room = width - head.cell_len - len(name)
            head.append(" " * room if room > 1 else "  ")
            head.append(name, style="not bold dim default")
        return head


class Segments:
    """A line that is rendered already."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments

    def __rich_console__(self, *_: object) -> Iterator[Segment]:
        yield from self._segments
        yield Segment.line()


def colour_of(query: str) -> str:
    """The same for the same query, today and tomorrow."""
    return _COLOURS[crc32(query.encode("utf-8", "replace")) % len(_COLOURS)]


def _body(match: Match, width: int) -> Iterator[Text | Padding]:
    known = None
    for each in lines(match):
        link = f" link {each.link}" if each.link else ""
        yield Text(visible(each.title), style=f"bold{link}")
        yield _indented(Text(visible(f"{each.feed}, {each.when}"), style="dim"))
        if each.link not in (None, known, each.title):
            yield _indented(Text(visible(each.link or ""), style=f"blue{link}"))
            known = each.link
    for n, (names, value) in enumerate(reasons(match)):
        because = Text("           and " if n else "joined because ", style="dim")
        because.append(visible(f"{names} = "), style="not dim")
        said = Text(visible(value), style="green")
        if because.cell_len + said.cell_len <= width:
            yield because.append_text(said)
        else:
            because.rstrip()
            yield because
            yield _indented(said)
    for name, texts in others(match):
        yield Text(visible(f"{name}: "), style="dim").append(visible(texts), style="not dim")


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2))

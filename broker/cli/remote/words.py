"""What may come next in a query that is typed: keywords, functions, and the streams, paths and
values that documents have.

In: the text before the cursor, and what is known of streams. Out: where the word begins, and words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from broker.cli.remote.known_streams import KnownStreams
from broker.cli.shared import Failed
from xscl.functions.table import FUNCTIONS
from xscl.syntax.printer import quoted

KEYWORDS = (
    *("SELECT", "FROM", "JOIN", "FOLLOWED BY", "NEXT", "FOLD", "NOT", "OR", "AND", "WHERE"),
    *("WITHIN", "PARTITION BY", "USING", "WAIT", "GROUP BY", "OVER", "HAVING", "PUBLISH", "AS"),
    *("INFINITY", "LET", "LET NAMESPACE", "SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH"),
)
COMMANDS = (".help", ".streams", ".why", ".explain", ".quit")

_VALUES = 20
_STRING = re.compile(r"""([@\w./:-]+)\s*(?:=|!=|,)\s*(?P<quote>['"])(?P<begun>[^'"]*)$""")
_PATH = re.compile(r"(?P<before>[@\w./:*-]*/)(?P<begun>@?[\w.-]*)$")
_BLOCK = re.compile(
    r"(?P<stream>[A-Za-z_][\w.-]*)?//?(?P<path>[\w./:*-]+)(?:->[\w']+)?(?=[\[\s]|$)"
)
_WORD = re.compile(r"(?P<begun>\.?[\w-]*)$")


@dataclass(frozen=True, slots=True)
class Word:
    """`text` replaces the `begun` characters before the cursor; `note` says what it is."""

    text: str
    begun: int
    note: str


@dataclass(slots=True)
class Words:
    """Completes words; what is known of a stream is asked for once. `forget` after each query."""

    streams: KnownStreams
    _names: list[str] | None = None
    _known: dict[str, dict[str, Any] | None] = field(default_factory=dict)

    def forget(self) -> None:
        """Ask again what is known: documents may have come."""
        self._names = None
        self._known.clear()

    def complete(self, text: str) -> list[Word]:
        """The words that may go on here; none if nothing is known."""
        string = _STRING.search(text)
        if string is not None:
            return [*self._values(text, string)]
        if text.count("'") % 2 or text.count('"') % 2:
            return []
        path = _PATH.search(text)
        if path is not None:
            return [*self._paths(text, path)]
        found = _WORD.search(text)
        begun = found["begun"] if found else ""
        if text.lstrip().startswith(".") and len(text.split()) <= 1:
            return [Word(c, len(begun), "command") for c in COMMANDS if c.startswith(begun)]
        return [*self._words(begun)] if begun else []

    def _words(self, begun: str) -> Iterator[Word]:
        low = begun.lower()
        for name in self.names():
            if name.lower().startswith(low):
                yield Word(f"{name}//", len(begun), "stream")
        for word in KEYWORDS:
            if word.lower().startswith(low):
                yield Word(word, len(begun), "")
        for name in FUNCTIONS:
            if name.startswith(low):
                yield Word(f"{name}(", len(begun), "function")

    def names(self) -> list[str]:
        """The streams that have documents."""
        if self._names is None:
            try:
                found = [each["name"] for each in self.streams.all()]
            except Failed:
                found = []
            self._names = [name for name in found if not name.startswith("~")]
        return self._names

    def _paths(self, text: str, found: re.Match[str]) -> Iterator[Word]:
        """The elements and attributes that may follow a slash."""
        before, begun = found["before"], found["begun"]
        stream, steps = self._context(text[: found.start()], before)
        known = self._stream(stream)
        paths = [] if known is None else known["paths"]
        counts: dict[str, int] = {}
        for each in paths:
            parts = each["path"].strip("/").split("/")
            for name in _following(parts, steps, before.endswith("//")):
                counts[name] = max(counts.get(name, 0), each["documents"])
        for name in sorted(counts, key=lambda name: (-counts[name], name)):
            if name.lower().startswith(begun.lower()):
                yield Word(name, len(begun), f"{counts[name]:,} documents")

    def _context(self, text: str, before: str) -> tuple[str, list[str]]:
        """The stream, and the steps before the last slash."""
        own = [step for step in re.split("/+", before) if step not in ("", ".")]
        absolute = not before.startswith((".", "/"))
        if absolute and own and re.match(r"[A-Za-z_]", before):
            return own[0], own[1:]
        blocks = [*_BLOCK.finditer(text)]
        if not blocks:
            return "S", own
        last = blocks[-1]
        above = [step for step in re.split("/+", last["path"]) if step]
        return last["stream"] or "S", [*above[-1:], *own]

    def _values(self, text: str, found: re.Match[str]) -> Iterator[Word]:
        """Values that documents have at the path before the string."""
        name = re.split("/+", found[1])[-1]
        stream, _ = self._context(text[: found.start()], "./")
        known = self._stream(stream)
        begun = found["begun"]
        for each in [] if known is None else known["paths"]:
            if each["path"].rpartition("/")[2] == name:
                for value in each["values"]:
                    if value["value"].lower().startswith(begun.lower()):
                        yield Word(_inside(value["value"], found["quote"]), len(begun), name)

    def _stream(self, name: str) -> dict[str, Any] | None:
        if name not in self._known:
            try:
                self._known[name] = self.streams.get(name, _VALUES)
            except Failed:
                self._known[name] = None
        return self._known[name]


def _inside(value: str, quote: str) -> str:
    """A value as the rest of a string that begins with this quotation mark."""
    whole = quoted(value)
    return whole[1:] if whole[0] == quote else value


def _following(parts: list[str], steps: list[str], deep: bool) -> Iterator[str]:
    """The names on a label path that may follow steps."""
    for at in range(len(parts)):
        if not steps or (at and parts[at - 1] == steps[-1].rpartition(":")[2]):
            yield from parts[at:] if deep else parts[at : at + 1]
            if not deep and not steps:
                return

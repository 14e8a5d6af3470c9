"""Reads a case from its files: queries, documents, and expected matches (see README.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import xscl
from broker.model import to_microseconds
from tests.oracle.oracle import Arrival
from xscl.check.patterns import holds_pattern

HERE = Path(__file__).parent
SECOND = 1_000_000
FOREVER = 36_500 * 24 * 3600
"""Seconds: the lateness of a case that says none."""

FIELDS = {
    "why",
    "matches",
    "values",
    "intervals",
    "results",
    "lateness",
    "registered",
    "published",
    "undecided",
    "late",
    "dropped",
    "warnings",
    "error",
}
_OF_MATCHES = ("values", "intervals", "results")
_HEAD = re.compile(r"(\S+)\s+(\S+)\s+(-?[\d.]+|\d{4}-\S+)\s+(?:(revision)\s+)?(<.*)", re.DOTALL)


class BadCase(ValueError):
    """A file of a case cannot be read; the message names it and the line."""


@dataclass(frozen=True)
class CaseFiles:
    """The folder of a case. Raises `BadCase`."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def query(self) -> str:
        return (self.folder / "query.xscl").read_text(encoding="utf-8")

    @cached_property
    def program(self) -> xscl.Program:
        """The checked queries. Raises `XsclError`."""
        return xscl.check([xscl.parse(self.query, str(self.folder / "query.xscl"))])

    @property
    def is_pattern(self) -> bool:
        """Whether one of the queries is an event pattern."""
        return any(holds_pattern(query.query) for query in self.program.queries)

    @cached_property
    def documents(self) -> tuple[Arrival, ...]:
        """In order of arrival."""
        path = self.folder / "documents.txt"
        if not path.exists():
            return ()
        return tuple(_documents(path))

    @cached_property
    def expected(self) -> dict[str, Any]:
        path = self.folder / "expected.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise BadCase(f"{path}: {error}") from None
        unknown = found.keys() - FIELDS
        if unknown or not ("matches" in found or "error" in found):
            raise BadCase(f"{path}: a case has matches or an error, and no {sorted(unknown)}")
        return found

    @property
    def lateness(self) -> int:
        """In microseconds."""
        seconds: float = self.expected.get("lateness", FOREVER)
        return round(seconds * SECOND)

    @property
    def asked(self) -> list[str]:
        """The ids of the queries whose matches are given: the last one, unless they are named."""
        matches = self.expected.get("matches", [])
        return list(matches) if isinstance(matches, dict) else [self.program.queries[-1].id]

    def given(self, name: str) -> dict[str, list[Any]]:
        """A field that goes with matches, by query."""
        found = self.expected[name]
        return found if isinstance(found, dict) else {self.asked[0]: found}

    @property
    def facets(self) -> tuple[str, ...]:
        """What is given of each match beside its documents."""
        return tuple(name for name in _OF_MATCHES if name in self.expected)

    @property
    def may_be_shuffled(self) -> bool:
        """Whether the order of arrival may change what comes of it: by what is not a match."""
        told = self.expected.keys() & {"registered", "late", "dropped"}
        return not told and not any(document.revision for document in self.documents)


def cases() -> list[CaseFiles]:
    return [CaseFiles(path.parent) for path in sorted(HERE.glob("*/query.xscl"))]


def _documents(path: Path) -> Iterator[Arrival]:
    for number, text in _entries(path):
        found = _HEAD.fullmatch(text)
        if found is None:
            raise BadCase(
                f"{path}:{number}: a document is an id, its streams, its time (seconds, or a date "
                "as 2026-10-05T09:00:00), perhaps the word revision, and XML"
            )
        id, streams, seconds, revision, xml = found.groups()
        at = microseconds(seconds)
        yield Arrival(id, tuple(streams.split(",")), at, xml, revision=revision is not None)


def microseconds(time: str) -> int:
    """Of a number of seconds, or a date in UTC."""
    return to_microseconds(datetime.fromisoformat(time) if "T" in time else float(time))


def _entries(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of each document, with the number of the first."""
    entry: list[str] = []
    first = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if entry and line.startswith((" ", "\t")):
            entry.append(line)
        elif line.strip() and not line.startswith("#"):
            if entry:
                yield first, "\n".join(entry)
            entry, first = [line], number
    if entry:
        yield first, "\n".join(entry)

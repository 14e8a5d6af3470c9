"""What the match relations say of a document: its row, its interval, its identity, its versions."""

from __future__ import annotations

from typing import NamedTuple


class StoredDocument(NamedTuple):
    """An admitted document, as a row of the table `documents`.

    `doc` is its number, `base` that of the oldest document that it is made of: its own, unless it
    is the result of a match. `key` is a hash of `source` and `id`, which identify it; `start` and
    `end` are its interval in microseconds; `dated`: it is the document's own, not its arrival's. A
    revision that flows as a document of its own has a `version`, counted from 1.
    """

    doc: int
    base: int
    key: int
    source: str
    id: str
    streams: tuple[str, ...]
    start: int
    end: int
    dated: bool
    xml: bytes
    version: int = 0

    @property
    def identity(self) -> tuple[str | int, ...]:
        """Its source and id, and which version it is if it is a revision that flows by itself."""
        return (self.source, self.id, self.version) if self.version else (self.source, self.id)


class Interval(NamedTuple):
    """The number of the oldest document that a document is made of, and its interval."""

    base: int
    start: int
    end: int


class Identity(NamedTuple):
    """A document's source and id, and the hash of both."""

    key: int
    source: str
    id: str


class Newest(NamedTuple):
    """The newest version of a document: its number, its revision number, and, if requested, its
    time and bytes if they are still stored."""

    doc: int
    version: int
    said: tuple[int, bytes] | None

"""What the local pipeline reads: XML files, JSON lines and the spool of feeds.

In: places. Out: rows of documents, a batch each time, and how far it was read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from broker.sources.documents import XmlFiles, file_rows
from broker.sources.jsonlines import JsonFiles, Offset, stretch_rows
from feeds.rows import DocumentRow
from feeds.spool import SpoolError, last_seq, read_rows

_ROWS = 2_000
_BYTES = 8 << 20
"""The rows of a batch, and about how many bytes they have, at most."""


class Source(Protocol):
    """What is read from one place. `key` names the place, for the positions that are kept; `poll`
    is the time in seconds between two looks for something new."""

    key: str
    poll: float

    def resume(self, position: Any) -> None:
        """Go on behind what was read before: called for each position that was kept, in order."""

    def stop_growing(self) -> None:
        """What is there now is all that is ever read."""

    def read(self) -> tuple[list[DocumentRow], Any]:
        """The next rows, and a position as JSON that says they were read; none if nothing is
        new."""


class XmlFolder:
    """The `*.xml` files at or below a directory as they appear, or one file. A file that changes
    after it was read is not read again; names that begin with a dot or an underscore are left
    out."""

    poll = 1.0

    def __init__(self, files: XmlFiles) -> None:
        self.key = f"xml {files.root} {files.split or ''}"
        self._files = files
        self._seen: set[str] = set()
        self._available: set[str] | None = None

    def resume(self, position: list[str]) -> None:
        self._seen.update(position)

    def stop_growing(self) -> None:
        self._available = {path for path, _ in _xml_files(self._files.root)}

    def read(self) -> tuple[list[DocumentRow], list[str]]:
        found = []
        for path, status in _xml_files(self._files.root):
            known = path in self._seen
            if not known and (self._available is None or path in self._available):
                # Milliseconds, as Spark has them: the time of a document is the same both ways.
                found.append((status.st_mtime_ns // 1_000_000 * 1_000, path, status.st_size))
        rows: list[DocumentRow] = []
        taken: list[str] = []
        size = 0
        for modified, path, length in sorted(found):
            if taken and (size + length > _BYTES or len(rows) >= _ROWS):
                break
            rows += file_rows(self._files, path, modified)
            size += length
            taken.append(path)
        self._seen.update(taken)
        return rows, taken


def _xml_files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files with their status, but for those that have gone meanwhile, or are links to nothing.
    Raises OSError for a directory that cannot be listed."""
    if not os.path.isdir(root):
        with suppress(FileNotFoundError):
            yield root, os.stat(root)
        return
    entries: list[os.DirEntry[str]] = []
    with suppress(FileNotFoundError), os.scandir(root) as listed:
        entries.extend(listed)
    for entry in entries:
        if entry.name[0] in "._":
            continue
        if os.path.isdir(entry.path):
            yield from _xml_files(entry.path)
        elif entry.name.endswith(".xml") and os.path.exists(entry.path):
            with suppress(FileNotFoundError):
                yield entry.path, entry.stat()


class JsonLines:
    """The lines of a `.jsonl` file, or of all in a directory, also those appended later; at most
    `rows` in a batch."""

    poll = 0.2

    def __init__(self, path: Path, rows: int = _ROWS) -> None:
        self.key = f"json {path}"
        self._files = JsonFiles(path, rows, _BYTES)
        self._read: Offset = {}

    def resume(self, position: Offset) -> None:
        self._read = position

    def stop_growing(self) -> None:
        self._files.stop_growing()

    def read(self) -> tuple[list[DocumentRow], Offset]:
        latest = self._files.latest(self._read)
        parts = self._files.stretches(self._read, latest)
        rows = list(chain.from_iterable(stretch_rows(part) for part in parts))
        self._read = latest
        return rows, latest if parts else {}


class Spooled:
    """The rows of a spool behind number `position`, the last one that the engine has applied.

    Raises SpoolError where the spool ends before that: it is another one.
    """

    poll = 0.2

    def __init__(self, path: Path, position: int) -> None:
        self.key = f"feeds {path}"
        self._path = path
        self._position = position
        self._last: int | None = None
        if (last := last_seq(path)) < position:
            raise SpoolError(
                f"spool: {path} ends at {last}, but {position} was read from it before: the file "
                "was replaced. Restore it, or start with a new state"
            )

    def resume(self, position: object) -> None:
        """The engine knows how far it was read."""

    def stop_growing(self) -> None:
        self._last = last_seq(self._path)

    def read(self) -> tuple[list[DocumentRow], None]:
        rows: list[DocumentRow] = []
        size = 0
        for row in read_rows(self._path, self._position, self._last or 2**62):
            rows.append(row)
            size += len(row.xml)
            if len(rows) >= _ROWS or size >= _BYTES:
                break
        if rows:
            self._position = rows[-1].seq or 0
        return rows, None

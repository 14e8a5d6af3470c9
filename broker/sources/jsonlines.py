"""JSON lines: files that are read as they grow, line by line.

In: a file, or a directory of `*.jsonl`. Out: stretches of lines, and of each its rows of schema
`documents.SOURCED`. The offset says of every file how many bytes and lines have been read: a batch
ends after so many lines or bytes, and a line appended later is a document like any other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from broker.sources.documents import JsonLine, json_row
from feeds.rows import DocumentRow

SUFFIX = ".jsonl"
BATCH_LINES = 10_000
BATCH_BYTES = 32 << 20
LINE_BYTES = 128 << 20
"""A longer line is cut, and its pieces become rows with an error."""

_CHUNK = 1 << 20
"""Bytes of a file that are read at a time."""

Offset = dict[str, dict[str, int]]
"""File name -> {"bytes": read so far, "lines": in them, "inode": of the file that was read}."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it is now. `modified` in microseconds."""

    name: str
    size: int
    modified: int
    inode: int

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> Found:
        return cls(name, status.st_size, status.st_mtime_ns // 1_000, status.st_ino)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines of one file: bytes `start` to `end`, the first of which is in line `line`. `modified`
    is the file's time in microseconds."""

    path: str
    start: int
    end: int
    line: int
    modified: int


class JsonFiles:
    """The file at `path`, or the files of the directory. A batch takes so many `lines`, and about
    so many bytes (`size`), at most. A line of more than `longest` bytes is cut; `chunk` bytes are
    read at a time."""

    def __init__(
        self,
        path: Path,
        lines: int = BATCH_LINES,
        size: int = BATCH_BYTES,
        *,
        longest: int = LINE_BYTES,
        chunk: int = _CHUNK,
    ) -> None:
        self.path = path
        self._lines = max(1, lines)
        self._size = max(1, size)
        self._longest = longest
        self._chunk = chunk
        self._available: dict[str, int] | None = None

    def stop_growing(self) -> None:
        """What is there now is all that is ever read."""
        self._available = {file.name: file.size for file in files_at(self.path)}

    def latest(self, start: Offset) -> Offset:
        """`start`, and as many more lines as a batch takes. Files are read oldest first."""
        latest: Offset = {}
        lines, size = self._lines, self._size
        for file in files_at(self.path):
            length = file.size
            if self._available is not None:
                length = min(length, self._available.get(file.name, 0))
            now = {"bytes": length, "inode": file.inode}
            done = _read_before(start.get(file.name), now)
            if lines > 0 and size > 0 and length > done["bytes"]:
                path = _inside(self.path, file.name)
                end, count = self._advance(path, done["bytes"], length, lines, size)
                lines, size = lines - count, size - (end - done["bytes"])
                done = {"bytes": end, "lines": done["lines"] + count}
            if done["bytes"]:
                latest[file.name] = {**done, "inode": file.inode}
        return latest

    def stretches(self, start: Offset, end: Offset) -> list[Stretch]:
        """The lines between two offsets, a stretch for each file."""
        modified = {file.name: file.modified for file in files_at(self.path)}
        found = []
        for name, upto in end.items():
            done = _read_before(start.get(name), upto)
            if upto["bytes"] > done["bytes"] and name in modified:
                path = str(_inside(self.path, name))
                found.append(
                    Stretch(path, done["bytes"], upto["bytes"], done["lines"] + 1, modified[name])
                )
        return found

    def _advance(
        self, file: Path, start: int, length: int, lines: int, size: int
    ) -> tuple[int, int]:
        """How far a batch of at most `lines` and about `size` bytes gets: end and number of
        newlines.

        At least one line, however long. A last line without its newline counts if it is whole; else
        it is still being written, or was torn and is written on later.
        """
        end, count, position = start, 0, start
        with file.open("rb") as stream:
            stream.seek(start)
            while position < length and count < lines and (end == start or position - start < size):
                chunk = stream.read(min(self._chunk, length - position))
                if not chunk:
                    break
                newline = chunk.find(b"\n")
                while newline != -1 and count < lines:
                    end, count = position + newline + 1, count + 1
                    newline = chunk.find(b"\n", newline + 1)
                position += len(chunk)
                if end == start and position - start >= self._longest:
                    return position, 1
            at_end = position >= length and end < length and count < lines
            if at_end and _whole(stream, end, length, self._longest):
                # Not a line yet for counting: its newline comes with what is appended.
                return length, count
        return end, count


def files_at(path: Path) -> list[Found]:
    """The file, or the files of the directory, oldest first; none for a file to come."""
    try:
        if not path.is_dir():
            return [Found.of(path.name, path.stat())]
        with os.scandir(path) as entries:
            found = [
                Found.of(entry.name, entry.stat())
                for entry in entries
                if entry.name.endswith(SUFFIX) and entry.name[0] not in "._" and entry.is_file()
            ]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda file: (file.modified, file.name))


def unfinished(path: Path) -> list[Path]:
    """The files whose last line has no newline and is not whole, so that it was not read."""
    return [
        file
        for file in (_inside(path, found.name) for found in files_at(path) if found.size)
        if not _last_line_is_whole(file)
    ]


def _last_line_is_whole(file: Path) -> bool:
    with file.open("rb") as stream:
        length = end = stream.seek(0, os.SEEK_END)
        while end > 0 and length - end < LINE_BYTES:
            begin = max(0, end - _CHUNK)
            stream.seek(begin)
            newline = stream.read(end - begin).rfind(b"\n")
            end = begin
            if newline >= 0:
                end += newline + 1
                break
        return _whole(stream, end, length, LINE_BYTES)


def _inside(path: Path, name: str) -> Path:
    return path / name if path.is_dir() else path


def _read_before(done: dict[str, int] | None, now: dict[str, int]) -> dict[str, int]:
    """How far a file was read: not at all if another one now has its name (it was rotated)."""
    if done is None or now["bytes"] < done["bytes"]:
        return {"bytes": 0, "lines": 0}
    if done.get("inode", now.get("inode")) != now.get("inode"):
        return {"bytes": 0, "lines": 0}
    return {"bytes": done["bytes"], "lines": done["lines"]}


def _whole(stream: BinaryIO, start: int, end: int, longest: int) -> bool:
    """Whether these bytes are a JSON object, which nothing that is appended makes another one, or
    as many as a line may have."""
    if end - start >= longest:
        return True
    stream.seek(start)
    text = stream.read(end - start).strip()
    if not text.endswith(b"}"):
        return not text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def cut(part: Stretch, size: int) -> Iterator[Stretch]:
    """The stretch in pieces of about so many bytes, cut at newlines."""
    start, line = part.start, part.line
    with Path(part.path).open("rb") as file:
        while part.end - start > size:
            file.seek(start)
            lines = file.read(size).count(b"\n")
            rest = file.readline(part.end - start - size)
            end = start + size + len(rest)
            yield Stretch(part.path, start, end, line, part.modified)
            start, line = end, line + lines + rest.count(b"\n")
    if start < part.end:
        yield Stretch(part.path, start, part.end, line, part.modified)


def stretch_rows(part: Stretch, longest: int = LINE_BYTES) -> Iterator[DocumentRow]:
    """The rows of a stretch of lines. A line of more than `longest` bytes is cut."""
    position, number = part.start, part.line
    with Path(part.path).open("rb") as file:
        file.seek(part.start)
        while position < part.end:
            line = file.readline(min(part.end - position, longest))
            if not line:
                return  # the file has shrunk since
            position += len(line)
            row = json_row(line.rstrip(b"\r\n"), JsonLine(part.path, number, part.modified))
            if row is not None:
                yield row
            number += 1

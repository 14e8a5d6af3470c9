"""A Spark source of JSON lines: files that are read as they grow, line by line.

In: a file, or a directory of `*.jsonl`, on a file system that all executors see. Out: rows of
schema `documents.SOURCED`. The offset says of every file how many bytes and lines have been read.

Why not Spark's own text source: it takes a file whole, in one micro-batch that must fit the
driver's memory, never looks at it again, and does not know the numbers of lines. Here a batch ends
after so many lines or bytes, and a line appended later is a document like any other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from broker.spark.documents import SOURCED, JsonLine, json_row, record_batches
from broker.spark.worker import settle
from feeds.rows import DocumentRow

FORMAT = "json_documents"
SUFFIX = ".jsonl"
BATCH_LINES = 10_000
BATCH_BYTES = 32 << 20
LINE_BYTES = 128 << 20
"""A longer line is cut, and its pieces become rows with an error."""

TASK_BYTES = 1 << 16
"""Less than this is not worth a second task."""

_CHUNK = 1 << 20

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


@dataclass(slots=True)
class Stretch(InputPartition):
    """Lines of one file: bytes `start` to `end`, the first of which is in line `line`."""

    path: str
    start: int
    end: int
    line: int
    modified: int


class JsonDocuments(DataSource):
    """`spark.readStream.format("json_documents")`.

    Options: `path`; `partitions`, tasks per batch (default 2); `lines` and `bytes`, the most that a
    batch takes.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(SOURCED)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return JsonReader(
            Path(self.options["path"]),
            int(self.options.get("partitions", 2)),
            int(self.options.get("lines", BATCH_LINES)),
            int(self.options.get("bytes", BATCH_BYTES)),
        )


class JsonReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches beside the driver and reads them on the executors."""

    def __init__(
        self, path: Path, partitions: int, lines: int, size: int, *, least: int = TASK_BYTES
    ) -> None:
        self.path = path
        self.tasks = max(1, partitions)
        self.lines = max(1, lines)
        self.size = max(1, size)
        self.least = least
        self.available: dict[str, int] | None = None

    # -- beside the driver -----------------------------------------------------------------------

    def initialOffset(self) -> Offset:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that this run reads."""
        self.available = {file.name: file.size for file in self._files()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """`start`, and as many more lines as a batch takes. Files are read oldest first."""
        latest: Offset = {}
        lines, size = self.lines, self.size
        for file in self._files():
            length = file.size
            if self.available is not None:
                length = min(length, self.available.get(file.name, 0))
            now = {"bytes": length, "inode": file.inode}
            done = _read_before(start.get(file.name), now)
            if lines > 0 and size > 0 and length > done["bytes"]:
                path = _inside(self.path, file.name)
                end, count = _advance(path, done["bytes"], length, lines, size)
                lines, size = lines - count, size - (end - done["bytes"])
                done = {"bytes": end, "lines": done["lines"] + count}
            if done["bytes"]:
                latest[file.name] = {**done, "inode": file.inode}
        return latest

    def _files(self) -> list[Found]:
        return files_at(self.path)

    def partitions(self, start: Offset, end: Offset) -> list[Stretch]:
        """The stretches of a batch, cut at newlines into about as many as there are tasks."""
        whole = []
        modified = {file.name: file.modified for file in self._files()}
        for name, upto in end.items():
            done = _read_before(start.get(name), upto)
            if upto["bytes"] > done["bytes"] and name in modified:
                path = str(_inside(self.path, name))
                whole.append(
                    Stretch(path, done["bytes"], upto["bytes"], done["lines"] + 1, modified[name])
                )
        total = sum(part.end - part.start for part in whole)
        return [
            piece
            for part in whole
            for piece in _cut(part, max(self.least, -(-total // self.tasks)))
        ]

    # -- on the executors ------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Stretch)
        settle()
        schema = to_arrow_schema(from_arrow_schema(SOURCED), timezone="UTC")
        for batch in record_batches(stretch_rows(partition)):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


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
        return _whole(stream, end, length)


def _inside(path: Path, name: str) -> Path:
    return path / name if path.is_dir() else path


def _read_before(done: dict[str, int] | None, now: dict[str, int]) -> dict[str, int]:
    """How far a file was read: not at all if another one now has its name (it was rotated)."""
    if done is None or now["bytes"] < done["bytes"]:
        return {"bytes": 0, "lines": 0}
    if done.get("inode", now.get("inode")) != now.get("inode"):
        return {"bytes": 0, "lines": 0}
    return {"bytes": done["bytes"], "lines": done["lines"]}


def _advance(file: Path, start: int, length: int, lines: int, size: int) -> tuple[int, int]:
    """How far a batch of at most `lines` and about `size` bytes gets: end and number of newlines.

    At least one line, however long. A last line without its newline counts if it is whole; else it
    is still being written, or was torn and is written on later.
    """
    end, count, position = start, 0, start
    with file.open("rb") as stream:
        stream.seek(start)
        while position < length and count < lines and (end == start or position - start < size):
            chunk = stream.read(min(_CHUNK, length - position))
            if not chunk:
                break
            newline = chunk.find(b"\n")
            while newline != -1 and count < lines:
                end, count = position + newline + 1, count + 1
                newline = chunk.find(b"\n", newline + 1)
            position += len(chunk)
            if end == start and position - start >= LINE_BYTES:
                return position, 1
        if position >= length and end < length and count < lines and _whole(stream, end, length):
            # Not a line yet for counting: its newline comes with what is appended.
            return length, count
    return end, count


def _whole(stream: BinaryIO, start: int, end: int) -> bool:
    """Whether these bytes are a JSON object: nothing that is appended makes another one of it."""
    if end - start >= LINE_BYTES:
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


def _cut(part: Stretch, size: int) -> Iterator[Stretch]:
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


def stretch_rows(part: Stretch) -> Iterator[DocumentRow]:
    """The rows of a stretch of lines."""
    position, number = part.start, part.line
    with Path(part.path).open("rb") as file:
        file.seek(part.start)
        while position < part.end:
            line = file.readline(min(part.end - position, LINE_BYTES))
            if not line:
                return  # the file has shrunk since
            position += len(line)
            row = json_row(line.rstrip(b"\r\n"), JsonLine(part.path, number, part.modified))
            if row is not None:
                yield row
            number += 1


def register(session: Any) -> None:
    """Make `FORMAT` known to a session."""
    session.dataSource.register(JsonDocuments)

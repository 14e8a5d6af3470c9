"""The files of a cluster, in a directory that all its machines see.

    epochs/00000002          one for each coordinator that ever began; only the last may write
    routing.json             by what routes, and for how many shards, the segments were divided
    queries/N.E.A            the queries of the shards, whole or what has changed, see `Change`
    batches/N.E.A.rows       witness rows: a record batch for each step and shard
    batches/N.E.A.documents  the documents of these, a record batch for each step

N is the number of the batch, E the epoch, A the attempt. A segment counts if N is committed in the
coordinator's state and no other of that number is newer. Files are never changed: they are written
under another name, synced and renamed.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from broker.cluster.routes import Route
from broker.errors import BrokerError
from broker.state.relations import StoredDocument

_META = b"steps"


class ClusterError(BrokerError, RuntimeError):
    """The cluster cannot go on; the message says why."""


class Fenced(ClusterError):
    """Another coordinator has taken over."""


class Change(NamedTuple):
    """A query that comes to the shards, or without a text one that goes. `variables` are the
    numbers of its definitions."""

    id: str
    number: int = 0
    text: str = ""
    publish: str | None = None
    first_doc: int = 0
    variables: dict[str, int] = {}  # noqa: RUF012  # never changed
    route: Route | None = None


class Step(NamedTuple):
    """Documents that are added at once, or `revised`, by their numbers: the first, and all where
    they are revised. `versioned`: some are versions of others; `latest` is the last end of any,
    in microseconds."""

    first: int
    latest: int
    versioned: bool = False
    revised: tuple[int, ...] = ()


class Segment(NamedTuple):
    """What names the files of a batch."""

    number: int
    epoch: int
    attempt: int

    def name(self) -> str:
        return f"{self.number:012}.{self.epoch:06}.{self.attempt:06}"


class Shared:
    """The directory, for one coordinator of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch = 0
        self.bytes_written = 0
        for name in ("epochs", "queries", "batches"):
            (path / name).mkdir(parents=True, exist_ok=True)

    # -- who may write -----------------------------------------------------------------------

    def claim(self) -> None:
        """Take over: from now on every earlier coordinator is fenced."""
        while True:
            self.epoch = self._latest() + 1
            try:
                descriptor = os.open(self._epoch(self.epoch), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                continue
            os.close(descriptor)
            _sync(self.path / "epochs")
            for old in (self.path / "epochs").iterdir():
                if int(old.name) < self.epoch:
                    old.unlink(missing_ok=True)
            return

    def check(self) -> None:
        """Raises Fenced if there is a later coordinator."""
        latest = self._latest()
        if latest != self.epoch:
            raise Fenced(
                f"{self.path}: another coordinator has taken over (epoch {latest}, "
                f"this one has {self.epoch})"
            )

    def _latest(self) -> int:
        return max([int(each.name) for each in (self.path / "epochs").iterdir()], default=0)

    def _epoch(self, number: int) -> Path:
        return self.path / "epochs" / f"{number:08}"

    # -- how the segments were divided -------------------------------------------------------

    def routing(self) -> dict[str, Any]:
        """What `write_routing` has stored; empty if there is none."""
        try:
            found: dict[str, Any] = json.loads((self.path / "routing.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def write_routing(self, routing: dict[str, Any]) -> None:
        self._write(self.path / "routing.json", json.dumps(routing).encode())

    # -- queries -----------------------------------------------------------------------------

    def write_queries(self, number: int, attempt: int, changes: Sequence[Change]) -> str:
        """Store changes of the queries; returns the file's name."""
        name = Segment(number, self.epoch, attempt).name()
        self._write(self.path / "queries" / name, pickle.dumps([tuple(each) for each in changes]))
        return name

    def remove_queries(self) -> None:
        """Remove the queries of earlier coordinators."""
        for old in (self.path / "queries").iterdir():
            if int(old.name.split(".")[1]) < self.epoch:
                old.unlink(missing_ok=True)

    # -- batches -----------------------------------------------------------------------------

    def write_batch(
        self,
        segment: Segment,
        steps: Sequence[Step],
        rows: Sequence[pa.RecordBatch],
        documents: Sequence[pa.RecordBatch],
    ) -> None:
        """Store a batch: `rows` are those of the first step by shard, then those of the next."""
        said = pickle.dumps([tuple(each) for each in steps])
        self._write_arrow(self._batch(segment, "documents"), documents, said)
        self._write_arrow(self._batch(segment, "rows"), rows, said)

    def committed(self, number: int) -> list[Segment]:
        """The segments up to a batch, in order; those that do not count are removed."""
        found: dict[int, Segment] = {}
        for each in sorted((self.path / "batches").glob("*.rows")):
            segment = Segment(*map(int, each.name.split(".")[:3]))
            if segment.number > number:
                self.remove(segment)
                continue
            if segment.number in found:
                self.remove(found[segment.number])
            found[segment.number] = segment
        return [found[number] for number in sorted(found)]

    def remove(self, segment: Segment) -> None:
        for kind in ("rows", "documents"):
            self._batch(segment, kind).unlink(missing_ok=True)

    def _batch(self, segment: Segment, kind: str) -> Path:
        return self.path / "batches" / f"{segment.name()}.{kind}"

    def _write_arrow(self, path: Path, batches: Sequence[pa.RecordBatch], said: bytes) -> None:
        sink = pa.BufferOutputStream()
        schema = batches[0].schema.with_metadata({_META: said})
        with pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata({_META: said}))
        self._write(path, sink.getvalue())

    def _write(self, path: Path, content: bytes | pa.Buffer) -> None:
        # Of a writer that is fenced between a check and here, no name is ever read: it has its
        # epoch. Only `routing.json` has none, and is written by who has just taken over.
        new = path.with_name(f"{path.name}.new{self.epoch}")
        try:
            with new.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise ClusterError(f"{path}: {error.strerror}") from error
        _sync(path.parent)
        self.bytes_written += len(content)


class Reader:
    """The same directory for a shard."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def changes(self, name: str) -> list[Change]:
        pickled = (self.path / "queries" / name).read_bytes()
        return [Change(*each) for each in pickle.loads(pickled)]

    def batch(self, segment: Segment) -> tuple[list[Step], pa.ipc.RecordBatchFileReader]:
        """The steps of a batch, and its witness rows by step and shard."""
        file = pa.ipc.open_file(
            pa.memory_map(str(self.path / "batches" / f"{segment.name()}.rows"))
        )
        return [Step(*each) for each in pickle.loads(file.schema.metadata[_META])], file

    def documents(self, segment: Segment, step: int) -> pa.RecordBatch:
        path = self.path / "batches" / f"{segment.name()}.documents"
        found: pa.RecordBatch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(step)
        return found


DOCUMENT = pa.schema(
    [
        ("doc", pa.int64()),
        ("base", pa.int64()),
        ("key", pa.uint64()),
        ("source", pa.string()),
        ("id", pa.string()),
        ("streams", pa.list_(pa.string())),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("dated", pa.bool_()),
        ("xml", pa.binary()),
        ("version", pa.int64()),
    ]
)


def document_columns(documents: Sequence[StoredDocument]) -> pa.RecordBatch:
    """Documents as a record batch of schema DOCUMENT, in order of their numbers."""
    columns = zip(*sorted(documents, key=lambda each: each.doc), strict=True)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, DOCUMENT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=DOCUMENT)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The files of a cluster, in a place that all its machines see (`broker.cluster.files`).

    epochs/00000002          one for each coordinator that ever began; only the last may write
    routing/00000002         by what routes, and for how many shards, its segments are divided
    queries/N.E.A            the queries of the shards, whole or what has changed, see `Change`
    batches/N.E.A.rows       witness rows: a record batch for each step and shard
    batches/N.E.A.documents  the documents of these, a record batch for each step

N is the number of the batch, E the epoch, A the attempt. Which segments count is told by the
coordinator's state (`broker.cluster.manifest`); nobody reads any other. Files are never changed,
but for the routing of the coordinator that has written it.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from broker.cluster.files import ClusterError, Files
from broker.cluster.keys import Key
from broker.cluster.manifest import Segment
from broker.cluster.routes import Route
from broker.state.stored_documents import StoredDocument

_META = b"steps"
_T = TypeVar("_T")
_KINDS = ("rows", "documents")
_LATE = 20.0
"""Seconds in which a directory shows what another machine has written; for NFS three are usual."""


class Fenced(ClusterError):
    """Another coordinator has taken over."""


class Change(NamedTuple):
    """A query that comes to the shards: a variant (`broker.cluster.variants`), whose matches count
    from the document `first_doc` on. Without a text it is one that they have, and counts from
    another document on, or goes if that is None.

    `called` is what its text calls it, `variables` are the numbers of its definitions, and of an
    event pattern those of its blocks. Of an event pattern `home` is the shard that alone has it, or
    `keys` are what its rows are divided by."""

    id: str
    number: int = 0
    called: str = ""
    text: str = ""
    first_doc: int | None = None
    variables: dict[str, int] = {}  # noqa: RUF012  # never changed
    route: Route | None = None
    home: int | None = None
    keys: tuple[Key, ...] = ()


class Step(NamedTuple):
    """Documents that are added at once, or `revised`, by their numbers: the first, and all where
    they are revised. `versioned`: some are versions of others; `latest` is the last end of any,
    in microseconds.

    For event patterns: `late` are the documents that were older than others when they came, with
    their ends and the highest time then; and `settles` after which documents, by number, they
    decide what is decided at which highest time. Nothing comes with a step that only settles.
    """

    first: int
    latest: int
    versioned: bool = False
    revised: tuple[int, ...] = ()
    late: tuple[tuple[int, int, int], ...] = ()
    settles: tuple[tuple[int, int], ...] = ()


class Shared:
    """The files, for one coordinator of them."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.epoch = 0
        self.bytes_written = 0

    # -- who may write -----------------------------------------------------------------------

    def claim(self) -> None:
        """Take over: from now on every earlier coordinator is fenced."""
        # Epochs have no gaps and are never removed, so whichever is taken for the last, the one
        # that can be made behind it is the last.
        self.epoch = max(map(int, self.files.names("epochs")), default=0) + 1
        while not self.files.create(_epoch(self.epoch)):
            self.epoch += 1

    def check(self) -> None:
        """Raises Fenced if there is a later coordinator."""
        if self.files.exists(_epoch(self.epoch + 1)):
            raise Fenced(
                f"another coordinator has taken over the shared files (this one has epoch "
                f"{self.epoch})"
            )

    # -- how the segments were divided -------------------------------------------------------

    def routing(self, epoch: int) -> dict[str, Any]:
        """What the coordinator of an epoch has stored last; empty if there is none."""
        try:
            found: dict[str, Any] = json.loads(self.files.read(f"routing/{epoch:08}").to_pybytes())
        except (FileNotFoundError, ValueError):
            return {}
        except OSError as error:
            raise ClusterError(str(error)) from error
        return found

    def write_routing(self, routing: dict[str, Any]) -> None:
        self._write(f"routing/{self.epoch:08}", json.dumps(routing).encode())

    # -- queries -----------------------------------------------------------------------------

    def write_queries(self, number: int, attempt: int, changes: Sequence[Change]) -> str:
        """Store changes of the queries; returns the file's name."""
        name = Segment(number, self.epoch, attempt).name()
        self._write(f"queries/{name}", pickle.dumps([tuple(each) for each in changes]))
        return name

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
        self._write_arrow(_batch(segment, "documents"), documents, said)
        self._write_arrow(_batch(segment, "rows"), rows, said)

    def there(self, segments: Sequence[Segment]) -> bool:
        """Whether all these segments are there."""
        listed = set(self.files.names("batches"))
        named = [_batch(each, kind) for each in segments for kind in _KINDS]
        return all(name.partition("/")[2] in listed or self.files.exists(name) for name in named)

    def steps(self, segment: Segment) -> list[Step]:
        """The steps of a batch that is there."""
        try:
            return Reader(self.files).batch(segment)[0]
        except OSError as error:
            raise ClusterError(str(error)) from error

    def remove(self, segments: Iterable[Segment]) -> None:
        self.files.remove([_batch(each, kind) for each in segments for kind in _KINDS])

    def tidy(self, kept: Iterable[Segment], routed: int) -> None:
        """Remove what earlier coordinators have left, but for segments that are kept, and the
        routing of an epoch."""
        own = {each.name() for each in kept}
        gone = []
        for name in self.files.names("batches"):
            segment = Segment.of(name)
            if segment.epoch < self.epoch and segment.name() not in own:
                gone.append(f"batches/{name}")
        for name in self.files.names("queries"):
            if Segment.of(name).epoch < self.epoch:
                gone.append(f"queries/{name}")
        for name in self.files.names("routing"):
            if int(name) < self.epoch and int(name) != routed:
                gone.append(f"routing/{name}")
        self.files.remove(gone)

    def _write_arrow(self, name: str, batches: Sequence[pa.RecordBatch], said: bytes) -> None:
        sink = pa.BufferOutputStream()
        schema = batches[0].schema.with_metadata({_META: said})
        with pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata({_META: said}))
        self._write(name, sink.getvalue())

    def _write(self, name: str, content: bytes | pa.Buffer) -> None:
        self.files.put(name, content)
        self.bytes_written += len(content)


class Reader:
    """The same files for a shard. It is told of files that are there, so those that a directory
    shows late are waited for."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def changes(self, name: str) -> list[Change]:
        pickled = _awaited(lambda: self._files.read(f"queries/{name}"))
        return [Change(*each) for each in pickle.loads(pickled)]

    def batch(self, segment: Segment) -> tuple[list[Step], pa.ipc.RecordBatchFileReader]:
        """The steps of a batch, and its witness rows by step and shard."""
        opened = _awaited(lambda: self._files.open(_batch(segment, "rows")))
        file = pa.ipc.open_file(opened)
        return [Step(*each) for each in pickle.loads(file.schema.metadata[_META])], file

    def documents(self, segment: Segment, step: int) -> pa.RecordBatch:
        file = _awaited(lambda: self._files.open(_batch(segment, "documents")))
        found: pa.RecordBatch = pa.ipc.open_file(file).get_batch(step)
        return found


def _awaited(look: Callable[[], _T]) -> _T:
    """What a look into a directory finds, as soon as it does. Raises FileNotFoundError after
    `_LATE` seconds."""
    latest, pause = time.monotonic() + _LATE, 0.01
    while True:
        try:
            return look()
        except FileNotFoundError:
            if time.monotonic() > latest:
                raise
            time.sleep(pause)
            pause *= 2


def _epoch(number: int) -> str:
    return f"epochs/{number:08}"


def _batch(segment: Segment, kind: str) -> str:
    return f"batches/{segment.name()}.{kind}"


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
    if not documents:
        return pa.RecordBatch.from_pylist([], schema=DOCUMENT)
    ordered = sorted(documents, key=lambda each: each.doc)
    columns = zip(*[each[: len(DOCUMENT)] for each in ordered], strict=True)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, DOCUMENT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=DOCUMENT)

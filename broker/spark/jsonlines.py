"""A Spark source of JSON lines.

In: a file, or a directory of `*.jsonl`, on a file system that all executors see. Out: rows of
schema `documents.SOURCED`.

Why not Spark's own text source: it takes a file whole, in one micro-batch that must fit the
driver's memory, never looks at it again, and does not know the numbers of lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from broker.sources.documents import SOURCED, record_batches
from broker.sources.jsonlines import (
    BATCH_BYTES,
    BATCH_LINES,
    JsonFiles,
    Offset,
    Stretch,
    cut,
    stretch_rows,
)
from broker.spark.worker import settle

FORMAT = "json_documents"

TASK_BYTES = 1 << 16
"""Less than this is not worth a second task."""


@dataclass(slots=True)
class Piece(InputPartition):
    """What one task reads."""

    lines: Stretch


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
        files = JsonFiles(
            Path(self.options["path"]),
            int(self.options.get("lines", BATCH_LINES)),
            int(self.options.get("bytes", BATCH_BYTES)),
        )
        return JsonReader(files, int(self.options.get("partitions", 2)))


class JsonReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches beside the driver and reads them on the executors."""

    def __init__(self, files: JsonFiles, partitions: int, *, least: int = TASK_BYTES) -> None:
        self.files = files
        self.tasks = max(1, partitions)
        self.least = least

    # -- beside the driver -----------------------------------------------------------------------

    def initialOffset(self) -> Offset:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that this run reads."""
        self.files.stop_growing()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """`start`, and as many more lines as a batch takes."""
        return self.files.latest(start)

    def partitions(self, start: Offset, end: Offset) -> list[Piece]:
        """The stretches of a batch, cut at newlines into about as many as there are tasks."""
        whole = self.files.stretches(start, end)
        total = sum(part.end - part.start for part in whole)
        size = max(self.least, -(-total // self.tasks))
        return [Piece(piece) for part in whole for piece in cut(part, size)]

    # -- on the executors ------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        settle()
        schema = to_arrow_schema(from_arrow_schema(SOURCED), timezone="UTC")
        for batch in record_batches(stretch_rows(partition.lines)):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def register(session: Any) -> None:
    """Make `FORMAT` known to a session."""
    session.dataSource.register(JsonDocuments)

"""The spool as a source of Spark: `spark.readStream.format("feed_spool")`.

In: the option `path` (the spool's file). Out: rows of the DOCUMENTS schema, by ranges of sequence
numbers; an offset is `{"seq": n}`, the last row that was read. Register it with
`spark.dataSource.register(FeedSpool)`.

Options: `path`; `rows_per_batch` (how many rows a micro-batch takes at most, 10000);
`partitions` (into how many tasks a batch is cut at most, 2), `rows_per_partition` (a batch is not
cut into smaller pieces than that, 500). A batch read (`spark.read`) takes `start` (exclusive) and
`end` (inclusive), by default all rows.

Nothing is trimmed here: a row that Spark has committed need not have been applied to the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from feeds.row_log import SpoolError
from feeds.row_reader import last_seq, read_rows, seq_after
from feeds.rows import DOCUMENTS, to_batch

if TYPE_CHECKING:
    import pyarrow as pa

_ARROW_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class _Options:
    path: str
    rows_per_batch: int = 10_000
    partitions: int = 2
    rows_per_partition: int = 500
    start: int = 0
    end: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _Options:
        if not options.get("path"):
            raise SpoolError("spool: the option 'path' is missing")
        numbers: dict[str, int] = {}
        for name in ("rows_per_batch", "partitions", "rows_per_partition", "start", "end"):
            value = options.get(name)
            if value is None:
                continue
            least = 0 if name in ("start", "end") else 1
            if not value.isdigit() or int(value) < least:
                raise SpoolError(f"spool: option '{name}' is '{value}', not a number from {least}")
            numbers[name] = int(value)
        return cls(options["path"], **numbers)


class _Range(InputPartition):
    """The rows with start < seq <= end."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


def _ranges(options: _Options, start: int, end: int) -> list[_Range]:
    """Cut (start, end] into consecutive ranges of about as many numbers each."""
    count = end - start
    pieces = max(1, min(options.partitions, count // options.rows_per_partition))
    edges = [start + count * piece // pieces for piece in range(pieces + 1)]
    return [_Range(a, b) for a, b in pairwise(edges) if a < b]


def _read(options: _Options, part: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(part, _Range)
    rows = read_rows(options.path, part.start, part.end)
    while chunk := list(islice(rows, _ARROW_ROWS)):
        yield to_batch(chunk)


class FeedSpool(DataSource):
    """The data source `feed_spool`."""

    @classmethod
    def name(cls) -> str:
        return "feed_spool"

    def schema(self) -> StructType:
        return from_arrow_schema(DOCUMENTS)

    def reader(self, schema: Any) -> FeedSpoolReader:
        return FeedSpoolReader(_Options.of(self.options))

    def streamReader(self, schema: Any) -> FeedSpoolStreamReader:
        return FeedSpoolStreamReader(_Options.of(self.options))


class FeedSpoolReader(DataSourceReader):
    """The bounded read."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        last = last_seq(self._options.path)
        end = last if self._options.end is None else min(last, self._options.end)
        return _ranges(self._options, self._options.start, max(end, self._options.start))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class FeedSpoolStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming read, with admission control and `availableNow`."""

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"seq": self._options.start}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = last_seq(self._options.path)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        seen = start["seq"]
        last = last_seq(self._options.path)
        if seen > last:
            raise SpoolError(
                f"spool: {self._options.path} ends at {last}, but {seen} was read from it before: "
                "the file was replaced. Restore it, or start with a new checkpoint and state"
            )
        target = last if self._target is None else min(last, self._target)
        if not isinstance(limit, ReadAllAvailable):
            rows = (
                limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.rows_per_batch
            )
            # By rows, not by numbers: a trimmed spool has none at the beginning.
            target = min(target, seq_after(self._options.path, seen, rows))
        return {"seq": max(seen, target)}

    def reportLatestOffset(self) -> dict[str, int]:
        return {"seq": last_seq(self._options.path)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return _ranges(self._options, start["seq"], end["seq"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: rows stay until the process that has applied them trims the spool."""

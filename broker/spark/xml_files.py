"""XML files on Spark's executors: what a batch lists becomes rows of documents."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from broker.sources.documents import XmlFiles, file_rows, record_batches
from broker.spark.worker import settle
from feeds.rows import DocumentRow


def local_path(path: str) -> str | None:
    """The path in this machine's file system of what Spark calls `file:/…`, None of other
    schemes."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return None


def xml_batches(files: XmlFiles, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Listed files (columns path, modified in microseconds, content) to SOURCED.

    `content` is null for files of this machine's file system, which are opened here: a file that
    cannot be read is then a row with an error, where Spark would stop the stream or skip it.
    """

    def rows() -> Iterator[DocumentRow]:
        for batch in batches:
            paths = batch.column("path").to_pylist()
            times = batch.column("modified").to_pylist()
            for i, (uri, modified) in enumerate(zip(paths, times, strict=True)):
                content = batch.column("content")[i].as_py()
                yield from file_rows(files, local_path(uri) or uri, modified, content)

    settle()
    yield from record_batches(rows())

"""Counts and samples of the stored documents, as some connection sees them.

In: the tables `documents` and `outlines`. Out, for `broker/statistics`: streams, their label paths,
and documents that are chosen by the hash of their identity. Nothing is written.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.state.logged_documents import with_bytes
from broker.state.statements import Statements

_STORED = "outline IS NOT NULL"
"""The condition that a document has not expired."""

_OF_STREAM = f"{_STORED} AND list_contains(streams, ?)"
_COUNTS = 'count(*), count(*) FILTER (outline <> 0), min("end"), max("end")'


class StreamCount(NamedTuple):
    """A stream's stored documents: how many, how many of them have known label paths, and the
    times at which the first and the last of them end, in microseconds."""

    name: str
    documents: int
    known: int
    first: int
    last: int


class Sampled(NamedTuple):
    """A stored document of a sample."""

    doc: int
    id: str
    source: str
    streams: tuple[str, ...]
    start: int
    end: int
    xml: bytes


class StreamCounts:
    """Counts over the stored documents, as some connection sees them."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    def outlines(self) -> list[int]:
        """The outlines that stored documents have."""
        rows = self._sql.rows(f"SELECT DISTINCT outline FROM documents WHERE {_STORED}")
        return [outline for (outline,) in rows]

    def streams(self) -> list[StreamCount]:
        """The streams that have stored documents, by name."""
        rows = self._sql.rows(
            f"SELECT stream, {_COUNTS} FROM (SELECT unnest(list_distinct(streams)) AS stream,"
            f' outline, "end" FROM documents WHERE {_STORED}) GROUP BY stream ORDER BY stream'
        )
        return [StreamCount(*row) for row in rows]

    def stream(self, name: str) -> StreamCount | None:
        """One of them; None if it has no stored documents."""
        (row,) = self._sql.rows(f"SELECT {_COUNTS} FROM documents WHERE {_OF_STREAM}", [name])
        return StreamCount(name, *row) if row[0] else None

    def paths(self, stream: str) -> dict[str, int]:
        """The label paths of a stream's documents, each with how many documents have it."""
        rows = self._sql.rows(
            "SELECT path, sum(n)::BIGINT FROM (SELECT unnest(paths) AS path, n FROM"
            " (SELECT outline, count(*) AS n FROM documents"
            f" WHERE {_OF_STREAM} GROUP BY outline)"
            " JOIN outlines ON outlines.id = outline) GROUP BY path ORDER BY path",
            [stream],
        )
        return dict(rows)

    def sample(self, stream: str, most: int) -> list[Sampled]:
        """Stored documents of a stream, chosen by the hash of their identity: of two samples of
        one stream the larger has all of the smaller. In order of arrival."""
        # The bytes of all would be sorted if both were one query.
        docs = self._sql.rows(
            f"SELECT doc FROM documents WHERE {_OF_STREAM} ORDER BY key, doc LIMIT ?",
            [stream, most],
        )
        return self._sampled([doc for (doc,) in docs])

    def near(self, stream: str, time: int, most: int) -> list[Sampled]:
        """The stored documents of a stream that end nearest to a time (microseconds), in order of
        arrival."""
        docs = self._sql.rows(
            f'SELECT doc FROM documents WHERE {_OF_STREAM} ORDER BY abs("end" - ?), doc LIMIT ?',
            [stream, time, most],
        )
        return self._sampled([doc for (doc,) in docs])

    def named(self, id: str) -> list[Sampled]:
        """The stored documents of an id, of whatever source; the last that came first."""
        docs = self._sql.rows(f"SELECT doc FROM documents WHERE id = ? AND {_STORED}", [id])
        return self._sampled([doc for (doc,) in docs])[::-1]

    def _sampled(self, docs: list[int]) -> list[Sampled]:
        rows = self._sql.rows(
            'SELECT doc, id, source, streams, "start", "end", xml FROM documents'
            " WHERE doc IN (SELECT unnest(?::BIGINT[])) ORDER BY doc",
            [docs],
        )
        return [
            Sampled(doc, id, source, tuple(streams), *rest)
            for doc, id, source, streams, *rest in with_bytes(self._sql, rows, 6)
        ]

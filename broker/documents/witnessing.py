"""Stage 1 over documents: the one place that parses and witnesses them, in whatever form they come.

    rows of documents         `arrivals`     in this process: the library, the service, results
    columns                   `witness`      all others stand on it
    Arrow record batches      `stage1`       on Spark's executors, by the patterns' compiled form

What is no document gets an empty witness, and the reason as its error.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from broker.documents.arrow import Arrivals, rows_from_witnesses, witnessed
from feeds.rows import DOCUMENTS, DocumentRow
from xscl.stage1.document import DocumentError, parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.witness import Edge, Witness


class Witnesses(NamedTuple):
    """The witnesses of documents, and what is wrong with each document, None where nothing is."""

    each: list[Witness]
    errors: list[str | None]

    def table(self) -> pa.Table:
        """Their rows, of schema ROWS."""
        return rows_from_witnesses(self.each)


def witness(
    matcher: Matcher, documents: Iterable[tuple[bytes, Sequence[str], str | None]]
) -> Witnesses:
    """The witnesses of documents, given as bytes, streams, and what is known to be wrong with
    it."""
    witnesses: list[Witness] = []
    errors: list[str | None] = []
    for xml, streams, error in documents:
        found = None
        if error is None:
            try:
                found = matcher.match(parse_document(xml), tuple(streams))
            except DocumentError as problem:
                error = str(problem)
        witnesses.append(Witness() if found is None else found)
        errors.append(error)
    return Witnesses(witnesses, errors)


def arrivals(matcher: Matcher, rows: Sequence[DocumentRow]) -> Arrivals:
    """Documents as stage 2 takes them, witnessed by the patterns of a matcher."""
    found = witness(matcher, [(row.xml, row.streams, row.error) for row in rows])
    documents = [
        row if row.error is error else row._replace(error=error)
        for row, error in zip(rows, found.errors, strict=True)
    ]
    return Arrivals(documents, found.table())


def stage1(spec: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stage 1 over Arrow batches: DOCUMENTS in, WITNESSED out."""
    matcher = matcher_for(spec)
    for batch in batches:
        plain = batch.select(DOCUMENTS.names)
        bodies = (xml.as_py() for xml in plain.column("xml"))
        streams, errors = (plain.column(name).to_pylist() for name in ("streams", "error"))
        found = witness(matcher, zip(bodies, streams, errors, strict=True))
        errors = pa.array(found.errors, pa.string())
        yield witnessed(
            plain.set_column(DOCUMENTS.get_field_index("error"), "error", errors), found.each
        )


# -- patterns on their way to other processes --------------------------------------------------


def compile_spec(edges: Iterable[tuple[int, Edge | None]]) -> bytes:
    """Stage 1's compiled form, to send to executors: edges by id, None for one that is gone. The
    form of later changes may be put behind it."""
    return pickle.dumps(tuple(edges), protocol=pickle.HIGHEST_PROTOCOL)


_matchers: dict[bytes, Matcher] = {}


def matcher_for(spec: bytes) -> Matcher:
    """The matcher of a spec, kept between tasks: only the newest few, so that old ones go. That of
    a spec to which changes were added is changed accordingly, and is the new one's from then on."""
    found = _matchers.get(spec)
    if found is None:
        known = max(filter(spec.startswith, _matchers), key=len, default=b"")
        found = _matchers.pop(known, None) or Matcher()
        while len(_matchers) >= 2:
            _matchers.pop(next(iter(_matchers)))
        parts = io.BytesIO(spec)
        parts.seek(len(known))
        while parts.tell() < len(spec):
            found.change(pickle.load(parts))
        _matchers[spec] = found
    return found

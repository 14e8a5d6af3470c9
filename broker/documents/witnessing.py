"""Stage 1 over documents: the only module that parses documents and computes their witnesses.

    rows of documents         `arrivals`     in this process: the library, the service, results
    columns                   `witness`      the common core of the other two
    Arrow record batches      `stage1`       on Spark's executors, by the patterns' compiled form

Bytes that are not a well-formed document get an empty witness, and the reason as error.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from broker.documents.arrow import Arrivals, rows_from_witnesses, witnessed
from feeds.rows import DOCUMENTS, DocumentRow
from xscl.growth import growing
from xscl.interruption import PENDING, check
from xscl.stage1.document import DocumentError, parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.witness import Edge, Witness


class Witnesses(NamedTuple):
    """The witnesses of documents, and the error of each document, None if there is none."""

    each: list[Witness]
    errors: list[str | None]

    def table(self) -> pa.Table:
        """Their rows, of schema ROWS."""
        return rows_from_witnesses(self.each)


def witness(
    matcher: Matcher, documents: Iterable[tuple[bytes, Sequence[str], str | None]]
) -> Witnesses:
    """The witnesses of documents, each given as its bytes, its streams, and its error so far."""
    witnesses: list[Witness] = []
    errors: list[str | None] = []
    for xml, streams, error in documents:
        if PENDING:
            check()
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
    """Documents and their witness rows by the patterns of a matcher, as stage 2 takes them."""
    found = witness(matcher, [(row.xml, row.streams, row.error) for row in rows])
    documents = [
        row if row.error is error else row._replace(error=error)
        for row, error in zip(rows, found.errors, strict=True)
    ]
    texts, outlines = [each.texts for each in found.each], [each.outline for each in found.each]
    return Arrivals(documents, found.table(), texts, outlines)


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


def compile_spec(matcher: Matcher) -> bytes:
    """Stage 1's compiled form, to send to executors: the matcher itself, which is loaded thirty
    times as fast as one is made. The compiled form of later changes may be appended to it."""
    return pickle.dumps(matcher, protocol=pickle.HIGHEST_PROTOCOL)


def compile_changes(edges: Iterable[tuple[int, Edge | None]]) -> bytes:
    """The compiled form of changes: edges by id, None for a removed one."""
    return pickle.dumps(tuple(edges), protocol=pickle.HIGHEST_PROTOCOL)


_EDGE_BYTES = 100
"""What an edge takes in a spec, about."""

_matchers: dict[bytes, Matcher] = {}


def matcher_for(spec: bytes) -> Matcher:
    """The matcher of a spec, cached between tasks; only the newest few stay cached. If a spec
    extends a cached one by changes, the cached matcher is changed and becomes that of the new
    spec."""
    found = _matchers.get(spec)
    if found is None:
        known = max(filter(spec.startswith, _matchers), key=len, default=b"")
        found = _matchers.pop(known, None) or Matcher()
        while len(_matchers) >= 2:
            _matchers.pop(next(iter(_matchers)))
        parts = io.BytesIO(spec)
        parts.seek(len(known))
        with growing(len(spec) // _EDGE_BYTES):
            while parts.tell() < len(spec):
                part = pickle.load(parts)
                if isinstance(part, Matcher):
                    found = part
                else:
                    found.change(part)
        _matchers[spec] = found
    return found

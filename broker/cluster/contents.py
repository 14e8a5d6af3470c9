"""What goes into segments: the documents of a round, or all of a state, divided among shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from broker.cluster.keys import Keys
from broker.cluster.log import Content
from broker.cluster.patterns import Told
from broker.cluster.router import Router
from broker.cluster.segments import Step, document_columns
from broker.documents.admitted import WITNESS_ROWS, Admitted, stored_documents, witness_rows
from broker.documents.arrow import Arrivals
from broker.documents.witnessing import witness
from broker.model import UNBOUNDED
from broker.state.stored_documents import StoredDocument

if TYPE_CHECKING:
    from broker.engine import Engine

_CHUNK = 8_000


class Run(NamedTuple):
    """Documents of a round, and what they are taken from, None if there are none; with what event
    patterns are told."""

    run: Sequence[Admitted]
    arrivals: Arrivals | None
    told: Told = Told()


def content_of(runs: Sequence[Run], router: Router) -> Content:
    """A step for each run."""
    steps: list[Step] = []
    rows: list[pa.RecordBatch] = []
    documents: list[pa.RecordBatch] = []
    for run, arrivals, told in runs:
        own = stored_documents(run)
        documents.append(document_columns(own))
        if arrivals is None:
            steps.append(Step(-1, -UNBOUNDED, settles=told.settles))
            rows += router.divide(WITNESS_ROWS.empty_table())
            continue
        docs = tuple([each.doc for each in own]) if run[0].revision else ()
        latest = max([each.end for each in own])
        versioned = any(each.version for each in own)
        steps.append(Step(own[0].doc, latest, versioned, docs, *told))
        rows += router.divide(witness_rows(run, arrivals.rows))
    return steps, rows, documents


class Untied(Exception):
    """A document has several of the values that event patterns are divided by."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__(numbers)
        self.numbers = numbers
        """Their canonical queries."""


def contents_of(engine: Engine, router: Router, keys: Keys) -> Iterator[Content]:
    """All documents of a state, in order. Raises Untied."""
    relations = engine.relations
    late = engine.standings.tables.late(0) if engine.catalog.patterns else {}
    for documents in relations.history(0, _CHUNK):
        if keys.of:
            # When they came, stage 1 may not have been asked for these values.
            rows = _witnessed_again(engine, documents)
            broken = keys.broken_by(rows, "doc")
            if broken:
                raise Untied(broken)
        else:
            rows = relations.rows.witnessed_by(documents[0].doc, documents[-1].doc).cast(
                WITNESS_ROWS
            )
        step = Step(
            documents[0].doc,
            max([each.end for each in documents]),
            any(each.version for each in documents),
            late=tuple([(d.doc, *late[d.doc]) for d in documents if d.doc in late]),
        )
        yield [step], router.divide(rows), [document_columns(documents)]


def _witnessed_again(engine: Engine, documents: Sequence[StoredDocument]) -> pa.Table:
    """The witness rows of stored documents, by the queries of now."""
    bodies = [(each.xml, each.streams, None) for each in documents]
    rows = witness(engine.matcher, bodies).table()
    run = [Admitted(place, each) for place, each in enumerate(documents)]
    return witness_rows(run, rows)

"""Documents by their numbers: those of the batch of now, which need not be read, and stored ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from broker.documents.admitted import Admitted
from broker.join.candidates import Interval
from broker.results.publisher import Stored
from broker.state.store import Store


def stored(store: Store, run: Mapping[int, Admitted], docs: Sequence[int]) -> dict[int, Stored]:
    """Documents with their bytes."""
    known: dict[int, Stored] = {}
    for a in [run[doc] for doc in docs if doc in run]:
        arrival = a.arrival
        known[a.doc] = Stored(
            a.doc,
            a.base,
            arrival.source,
            arrival.id,
            arrival.streams,
            a.start,
            a.end,
            arrival.xml,
        )
    older = [doc for doc in docs if doc not in run]
    if not older:
        return known
    found = store.rows(
        'SELECT doc, base, source, id, streams, "start", "end", xml FROM documents'
        " WHERE doc IN (SELECT unnest(?::BIGINT[]))",
        [older],
    )
    return known | {
        doc: Stored(doc, base, source, id, tuple(streams), start, end, xml)
        for doc, base, source, id, streams, start, end, xml in found
    }


def intervals(store: Store, docs: Iterable[int]) -> dict[int, Interval]:
    """Documents without their bytes."""
    found = store.rows(
        'SELECT doc, base, "start", "end" FROM documents WHERE doc IN (SELECT unnest(?::BIGINT[]))',
        [list(docs)],
    )
    return {doc: Interval(base, start, end) for doc, base, start, end in found}

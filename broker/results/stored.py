"""Documents by their numbers: those of the batch of now, which need not be read, and stored ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from broker.documents.admitted import Admitted
from broker.join.candidates import Found, Interval
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
            a.version,
        )
    older = [doc for doc in docs if doc not in run]
    if not older:
        return known
    found = store.rows(
        'SELECT doc, base, source, id, streams, "start", "end", xml, coalesce(version, 0)'
        " FROM documents LEFT JOIN versions USING (doc) WHERE doc IN (SELECT unnest(?::BIGINT[]))",
        [older],
    )
    return known | {
        doc: Stored(doc, base, source, id, tuple(streams), *rest)
        for doc, base, source, id, streams, *rest in found
    }


def intervals(store: Store, docs: Iterable[int]) -> dict[int, Interval]:
    """Documents without their bytes."""
    found = store.rows(
        'SELECT doc, base, "start", "end" FROM documents WHERE doc IN (SELECT unnest(?::BIGINT[]))',
        [list(docs)],
    )
    return {doc: Interval(base, start, end) for doc, base, start, end in found}


def apart(store: Store, candidates: Sequence[Found]) -> list[Found]:
    """Those candidates of which no two documents are versions of one."""
    docs = {doc for _, candidate in candidates for doc in candidate.docs}
    rows = store.rows(
        "SELECT doc, source, id FROM documents WHERE doc IN (SELECT unnest(?::BIGINT[]))",
        [list(docs)],
    )
    identity = {doc: (source, id) for doc, source, id in rows}
    return [
        found
        for found in candidates
        if len({identity[doc] for doc in found[1].docs}) == len(found[1].docs)
    ]

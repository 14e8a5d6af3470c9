"""Documents that are in the tables, and whose bytes are lost: they expire.

In: references to documents that the spool does not have. Out: tables without them, and without the
matches of the outbox that nobody can read any more.
"""

from __future__ import annotations

from collections.abc import Collection

from broker.state.logged_documents import numbers_of
from broker.state.relations import MatchRelations
from broker.state.store import Store


def forget_lost(store: Store, lost: Collection[bytes], handed: int) -> tuple[int, int]:
    """Documents of these references expire; returns how many, and how many matches are lost with
    them, for all of their subscribers: those of the outbox behind number `handed`. What is in
    memory is to be read again."""
    gone, relations = {*lost}, MatchRelations(store)
    with store.transaction():
        docs, older = numbers_of(store, lost)
        rows = store.rows(
            "SELECT n, docs, len(queries) FROM outbox WHERE result IS NULL"
            " AND list_has_any(docs, ?)",
            [[*docs, *older]],
        )
        bytes_of = relations.kept.stored({doc for _, docs, _ in rows for doc in docs})
        unread = [
            (n, count)
            for n, docs, count in rows
            if not gone.isdisjoint([bytes_of(doc, n) for doc in docs])
        ]
        store.delete("outbox", "n", [n for n, _ in unread])
        store.delete("pattern_rows", "doc", docs)
        relations.expire_each(docs)
        relations.kept.drop(lost)
    return len(docs), sum([count for n, count in unread if n > handed])

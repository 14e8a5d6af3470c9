"""Pairs of a query and a document that were too much work: who is told, and who is suspended.

In: the pairs, see `broker/join/budget.py`. Out: for each a dead letter that names the document and
the subscriptions, and after several of them a suspension.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from broker.join.budget import Aside
from broker.query.canonical import Canonical, Subscription
from broker.query.catalog import Catalog
from broker.state.stored_documents import StoredDocument
from broker.subscriptions.limits import Limits
from feeds.rows import DocumentRow

_NAMED = 3
"""Subscriptions of one query that a letter names."""


def set_aside(
    news: Sequence[Aside],
    documents: Mapping[int, StoredDocument],
    catalog: Catalog,
    limits: Limits,
    alone: Callable[[], None],
) -> list[tuple[DocumentRow, str]]:
    """The dead letters of what was set aside, in order of the documents, with their reasons; counts
    each against its subscriptions, and stops event patterns. Of those that are suspended there is
    nothing more to say. `alone` is called before a pattern is stopped."""
    letters = []
    for (number, doc), why, of in news:
        canonical = catalog.canonical.get(number)
        if canonical is None:
            continue  # all who had it were suspended before this document
        owners = [
            owner
            for owner in _owners(canonical, of, catalog)
            if limits.receives(owner.number, [doc])
        ]
        for owner in owners:
            if owner.pattern is None:
                limits.strike(owner, [doc], why)
            else:
                alone()
                # Without this document it might say that something did not come which did.
                limits.stop(owner, doc, why)
        if owners:
            reason = f"{_names(owners)} had no match here: {why}"
            letters.append((_letter(documents[doc]), reason))
    return letters


def _owners(
    canonical: Canonical, of: Collection[int] | None, catalog: Catalog
) -> Iterator[Subscription]:
    """The subscriptions of a canonical query, or some of them; for a query in FROM, those around
    it."""
    for subscription in canonical.subscribers.values():
        if of is not None and subscription.number not in of:
            continue
        if subscription.number > 0:
            yield subscription
            continue
        for outer in catalog.subscriptions.values():
            if outer.number > 0 and subscription.id in _inside(outer):
                yield outer


def _inside(outer: Subscription) -> set[str]:
    found: set[str] = set()
    pending = [*outer.nested]
    while pending:
        inner = pending.pop()
        found.add(inner.id)
        pending += inner.nested
    return found


def _names(owners: Iterable[Subscription]) -> str:
    ids = sorted({owner.id for owner in owners})
    if len(ids) == 1:
        return f"the query {ids[0]}"
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return f"the queries {', '.join(ids[:_NAMED])}{more}"


def _letter(document: StoredDocument) -> DocumentRow:
    return DocumentRow(
        source=document.source,
        id=document.id,
        streams=document.streams,
        timestamp=document.end,
        dated=True,
        seq=None,
        revision=False,
        xml=document.xml,
        place=f"{document.source}/{document.id}",
    )

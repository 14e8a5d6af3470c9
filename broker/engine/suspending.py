"""Queries that exceed what they may cost or match are taken out, in the batch's transaction."""

from __future__ import annotations

from broker.documents.admitted import Admitted
from broker.engine.parts import Parts
from broker.subscriptions.set_aside import set_aside


def refuse_known(parts: Parts, admitted: list[Admitted]) -> None:
    """Set the queries aside that are known not to get past these documents."""
    care = parts.work.care
    for id, why in () if care is None else care.without().items():
        known = parts.catalog.subscriptions.get(id)
        if known is not None:
            for each in admitted:
                parts.budget.refuse((known.canonical.number, each.document.doc), why)


def stop_known(parts: Parts, doc: int) -> None:
    """Stop the queries that are known not to get past document number `doc`."""
    care = parts.work.care
    for id, why in () if care is None else care.without().items():
        known = parts.catalog.subscriptions.get(id)
        if known is not None:
            parts.limits.stop(known, doc, why)
            parts.limits.stop_outer_queries(parts.catalog)


def report_set_aside(parts: Parts, now: int | None) -> bool:
    """Report the pairs of a query and a document that are set aside now; whether there are any."""
    news = parts.budget.news()
    if news:
        docs = parts.relations.documents(sorted({aside.pair[1] for aside in news}))
        # Begun again, a batch knows of documents that are still to come.
        parts.budget.postpone(aside for aside in news if aside.pair[1] not in docs)
        here = [aside for aside in news if aside.pair[1] in docs]
        letters = set_aside(here, docs, parts.catalog, parts.limits, parts.budget.alone)
        parts.letter_table.add_set_aside(letters, now)
    return bool(news)


def halt_stopped(parts: Parts, now: int | None) -> None:
    """Suspend the subscriptions that exceeded their limit; they see no more of this batch."""
    if not parts.limits.cuts:
        return
    for id, doc, reason in parts.limits.take_stopped():
        parts.registry.halt([id], "suspended", reason, doc, now)
    parts.joiner.refresh()

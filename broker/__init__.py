"""The XSCL broker: subscriptions that correlate XML documents, and their matches.

from broker import Broker, Document

broker = Broker()
broker.subscribe("pair: S//book->b[./title->t] FOLLOWED BY {t=u, 7 days} S//blog->p[./title->u]")
matches = broker.process([Document(id="d1", timestamp=0.0, xml="<book>...</book>")])

The stages of a query:

    text -- xscl.parse, xscl.check --> ResolvedQuery
      | query.prepared.compile_query                tree patterns, template, parameters of a shape
      v
    Compiled
      | subscriptions.registry.Registry.subscribe   numbered, stored, in the catalog and in stage 1
      v
    Canonical query
      | join.pair_query.Plan, query.conjunctive.conjunctive_query      decided in memory, or by SQL

The stages of a document:

    Document
      | documents.witnessing.arrivals               stage 1 (`xscl.stage1`), here or by Spark
      v
    witness rows
      | documents.admission.Admission.admit         drops known and late documents, sorts the others
      v
    Admitted
      | join.joiner.Joiner.candidates               posting lists, signatures, templates
      v
    candidates
      | results.matches.results                     windows of each subscriber, values, result XML
      v
    Match -- state.outbox.Outbox --> the caller, a sink, or the service's mailbox

An event pattern is a query whose blocks are queries of one block each (`query.patterns`); their
candidates go to `standing.standings.Standings`, `pattern.standing.Standing` decides which of them
are matches as the watermark moves, and `standing.results.Maker` makes these.

`engine.Engine.apply` runs these for a batch in one transaction, see `engine`. `broker.Broker` is
the library, `spark`, `local` and `service.pipeline` supply documents (`sources` reads their files),
`delivery` delivers matches to receivers, and `service` and `cli` use all of these.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.backfill import Backfilled
    from broker.broker import Broker
    from broker.errors import ArgumentError, BrokerError, ClosedError, NotStored
    from broker.model import Budgets, DeadLetter, Document, DocumentRef, Limit, Match, Waiting
    from broker.state.store import StateError
    from xscl.errors import XsclError

_HOMES = {
    "ArgumentError": "broker.errors",
    "Backfilled": "broker.backfill",
    "Broker": "broker.broker",
    "BrokerError": "broker.errors",
    "Budgets": "broker.model",
    "ClosedError": "broker.errors",
    "DeadLetter": "broker.model",
    "Document": "broker.model",
    "DocumentRef": "broker.model",
    "Limit": "broker.model",
    "Match": "broker.model",
    "NotStored": "broker.errors",
    "StateError": "broker.state.store",
    "Waiting": "broker.model",
    "XsclError": "xscl.errors",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: executors need stage 1 alone, not DuckDB."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "ArgumentError",
    "Backfilled",
    "Broker",
    "BrokerError",
    "Budgets",
    "ClosedError",
    "DeadLetter",
    "Document",
    "DocumentRef",
    "Limit",
    "Match",
    "NotStored",
    "StateError",
    "Waiting",
    "XsclError",
]

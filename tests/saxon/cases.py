"""Random cases: the generator's queries, some of which read others' results, and more unusual ones."""

from __future__ import annotations

from random import Random
from typing import Literal

from tests.oracle.generate import WEEK, Batch, Case, Subscribe, steady
from tests.oracle.generate_documents import documents
from tests.oracle.generate_queries import PREAMBLE
from tests.oracle.oracle import Arrival
from tests.saxon.wild import Plain, Wild, respelled

Kind = Literal["flat", "derived", "wild"]


def make(r: Random, kind: Kind) -> Case:
    """Queries first, then distinct documents, none of them late."""
    if kind == "wild":
        return wild(r)
    of = steady(r, "full", 8, derived=kind == "derived", make=Plain)
    subscriptions = [event for event in of.events if isinstance(event, Subscribe)]
    fresh = [d for event in of.events if isinstance(event, Batch) for d in event.documents]
    return Case(of.lateness, (*subscriptions, *_halves(r, fresh)))


def wild(r: Random) -> Case:
    """A case with unusual values in the documents and unusual predicates in the queries."""
    fresh = respelled(r, documents(r, "full", r.randint(2, 6)))
    maker = Wild(r, "full", fresh, derived=r.randint(0, 1) == 1)
    ids = tuple(f"q{k + 1}" for k in range(8))
    text = ";\n".join(maker.query(each) for each in ids)
    return Case(WEEK, (Subscribe(PREAMBLE + text, ids), *_halves(r, fresh)))


def _halves(r: Random, stream: list[Arrival]) -> tuple[Batch, ...]:
    """Few batches: their boundaries are others' concern."""
    size = r.randint(1, len(stream))
    return Batch(tuple(stream[:size])), Batch(tuple(stream[size:]))

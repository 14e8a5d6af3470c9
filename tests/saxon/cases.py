"""Random cases: the generator's queries, wilder ones, and queries that read others' results.

The readers of results are made by the same generator, which reads its blocks off documents: here those of the
case, and the results that Saxon finds for the queries that are to be read.
"""

from __future__ import annotations

import re
from random import Random
from typing import Literal

import xscl
from tests.oracle.generate import WEEK, Batch, Case, Subscribe, steady
from tests.oracle.generate_documents import documents
from tests.oracle.generate_queries import PREAMBLE, Maker
from tests.oracle.oracle import Arrival
from tests.saxon.rows import Row
from tests.saxon.wild import Wild, respelled
from tests.saxon.witness import Saxon

Kind = Literal["flat", "wild", "chain"]

READ = 8
"""A query with more results than this is read by no other."""

KEPT = 100
"""A query with more results than this is not worth its time."""


def make(r: Random, kind: Kind) -> Case:
    return {"flat": flat, "wild": wild, "chain": chain}[kind](r)


def flat(r: Random, queries: int = 10) -> Case:
    """Queries over the documents alone."""
    of = steady(r, "full", queries)
    subscriptions = [event for event in of.events if isinstance(event, Subscribe)]
    fresh = [d for event in of.events if isinstance(event, Batch) for d in event.documents]
    return Case(of.lateness, (*subscriptions, *_halves(r, fresh)))


def wild(r: Random, queries: int = 10) -> Case:
    """The same with other values in the documents and other predicates in the queries."""
    fresh = respelled(r, documents(r, "full", r.randint(2, 6)))
    maker = Wild(r, "full", fresh)
    text = ";\n".join(maker.query(f"q{k + 1}") for k in range(queries))
    return Case(WEEK, (Subscribe(PREAMBLE + text, ()), *_halves(r, fresh)))


def chain(r: Random) -> Case:
    """Two or three levels of queries: those of a level read documents and the levels before it."""
    fresh = documents(r, "full", r.randint(2, 5))
    known = list(fresh)
    saxon = Saxon(fresh)
    statements: list[str] = []
    nested: dict[str, str] = {}
    for level in range(r.randint(2, 3)):
        maker = Maker(r, "full", known)
        for number in range(2):
            label = f"q{level}{number}"
            text = _readable(maker.query(None), nested)
            rows = _rows(saxon, [*statements, f"{label}: {text}"], label)
            if len(rows) > KEPT:
                continue
            if 0 < len(rows) <= READ:
                known += [
                    Arrival(f"{label}-{i}", (label,), row.end, row.result)
                    for i, row in enumerate(rows)
                ]
                if r.randint(0, 1):
                    text += f" PUBLISH {label}"
                else:
                    selects = re.match("select", text, re.IGNORECASE)
                    nested[label] = text if selects else f"SELECT * FROM {text}"
            statements.append(f"{label}: {text}")
    subscription = Subscribe(PREAMBLE + ";\n".join(statements), ())
    return Case(WEEK, (subscription, *_halves(r, fresh)))


def _halves(r: Random, stream: list[Arrival]) -> tuple[Batch, ...]:
    """Few batches: their boundaries are others' concern."""
    size = r.randint(1, len(stream))
    return Batch(tuple(stream[:size])), Batch(tuple(stream[size:]))


def _readable(text: str, nested: dict[str, str]) -> str:
    """A query in which the streams that nobody publishes are the queries in parentheses."""
    return re.sub(r"\bq\d\d(?=/)", lambda m: _parenthesised(m[0], nested), text)


def _parenthesised(stream: str, nested: dict[str, str]) -> str:
    return f"({nested[stream]}) " if stream in nested else stream


def _rows(saxon: Saxon, statements: list[str], label: str) -> list[Row]:
    """What the last of these queries finds; nothing where it is refused, which others may find out."""
    try:
        queries = xscl.check([xscl.parse(PREAMBLE + ";\n".join(statements))]).queries
    except xscl.XsclError:
        return []
    return [row for row in saxon.ask(queries).rows if row.query == label]

"""Random cases in which queries read what others publish, by PUBLISH or in parentheses.

The readers are made by the project's generator, which reads its blocks off documents: those of the
case, and the results that Saxon finds for the queries that are to be read.
"""

from __future__ import annotations

import re
from random import Random

import xscl
from tests.oracle.generate import WEEK, Batch, Case, Subscribe
from tests.oracle.generate_documents import documents
from tests.oracle.generate_queries import PREAMBLE, Maker
from tests.oracle.oracle import Arrival
from tests.saxon.rows import Row
from tests.saxon.witness import Saxon

READ = 8
"""A query with more results than this is read by no other."""

KEPT = 100
"""A query with more results than this is not worth its time."""


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
    size = r.randint(1, len(fresh))
    batches = (Batch(tuple(fresh[:size])), Batch(tuple(fresh[size:])))
    subscription = Subscribe(PREAMBLE + ";\n".join(statements), ())
    return Case(WEEK, (subscription, *batches))


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

"""Runs one case with the engine and with Saxon, and gives their differences.

A case is queries first, then documents of different ids, none of them late. The engine gets them
batch by batch, Saxon sees them all at once.
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass

import xscl
from broker import Broker
from tests.oracle.generate import Batch, Case, Subscribe
from tests.oracle.oracle import Arrival
from tests.properties.reduce import reduce
from tests.saxon.engine import Rows, document
from tests.saxon.rows import Row
from tests.saxon.witness import Answer, Saxon


@dataclass(frozen=True, slots=True)
class Comparison:
    """`kind` tells failures apart while one is being reduced, None where the answers are the same.

    `answered` counts the queries compared, `matches` what both found for them, `left_out` has the
    queries that Saxon did not answer.
    """

    kind: str | None
    text: str = ""
    answered: int = 0
    matches: int = 0
    left_out: tuple[str, ...] = ()


def compare(case: Case) -> Comparison:
    side = "Saxon"
    try:
        wanted = _wanted(case)
        side = "the engine"
        got = _got(case, wanted)
    except xscl.XsclError as error:
        codes = ",".join(sorted({d.code for d in error.diagnostics}))
        return Comparison(f"refused {codes}", f"{case}\nrefused: {error}")
    except Exception as error:
        trace = "".join(traceback.format_exception(error)[-4:])
        kind = f"{side} raised {type(error).__name__}"
        return Comparison(kind, f"{case}\n{kind}: {trace}")
    left_out = tuple(wanted.left_out.values())
    if Counter(wanted.rows) == Counter(got):
        answered = len(wanted.homes) - len(wanted.left_out.keys() & wanted.homes.keys())
        return Comparison(None, "", answered, len(got), left_out)
    return Comparison("differs", _difference(case, wanted.rows, got))


def reduced(case: Case, trials: int) -> str:
    """A failing case as a text, made as small as `trials` allow while it fails alike."""
    kind = compare(case).kind
    assert kind is not None
    return compare(reduce(case, lambda smaller: compare(smaller).kind == kind, trials)).text


def _documents(case: Case) -> list[Arrival]:
    return [d for event in case.events if isinstance(event, Batch) for d in event.documents]


def _wanted(case: Case) -> Answer:
    files = [xscl.parse(e.text) for e in case.events if isinstance(e, Subscribe)]
    queries = [query for file in files for query in xscl.check([file]).queries]
    return Saxon(_documents(case)).ask(queries)


def _got(case: Case, wanted: Answer) -> list[Row]:
    with Broker(lateness=case.lateness / 10**6) as broker:
        rows = Rows(broker, _documents(case), wanted.homes)
        found: list[Row] = []
        for event in case.events:
            if isinstance(event, Subscribe):
                broker.subscribe(event.text)
            elif isinstance(event, Batch):
                matches = broker.process([document(arrival) for arrival in event.documents])
                found += (rows.row(m) for m in matches if m.query not in wanted.left_out)
        assert not broker.dead_letters(), broker.dead_letters()
        return sorted(found)


def _difference(case: Case, wanted: list[Row], got: list[Row]) -> str:
    lines = []
    for event in case.events:
        if isinstance(event, Subscribe):
            lines.append(f"subscribe:\n{event.text}")
        elif isinstance(event, Batch):
            lines += ["batch:", *(f"  {arrival}" for arrival in event.documents)]
    missing, extra = Counter(wanted) - Counter(got), Counter(got) - Counter(wanted)
    lines += [f"  both:        {row}" for row in got if not extra[row]]
    lines += [f"  SAXON ONLY:  {row}" for row in missing.elements()]
    lines += [f"  ENGINE ONLY: {row}" for row in extra.elements()]
    return "\n".join(lines)

"""A short form for tests of the oracle: XSCL text and documents in, matches out."""

from __future__ import annotations

import xscl
from tests.oracle.matches import Found
from tests.oracle.oracle import Arrival, Oracle

SECOND = 1_000_000


def doc(
    name: str,
    at: float,
    xml: str,
    *streams: str,
    seq: int | None = None,
    revision: bool = False,
    source: str | None = None,
) -> Arrival:
    """A document at `at` seconds, through stream S unless others are named."""
    return Arrival(name, streams or ("S",), round(at * SECOND), xml, source, seq, revision)


def subscribed(text: str, lateness: float | None = None) -> Oracle:
    """An oracle with the queries of a file; `lateness` in seconds."""
    oracle = Oracle(None if lateness is None else round(lateness * SECOND))
    for query in xscl.check([xscl.parse(text)]).queries:
        oracle.subscribe(query)
    return oracle


def ask(text: str, *documents: Arrival, lateness: float | None = None) -> list[Found]:
    """All matches of the queries over the documents in order of arrival."""
    return subscribed(text, lateness).process(documents)


def pairs(found: list[Found]) -> list[str]:
    """The documents of each match, as "d1 d2", sorted; repeated where nodes tell matches apart."""
    return sorted(" ".join(name for name, _ in match.documents) for match in found)

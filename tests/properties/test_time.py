"""Laws of time: order within the lateness changes no match, whatever the streams' lateness, the
batches, what has expired meanwhile and how often the clock was asked; what is later is kept aside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given

from broker.documents.witnessing import arrivals as witnessed
from broker.engine import Engine
from broker.model import Match
from broker.query.prepared import compile_query
from broker.shared_match import each_match
from broker.state.store import Store
from feeds.rows import DocumentRow
from tests.oracle.generate import WEEK, Batch, Case, Subscribe, steady
from tests.oracle.generate_documents import STREAMS, Level, documents
from tests.oracle.oracle import Arrival
from tests.properties.test_engine import law, randoms
from xscl import check, parse
from xscl.stage1.document import encode_text

SECOND = 1_000_000


class Running:
    """An engine under clocks that stand still unless they are moved, in microseconds."""

    def __init__(
        self, text: str, state: Path | None = None, idle: int = SECOND, **more: object
    ) -> None:
        self.now = 0
        self._more = {"idle": idle, "steady": lambda: self.now, **more}
        self._state = state
        self.engine = self._opened()
        queries = check([parse(text)]).queries
        self.engine.subscribe([compile_query(query) for query in queries])

    def _opened(self) -> Engine:
        return Engine(Store(self._state), **self._more)  # type: ignore[arg-type]

    def restart(self) -> None:
        self.engine.store.close()
        self.engine = self._opened()

    def put(self, arrivals: Sequence[Arrival], now: int | None = None) -> list[Match]:
        rows = []
        for a in arrivals:
            xml = a.xml if isinstance(a.xml, bytes) else encode_text(a.xml)
            source, id = a.key
            at = a.timestamp
            rows.append(DocumentRow(source, id, a.streams, at, True, None, False, xml, place=id))
        return each_match(self.engine.apply(witnessed(self.engine.matcher, rows), now))


def in_order(case: Case) -> tuple[str, list[Arrival]]:
    """The queries of a case, and its documents in order of time."""
    (subscribe, *batches) = case.events
    assert isinstance(subscribe, Subscribe)
    stream = [d for batch in batches if isinstance(batch, Batch) for d in batch.documents]
    return subscribe.text, sorted(stream, key=lambda d: d.timestamp)


def told(matches: list[Match]) -> list[tuple[str, str]]:
    return sorted((m.id, m.result) for m in matches)


def delayed(
    r: Random, stream: list[Arrival], lateness: dict[str, int]
) -> list[tuple[int, Arrival]]:
    """Each document with the time of its arrival, no later than its stream allows; in that
    order."""
    arriving = []
    for document in stream:
        allowed = max(lateness.get(name, lateness[""]) for name in document.streams)
        delay = r.choice((0, allowed, r.randint(0, allowed)))
        arriving.append((document.timestamp + delay, document))
    r.shuffle(arriving)
    return sorted(arriving, key=lambda pair: pair[0])


@pytest.mark.parametrize("level", ["core", "full"])
@pytest.mark.parametrize("live", [False, True])
@law
@given(r=randoms)
def test_order_within_each_streams_lateness_changes_nothing(
    level: Level, live: bool, r: Random
) -> None:
    """`live`: the clock is told and asked all the time, so that windows close between documents."""
    text, stream = in_order(steady(r, level, derived=level == "full"))
    expected = told(Running(text).put(stream))
    lateness = {name: r.choice((0, SECOND // 2, 2 * SECOND, WEEK)) for name in ("", *STREAMS)}
    if r.randint(0, 1):
        del lateness[r.choice(STREAMS)]
    of = {name: own for name, own in lateness.items() if name}
    found: list[Match] = []
    with tempfile.TemporaryDirectory() as directory:
        running = Running(
            text,
            Path(directory),
            r.choice((0, SECOND)),
            lateness=lateness[""],
            lateness_of=of,
            expiry_every=1,
        )
        arriving = delayed(r, stream, lateness)
        highest = -(2**62)
        running.now = arriving[0][0]
        while arriving:
            size = r.randint(1, 3)
            batch, arriving = arriving[:size], arriving[size:]
            if live and r.randint(0, 1):
                running.now = r.randint(running.now, batch[0][0])
                running.engine.tick(running.now)
            running.now = batch[-1][0]
            now = running.now if live else None
            found += running.put([document for _, document in batch], now)
            if r.randint(0, 3) == 0:
                running.restart()
            newest = running.engine.newest()
            assert newest >= highest
            highest = newest
        assert running.engine.letters() == []
        assert told(found) == expected
        running.engine.store.close()


@law
@given(r=randoms)
def test_what_is_later_is_kept_aside_with_the_reason(r: Random) -> None:
    text, stream = in_order(steady(r))
    lateness = {name: r.choice((0, SECOND // 2, 2 * SECOND)) for name in ("", *STREAMS)}
    of = {name: own for name, own in lateness.items() if name}
    expected = told(Running(text).put(stream))
    late = documents(r, "core", 3)
    running = Running(text, lateness=lateness[""], lateness_of=of)
    sequence = [document for _, document in delayed(r, stream, lateness)]
    found: list[Match] = []
    dead: list[str] = []
    highest = None
    for number, document in enumerate(sequence):
        found += running.put([document])
        highest = document.timestamp if highest is None else max(highest, document.timestamp)
        if number < len(late):
            allowed = max(of.get(name, lateness[""]) for name in late[number].streams)
            at = highest - allowed - r.choice((1, SECOND))
            id = f"late{number}"
            found += running.put([replace(late[number], source="late", id=id, timestamp=at)])
            dead.append(id)
    assert told(found) == expected
    letters = running.engine.letters()
    assert [each.id for each in letters] == dead
    assert all(each.reason.startswith("late: ") for each in letters)


def test_the_edge_of_the_lateness_is_within_it() -> None:
    running = Running("q: S//a", lateness=0, lateness_of={"R": 5 * SECOND, "T": 0})
    newest = 10 * SECOND
    assert len(running.put([_a("new", newest)])) == 1
    assert running.put([_a("old", newest - 5 * SECOND - 1, "R")]) == []
    assert len(running.put([_a("both", newest - 5 * SECOND, "S", "R")])) == 1
    assert running.put([_a("most", newest - 1, "S", "T")]) == []
    reasons = {each.id: each.reason for each in running.engine.letters()}
    assert reasons.keys() == {"old", "most"}
    assert reasons["old"].endswith("and 5 s allowed")


def _a(id: str, timestamp: int, *streams: str) -> Arrival:
    return Arrival(id, streams or ("S",), timestamp, f"<a><t>{id[:1]}</t></a>")

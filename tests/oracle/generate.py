"""Random cases: the events in the life of a broker, as plain data.

A case is a lateness and a list of events: subscribe (XSCL text), unsubscribe (an id), a batch of
documents. Draws come from a `random.Random`; hypothesis hands in one that shrinks
(`st.randoms(use_true_random=False)`), the deep run a seeded one. The level says how much of the
language is used: "core" is bare-variable equalities and constants in filters, "full" all of the
language's first part, and in `case` also streams of results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.oracle.generate_documents import SECOND, Level, documents, echoes
from tests.oracle.generate_queries import PREAMBLE, Maker
from tests.oracle.oracle import Arrival

WEEK = 7 * 24 * 3600 * SECOND


@dataclass(frozen=True, slots=True)
class Subscribe:
    """`text` is one file of queries, whose ids are `ids`."""

    text: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    id: str


@dataclass(frozen=True, slots=True)
class Batch:
    documents: tuple[Arrival, ...]


Event = Subscribe | Unsubscribe | Batch


@dataclass(frozen=True, slots=True)
class Case:
    """`lateness` in microseconds. `hot` and `memory` are bounds of the engine's index, which must
    change nothing: documents from which on a value is hot, and documents held in memory."""

    lateness: int
    events: tuple[Event, ...]
    hot: int = 8
    memory: int = 1_000_000

    @property
    def queries(self) -> int:
        """How many queries the case puts to the stream."""
        return sum(len(e.ids) for e in self.events if isinstance(e, Subscribe))

    def __repr__(self) -> str:
        return (
            f"Case(lateness={self.lateness}, hot={self.hot}, memory={self.memory}, events=(\n  "
            + ",\n  ".join(map(repr, self.events))
            + "))"
        )


def case(r: Random, level: Level = "core") -> Case:
    """Anything: echoes, lateness, queries that come and go between batches."""
    sequenced = r.randint(0, 4) == 4
    fresh = documents(r, level, r.randint(2, 7), sequenced)
    maker = Maker(r, level, fresh, derived=level == "full")
    stream = replayed(r, fresh) if sequenced else fresh
    if not sequenced and r.randint(0, 2):
        stream = echoes(r, level, fresh)
    if maker.derived:  # what queries find decides which of them publish
        maker.arrivals = list(stream)
    events: list[Event] = []
    standing: list[Subscribe] = []
    label = 0
    for batch in cut(r, stream):
        for _ in range(r.randint(0, 1) if events else 2):
            dice = r.randint(0, 9) if standing and len(events) > 2 else 0
            if dice >= 8:
                gone = standing.pop(r.randint(0, len(standing) - 1))
                events += [Unsubscribe(query_id) for query_id in gone.ids]
                if dice == 9:  # the same text anew
                    standing.append(gone)
                    events.append(gone)
            elif dice == 7:  # registered again while it stands: it continues
                events.append(r.choice(standing))
            elif dice == 6:  # another text under its ids takes the place of the old
                old = standing.pop(r.randint(0, len(standing) - 1))
                standing.append(_subscribe(maker, old.ids))
                events.append(standing[-1])
            elif label < 6:
                count = r.randint(1, 2)
                standing.append(_subscribe(maker, tuple(f"q{label + k + 1}" for k in range(count))))
                label += count
                events.append(standing[-1])
        events.append(batch)
    lateness = r.choice((WEEK, WEEK, 4 * SECOND, 2 * SECOND, SECOND, 0))
    return Case(lateness, tuple(events), r.choice((2, 3, 8)), r.choice((1, 2, 4, 1_000_000)))


def _subscribe(maker: Maker, ids: tuple[str, ...]) -> Subscribe:
    return Subscribe(PREAMBLE + ";\n".join(maker.query(i) for i in ids), ids)


def steady(
    r: Random,
    level: Level = "core",
    queries: int = 4,
    derived: bool = False,
    make: type[Maker] = Maker,
) -> Case:
    """Queries first, then distinct documents, none of them late: the ground of the laws.

    `derived`: whether queries read other queries' results. `make` draws them.
    """
    fresh = documents(r, level, r.randint(2, 7))
    maker = make(r, level, fresh, derived)
    first = _subscribe(maker, tuple(f"q{k + 1}" for k in range(queries)))
    cuts = cut(r, fresh)
    return Case(WEEK, (first, *cuts), r.choice((2, 3, 8)), r.choice((1, 2, 4, 1_000_000)))


def replayed(r: Random, stream: list[Arrival]) -> list[Arrival]:
    """A sequenced stream of which a stretch is sent twice, as after a restart from a checkpoint.

    What was applied by its number is dropped by its number, whatever id it has the second time.
    """
    end = r.randint(1, len(stream))
    start = r.randint(0, end - 1)
    again = stream[start:end]
    if r.randint(0, 1):
        again = [replace(arrival, id=f"{arrival.id}x") for arrival in again]
    return [*stream[:end], *again, *stream[end:]]


def cut(r: Random, stream: list[Arrival]) -> list[Batch]:
    """The stream in batches of any size, one of them now and then empty."""
    batches: list[Batch] = []
    rest = list(stream)
    while rest:
        size = r.choice((1, 2, 3, len(rest), 0))
        batches.append(Batch(tuple(rest[:size])))
        rest = rest[size:]
    return batches


def recut(r: Random, of: Case) -> Case:
    """The same case, cut otherwise between the subscriptions' comings and goings."""
    events: list[Event] = []
    stream: list[Arrival] = []
    for event in of.events:
        if isinstance(event, Batch):
            stream += event.documents
            continue
        events += cut(r, stream)
        stream = []
        events.append(event)
    return replace(of, events=(*events, *cut(r, stream)))


def reordered(r: Random, of: Case) -> Case:
    """A steady case with its documents arriving in another order."""
    stream = [d for e in of.events if isinstance(e, Batch) for d in e.documents]
    r.shuffle(stream)
    kept = tuple(e for e in of.events if not isinstance(e, Batch))
    return replace(of, events=(*kept, *cut(r, stream)))

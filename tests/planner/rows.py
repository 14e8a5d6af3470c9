"""Rows for a registered pattern without documents, and a brute force over all their combinations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import xscl
from broker.pattern.instances import Row
from broker.pattern.plan import Plan
from broker.pattern.standing import Standing
from broker.query.patterns import pattern_query


@dataclass(frozen=True)
class Event:
    """An event of a kind at a time (microseconds), with a key and a value."""

    number: int
    kind: str
    time: int
    key: int
    value: int


def compiled(text: str) -> Plan:
    """The plan of a query whose blocks are `S/a[./k->k0][./v->v0]` and so on: an event has its kind
    as name, its key as `k` and its value as `v`."""
    (query,) = xscl.check([xscl.parse(text)]).queries
    return pattern_query(query).plan


def events(
    random: Random, kinds: Mapping[str, int], length: int, first: int = 0, begin: int = 0
) -> list[Event]:
    """So many events of each kind, at `length` times a millisecond apart, with ties; from a number
    and a time on."""
    names = [kind for kind, count in kinds.items() for _ in range(count)]
    return [
        Event(
            first + number,
            kind,
            begin + 1_000 * random.randrange(length),
            random.randrange(2),
            random.randrange(10),
        )
        for number, kind in enumerate(names)
    ]


def advance(standing: Standing, found: Sequence[Event]) -> list[tuple[int, ...]]:
    """What is published when events come, each match as the numbers of its events."""
    arrived: dict[int, list[Row]] = {}
    for place, tap in enumerate(standing.plan.taps):
        label = tap.block.steps[0].test.name
        for event in found:
            if event.kind == label:
                arrived.setdefault(place, []).append(_row(standing.plan, place, event))
    published = standing.advance(arrived, None)
    return [tuple([row.doc for row in each.instance.rows]) for each in published]


def _row(plan: Plan, place: int, event: Event) -> Row:
    tap = plan.taps[place]
    values = {text: [str(event.key if text.startswith("k") else event.value)] for text in tap.paths}
    tuples = frozenset([(str(event.key),)]) if plan.query.partition else None
    names = {path.variable or "": 1 for path in tap.paths.values()}
    at = event.time
    return Row(
        *(event.number, event.number, event.number, at, at, str(event.number), 1),
        names,
        values,
        tuples,
    )


def cuts(random: Random, found: Sequence[Event], most: int) -> Iterator[list[Event]]:
    """The events in batches of one to `most`."""
    at = 0
    while at < len(found):
        size = random.randint(1, most)
        yield [*found[at : at + size]]
        at += size

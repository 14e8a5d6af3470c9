"""Queries whose documents are sifted, and what comes to them in batches."""

from __future__ import annotations

from random import Random

import pytest

from broker.pattern.in_order import sifting
from broker.pattern.in_order.noted import Noted
from broker.pattern.in_order.standing import Together
from broker.pattern.in_order.takers import Numbers
from broker.pattern.instances import Row
from broker.query.patterns import pattern_query
from xscl import check, parse

_US = 1_000_000
VALUES = 200
TEXTS = {
    "NEXT": "S/q[./s = 'A'][./p->a] NEXT {b > a, 50 s} S/q[./s = 'B'][./p->b]",
    "FOLD": "S/q[./s = 'A'][./p->a] FOLD {, b > prev(b, a)} S/q[./s = 'B'][./p->b]"
    " WHERE count(b) >= 2 WITHIN 50 s",
    "NOT": "S/q[./s = 'A'][./p->a] FOLLOWED BY {50 s} NOT S/q[./s = 'C'][./p->c]"
    " FOLLOWED BY {50 s} S/q[./s = 'B'][./p->b] WHERE c > a",
    "group": "S/q[./s = 'A'][./p->a] FOLLOWED BY {50 s} (S/q[./s = 'C'][./p->c])+"
    " FOLLOWED BY {50 s} S/q[./s = 'B'][./p->b]",
}
PREFIXES = {
    "NOT": TEXTS["NOT"],
    "group": TEXTS["group"],
    "chain": "S/q[./s = 'A'][./p->a] NEXT {c >= a, 50 s} S/q[./s = 'C'][./p->c]"
    " NEXT {50 s} S/q[./s = 'B'][./p->b]",
    "bounds": "S/q[./s = 'A'][./p->a] NEXT {c > a, 50 s} S/q[./s = 'C'][./p->c]"
    " NEXT {b < c AND b != a, 50 s} S/q[./s = 'B'][./p->b]",
    "four": "S/q[./s = 'A'][./p->a] NEXT {c = a, 50 s} S/q[./s = 'C'][./p->c]"
    " NEXT {50 s} S/q[./s = 'C'][./p->d] NEXT {b >= d, 50 s} S/q[./s = 'B'][./p->b]",
}
Offer = tuple[int, int, Row]
"""A constant, the place of a tap, and a row."""


def together(text: str) -> Together:
    (query,) = check([parse(text)]).queries
    shared = pattern_query(query).ordered
    assert shared is not None
    return Together(shared, 10**9)


def row(standing: Together, tap: int, number: int, start: int, end: int, price: int) -> Row:
    paths = standing.shared.plan.taps[tap].paths
    return Row(
        *(number, number, number, start * _US, end * _US, f"{number:05}", 1),
        dict.fromkeys(paths, 3),
        {path: [str(price)] for path in paths},
    )


def offers(random: Random, standing: Together, count: int) -> list[list[Offer]]:
    """What comes in batches: in any order within a batch, with equal times, and some documents that
    last longer."""
    found: list[list[Offer]] = []
    taps = sorted(standing.shared.readers)
    number = at = 0
    while number < count:
        at += 3
        batch = []
        for _ in range(random.choice((1, 60, 120))):
            end = at + random.randrange(3)
            start = end - random.choice((0, 0, 2))
            number += 1
            for tap in random.sample(taps, random.choice((1, 1, 2))):
                price = random.randrange(10)
                made = row(standing, tap, number, start, end, price)
                batch.append((random.randrange(VALUES), tap, made))
        found.append(batch)
    return found


def sifting_all(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All that comes is sifted, however much of it is given to queries; how much is noted at a
    time."""
    sifted: list[int] = []
    note_all = Noted._note_all

    def noting(self: Noted, numbers: Numbers) -> tuple[Numbers, Numbers]:
        sifted.append(len(numbers))
        return note_all(self, numbers)

    monkeypatch.setattr(Noted, "_note_all", noting)
    monkeypatch.setattr(sifting, "_CONCERN", 0)
    monkeypatch.setattr(sifting, "_HEAT", 0)
    return sifted

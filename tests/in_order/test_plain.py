"""What asks little of two documents is followed in a loop of its own: it finds, consumes and keeps
what the one for all forms does, also with documents of the same time and with little to try."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker.pattern.in_order.chain_forms import Following
from broker.pattern.in_order.events import Candidate, Event
from broker.pattern.in_order.following import Follows
from broker.pattern.in_order.held import Entry
from broker.pattern.in_order.shared import Shared
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Row
from broker.query.patterns import pattern_query
from xscl import check, parse

TEXTS = {
    "no bound": "S/a[./p->p] NEXT {9 s} S/b[./p->q]",
    "a bound": "S/a[./p->p] NEXT {q > p} S/b[./p->q] WITHIN 9 s",
    "an inclusive one": "S/a[./p->p] NEXT {q >= p, 9 s} S/b[./p->q]",
    "AFTER": "S/a[./p->p] NEXT {q > p, 4 s AFTER} S/b[./p->q] WITHIN 9 s",
    "a tie": "S/a[./p->p][./s->s] NEXT {s = t AND q > p, 9 s} S/b[./p->q][./s->t]",
    "a chain": "S/a[./p->p] NEXT {q > p} S/b[./p->q] NEXT {r >= q} S/c[./p->r] WITHIN 9 s",
}


Found = tuple[list[Candidate], set[int], dict[Any, list[Entry]]]


def events(random: Random, shared: Shared, count: int) -> list[Event]:
    """Documents of a few keys for three queries, many of one time and some that last longer."""
    found: list[Event] = []
    for arrival in range(count):
        end = 1_000_000 * (arrival // random.choice((2, 3)))
        start = end - 1_000_000 * random.choice((0, 0, 1, 3))
        tap, reader = random.choice([*shared.readers.items()])
        values = {
            path: [random.choice("12") if path.endswith("s") else random.choice("123x")]
            for path in shared.plan.taps[tap].paths
        }
        key = random.choice((arrival, random.randrange(count)))
        row = Row(arrival, key, arrival, start, end, str(arrival), 1, {}, values)
        found.append(reader.event(random.randrange(3), arrival, row))
    return sorted(found)


def followed(
    form: Following, every: list[Event], budget: int, plain: bool, random: Random
) -> Found:
    """What is found of events in batches, and what is left in the end."""
    follows = Follows(form, Spending(budget), None)
    assert follows._plain
    follows._plain = plain
    found: list[Candidate] = []
    while every:
        size = random.choice((1, 5, 20))
        follows.take(every[:size], found)
        if random.random() < 0.2:
            follows.expire(every[min(size, len(every)) - 1][0])
        every = every[size:]
    over = follows.over
    left = {key: [*part] for key, part in follows.parts.items() if key_owner(key) not in over}
    return found, over, left


def key_owner(key: object) -> object:
    return key[0] if isinstance(key, tuple) else key


@pytest.mark.parametrize("budget", [1, 4, 10**6])
@pytest.mark.parametrize("name", TEXTS)
def test_it_follows_as_the_loop_for_all_forms(name: str, budget: int) -> None:
    (query,) = check([parse(TEXTS[name])]).queries
    shared = pattern_query(query).ordered
    assert shared is not None
    form = shared.form
    assert isinstance(form, Following)
    some = False
    for seed in range(40):
        every = events(Random(seed), shared, 120)
        ways = [followed(form, every, budget, way, Random(seed)) for way in (True, False)]
        assert ways[0] == ways[1], f"seed {seed}"
        some = some or bool(ways[0][0])
    assert some

"""What patterns have not decided yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from operator import attrgetter

from broker.model import COUNTED, UNBOUNDED, Waiting
from broker.pattern.trying import TooMuch, allowed
from broker.standing.live import Live

_TRIED = 100_000
"""Choices that are tried to tell what waits, and choices among nodes; with more, patterns are taken
to wait for what they look at next."""


def waiting(awake: Iterable[Live], owner_of: Callable[[str], str]) -> list[Waiting]:
    """What the patterns that have rows have not decided yet, what is decided first in front, each
    for the query that owns it."""
    counts: dict[str, int] = {}
    soonest: dict[str, int] = {}
    left = _TRIED
    with allowed(_TRIED):
        for pattern in sorted(awake, key=_number):
            dues: list[int] = []
            left -= _look(pattern, dues, left)
            for subscription in pattern.subscriptions.values() if dues else ():
                owner = owner_of(subscription.id)
                counts[owner] = min(COUNTED, counts.get(owner, 0) + len(dues))
                soonest[owner] = min(soonest.get(owner, UNBOUNDED), *dues)
    found = [
        Waiting(id, counts[id], None if soonest[id] >= UNBOUNDED else soonest[id]) for id in counts
    ]
    return sorted(found, key=lambda each: (each.decides or UNBOUNDED, each.query))


def _look(pattern: Live, dues: list[int], tries: int) -> int:
    """Adds the highest times at which it is decided what a pattern has not decided yet; returns how
    many choices were tried."""
    standing = pattern.standing
    assert standing is not None
    try:
        for due, _ in islice(standing.waiting(tries), COUNTED):
            dues.append(pattern.highest(due))
    except TooMuch:
        dues.append(pattern.due)
    return standing.tried(tries)


def latest(awake: Iterable[Live]) -> int | None:
    """The highest time at which all is decided, but for what waits for ever."""
    found: list[int] = []
    for pattern in awake:
        if pattern.standing is None:
            continue
        try:
            found += [pattern.highest(due) for due, _ in pattern.standing.waiting()]
        except TooMuch:
            found.append(pattern.due)
    return max([time for time in found if time < UNBOUNDED], default=None)


_number = attrgetter("number")

"""What patterns have not decided yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from broker.model import COUNTED, UNBOUNDED, Waiting
from broker.standing.live import Live


def waiting(awake: Mapping[int, Live], owner_of: Callable[[str], str]) -> list[Waiting]:
    """What the patterns that have rows have not decided yet, what is decided first in front, each
    for the query that owns it."""
    counts: dict[str, int] = {}
    soonest: dict[str, int] = {}
    for _, pattern in sorted(awake.items()):
        assert pattern.standing is not None
        dues = [due for due, _ in islice(pattern.standing.waiting(), COUNTED)]
        highest = pattern.highest(min(dues)) if dues else UNBOUNDED
        for subscription in pattern.subscriptions.values() if dues else ():
            owner = owner_of(subscription.id)
            counts[owner] = min(COUNTED, counts.get(owner, 0) + len(dues))
            soonest[owner] = min(soonest.get(owner, UNBOUNDED), highest)
    found = [
        Waiting(id, counts[id], None if soonest[id] >= UNBOUNDED else soonest[id]) for id in counts
    ]
    return sorted(found, key=lambda each: (each.decides or UNBOUNDED, each.query))


def latest(awake: Iterable[Live]) -> int | None:
    """The highest time at which all that waits is decided, but for what waits for ever."""
    found = [
        highest
        for pattern in awake
        if pattern.standing is not None
        for due, _ in pattern.standing.waiting()
        if (highest := pattern.highest(due)) < UNBOUNDED
    ]
    return max(found, default=None)

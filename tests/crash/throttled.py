"""The matches that throttles leave out, whose number is known although the choice depends on
timing. Which of the matches of a period goes out depends on the order in which they were found;
that one does, and how many do not, does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from typing import Any

from tests.crash.desk import Throttle
from tests.crash.expected import Hit, Key

_MINUTE = 60_000_000


def left_out(
    throttle: Throttle,
    hits: Collection[Hit],
    log: Mapping[int, tuple[Key, Mapping[str, Any]]],
    told: int | None,
    perhaps: int = 0,
) -> Counter[Key]:
    """The matches that are rightly not in the log. `told`: how many the service says there are, if
    it still does; `perhaps`: how many more may have been found. Two of one key are of queries that
    took each other's place.

    Of two in the log that share a value, the ends are a period apart; and one that is not there
    ends less than a period from one that is. Raises AssertionError.
    """
    found = Counter(key for key, _ in log.values())
    period = throttle.minutes * _MINUTE

    def near(one: Hit, other: Hit) -> bool:
        shared = throttle.variable is None or bool(one.values & other.values)
        return shared and abs(one.end - other.end) < period

    there: list[Hit] = []
    absent: list[Hit] = []
    for hit in hits:
        (there if found[hit.key] > 0 else absent).append(hit)
        found[hit.key] -= 1
    for one, other in combinations(there, 2):
        assert not near(one, other), f"both went out: {one}, {other}"
    for hit in absent:
        assert any(near(hit, other) for other in there), f"left out for nothing: {hit}"
    assert told is None or told == len(absent), (
        f"{told} left out, not {len(absent)}: {_some(absent)}"
    )
    counted = sum(delivered.get("left_out", 0) for _, delivered in log.values())
    assert counted <= len(absent) + perhaps, f"{counted} told as left out, of {len(absent)}"
    return Counter(hit.key for hit in absent)


def _some(hits: Iterable[Hit]) -> list[Key]:
    return [hit.key for hit in hits][:3]

"""Runs that are not over: found by the documents that concern them.

A document touches the runs of its partition that await it, however many others there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

from broker.pattern.instances import Instance, Row
from broker.pattern.plan import Group, Leaf


@dataclass(slots=True, eq=False)
class Run:
    """`at` is the item that it awaits or is in; `chosen` are the documents of single items,
    `elements` those of groups, `partial` those of an element that is not complete. `last` is the
    document that it took last, `closed` the end of what it may not skip: nothing that ends later
    can be taken. `left` are groups that were left or passed over, `asked` the variables of which
    conjuncts were asked when it took its last document. It starts at `start`."""

    partition: tuple[str, ...] | None
    at: int = 0
    chosen: tuple[tuple[Leaf, Row], ...] = ()
    elements: Mapping[Group, tuple[Instance, ...]] = field(default_factory=dict)
    partial: tuple[tuple[Leaf, Row], ...] = ()
    last: Row | None = None
    keys: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset()
    asked: frozenset[str] = frozenset()
    closed: int | None = None
    start: int = 0

    def taking(self, row: Row, **changes: object) -> Run:
        return replace(
            self,
            last=row,
            start=row.start if self.last is None else self.start,
            keys=self.keys | {row.key},
            closed=None,
            **changes,  # type: ignore[arg-type]
        )


Awaited = tuple[tuple[str, ...] | None, int | None]
"""A partition and a block's tap, None for all of them."""


class LiveRuns:
    """Runs by what concerns them, so that a document finds those that it concerns."""

    def __init__(self) -> None:
        self._at: dict[Awaited, dict[int, Run]] = {}
        self._places: dict[int, tuple[Run, list[Awaited]]] = {}
        self._ending: list[tuple[int, int, Run]] = []
        self._number = count()

    def add(self, run: Run, places: Iterable[Awaited]) -> None:
        own = [*dict.fromkeys(places)]
        if own:
            self._places[id(run)] = run, own
        for place in own:
            self._at.setdefault(place, {})[id(run)] = run

    def copy(self) -> LiveRuns:
        """The same runs, which may go on without a change to these."""
        twin = LiveRuns()
        for run, places in self._places.values():
            twin.add(replace(run), places)
        return twin

    def at(self, places: Iterable[Awaited]) -> list[Run]:
        found: dict[int, Run] = {}
        for place in dict.fromkeys(places):
            found.update(self._at.get(place, {}))
        return [*found.values()]

    def drop_after(self, run: Run, end: int) -> None:
        """Drop a run when the watermark is beyond a time, as it takes nothing that ends later."""
        if id(run) in self._places:
            heappush(self._ending, (end, next(self._number), run))

    def drop(self, watermark: int) -> None:
        while self._ending and self._ending[0][0] < watermark:
            self._remove(heappop(self._ending)[-1])

    def expire(self, horizon: int) -> None:
        """Drop the runs whose last document ended before a time. They were added in order of these
        ends."""
        gone: list[Run] = []
        for run, _ in self._places.values():
            if run.last is not None and run.last.end >= horizon:
                break
            gone.append(run)
        for run in gone:
            self._remove(run)

    def _remove(self, run: Run) -> None:
        _, places = self._places.pop(id(run), (run, []))
        for place in places:
            del self._at[place][id(run)]
            if not self._at[place]:
                del self._at[place]

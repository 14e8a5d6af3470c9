"""A group that is the whole pattern: each element that may be first begins one, of what follows it
within the window; groups that others contain are left out (Part 2, "Groups").

Each first element is judged when its group is decided, and among what the window holds only. What
could contain its group begins before it, and is decided by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from broker.pattern.candidates import Candidate
from broker.pattern.groups import from_first
from broker.pattern.instances import NEVER, Instance, due_beyond
from broker.pattern.plan import Group, Unit
from broker.pattern.pool import Pool
from broker.pattern.setting import Setting
from broker.pattern.timing import Timing

Key = tuple[int, ...]
"""The documents of an element."""


class _Group(NamedTuple):
    end: int
    elements: frozenset[Key]


class _Judged(NamedTuple):
    """The group that begins with an element. `stands`: it passes, and no other one contains it."""

    instance: Instance
    group: _Group
    stands: bool


class AloneGroups:
    """The groups of one variant that is nothing else, given as a candidate in which nothing is
    chosen; `pools` has the elements."""

    def __init__(
        self, unit: Unit, setting: Setting, nothing: Candidate, pools: Mapping[Group, Pool]
    ) -> None:
        (self._group,) = nothing.variant.groups
        self._unit = unit
        self._setting = setting
        self._nothing = nothing
        self._pool = pools[self._group]
        self._firsts: list[tuple[int, int, Instance]] = []
        """The elements that may be first and are not judged, by when they may be."""
        self._known: dict[Key, int] = {}
        """The elements that were entered, with their ends."""
        self._number = 0
        self._decided: list[_Group] = []
        """Groups that may contain others."""

    @property
    def group(self) -> Group:
        return self._group

    def enter(self, elements: Iterable[Instance]) -> None:
        """Note elements that are new in the pool."""
        for each in elements:
            key = key_of(each)
            if key not in self._known:
                self._known[key] = each.end
                # A group that has as many elements as it may have is decided at its end.
                due = self._last_due(each) if self._group.most is None else due_beyond(each.end)
                self._later(each, due)

    def _last_due(self, first: Instance) -> int:
        within = self._unit.within
        return NEVER if within is None else due_beyond(first.start + within)

    def _later(self, first: Instance, due: int) -> None:
        self._number += 1
        heappush(self._firsts, (due, self._number, first))

    def settle(self, watermark: int | None) -> list[Instance]:
        """The groups that are decided now."""
        if watermark is None:
            return []
        ready: list[Instance] = []
        while self._firsts and self._firsts[0][0] <= 2 * watermark:
            ready.append(heappop(self._firsts)[-1])
        ready.sort(key=lambda each: each.order)
        found = []
        for first in ready:
            judged = self._judge(first, self._decided)
            if judged is not None and judged.instance.due <= 2 * watermark:
                _note(judged.group, self._decided)
                if judged.stands:
                    found.append(judged.instance)
            elif judged is not None or self._last_due(first) > 2 * watermark:
                due = NEVER if judged is None else judged.instance.due
                again = 2 * watermark + 1 if self._group.most is not None else due
                self._later(first, min(again, due))
        if ready and self._unit.within is not None:
            begin = watermark - self._unit.within
            self._decided = [each for each in self._decided if each.end >= begin]
        return found

    def _judge(self, first: Instance, decided: Sequence[_Group]) -> _Judged | None:
        """The group that begins with an element, None if there is none."""
        within = self._unit.within
        window = None if within is None else (first.start - 1, first.start + within + 1)
        variant = self._nothing.variant
        filling = from_first(
            self._unit, self._setting, variant, self._group, self._pool, first, window
        )
        if filling is None:
            return None
        timing = Timing(variant, within, {}, filling.filled)
        instance = self._nothing.filled(filling, timing)
        if instance is None:
            return None
        keys = [*map(key_of, filling.filled[self._group])]
        elements = frozenset(keys)
        # What does not reach the last element is told apart at once.
        contained = any(keys[-1] in each.elements and elements < each.elements for each in decided)
        stands = not contained and self._nothing.passes(instance)
        return _Judged(instance, _Group(instance.last, elements), stands)

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        return self._firsts[0][0] if self._firsts else NEVER

    def expire(self, horizon: int) -> None:
        self._known = {key: end for key, end in self._known.items() if end >= horizon}

    def waiting(self) -> Iterator[tuple[int, Instance]]:
        """What is not decided, with its `due`."""
        decided = [*self._decided]
        for first in sorted([each for _, _, each in self._firsts], key=lambda each: each.order):
            judged = self._judge(first, decided)
            if judged is not None:
                _note(judged.group, decided)
                if judged.stands:
                    yield judged.instance.due, judged.instance


def _note(group: _Group, decided: list[_Group]) -> None:
    if not any(group.elements < each.elements for each in decided):
        decided.append(group)


def key_of(instance: Instance) -> Key:
    return tuple([row.key for row in instance.rows])

"""Pools: instances by time, and by the values that conjuncts compare."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from broker.pattern.instances import Instance

_start = attrgetter("start")


class Wanted(NamedTuple):
    """Instances that start after one time and end before another, and of whose path, as it is
    written, a value is among `values`. None: no such bound."""

    after: int | None = None
    before: int | None = None
    path: str | None = None
    values: Sequence[str] = ()


PARTITION = "\0partition"
"""What the tuples of PARTITION BY are indexed by."""


class Pool:
    """Instances in order of their start, and by values of their variables. `paths` are those by
    which they are looked up, each with its variable."""

    def __init__(self) -> None:
        self._sorted: list[Instance] = []
        self._by: dict[str, tuple[str, dict[object, list[Instance]]]] = {}

    def index(self, path: str, variable: str) -> None:
        """Have instances found by the values of a path."""
        if path in self._by:
            return
        self._by[path] = (variable, {})
        for instance in self._sorted:
            self._enter(path, instance)

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[Instance]:
        return iter(self._sorted)

    def add(self, instances: Iterable[Instance]) -> None:
        for instance in instances:
            if self._sorted and self._sorted[-1].start > instance.start:
                insort(self._sorted, instance, key=_start)
            else:
                self._sorted.append(instance)
            for path in self._by:
                self._enter(path, instance)

    def _enter(self, path: str, instance: Instance) -> None:
        variable, found = self._by[path]
        for value in _values(instance, path, variable):
            found.setdefault(value, []).append(instance)

    def find(self, wanted: Wanted) -> Iterable[Instance]:
        """The instances that may be wanted, in no order if they are found by their values."""
        after, before = wanted.after, wanted.before
        if wanted.path is not None:
            _, by_value = self._by[wanted.path]
            values = dict.fromkeys([*wanted.values, _ABSENT])
            lists = [by_value[v] for v in values if v in by_value]
            several = lists[0] if len(lists) == 1 else {id(i): i for own in lists for i in own}
            found: Iterable[Instance] = several if isinstance(several, list) else several.values()
            return [
                instance
                for instance in found
                if (after is None or instance.start > after)
                and (before is None or instance.end < before)
            ]
        low = 0 if after is None else bisect_right(self._sorted, after, key=_start)
        if before is None:
            return self._sorted[low:]
        high = bisect_left(self._sorted, before, key=_start)
        return [instance for instance in self._sorted[low:high] if instance.end < before]

    def expire(self, horizon: int) -> None:
        """Drop what ended before a time."""
        kept = [instance for instance in self._sorted if instance.end >= horizon]
        if len(kept) == len(self._sorted):
            return
        self._sorted = kept
        for path, (variable, _) in [*self._by.items()]:
            self._by[path] = (variable, {})
            for instance in kept:
                self._enter(path, instance)


_ABSENT = object()
"""What instances are found by that have no such variable, of which nothing is asked."""


def _values(instance: Instance, path: str, variable: str) -> Iterable[object]:
    if path == PARTITION:
        return instance.tuples or ()
    row = instance.single.get(variable)
    return (_ABSENT,) if row is None else dict.fromkeys(row.values[path])

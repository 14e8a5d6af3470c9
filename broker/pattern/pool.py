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
    values: Sequence[object] = ()


PARTITION = "\0partition"
"""What the tuples of PARTITION BY are indexed by."""


class Pool:
    """Instances in order of their start, and by values of their variables. `paths` are those by
    which they are looked up, each with its variable. What is looked up costs no more with what
    else is there, and to expire no more than what goes."""

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

    def alike(self) -> Pool:
        """An empty pool that finds by the same."""
        found = Pool()
        for path, (variable, _) in self._by.items():
            found.index(path, variable)
        return found

    def distinct(self, path: str) -> int:
        """How many values of a path there are."""
        return len(self._by[path][1])

    @property
    def span(self) -> int:
        """The time from the first start to the last one."""
        return self._sorted[-1].start - self._sorted[0].start if self._sorted else 0

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[Instance]:
        return iter(self._sorted)

    def add(self, instances: Iterable[Instance]) -> None:
        for instance in instances:
            _insert(self._sorted, instance)
            for path in self._by:
                self._enter(path, instance)

    def _enter(self, path: str, instance: Instance) -> None:
        variable, found = self._by[path]
        for value in _values(instance, path, variable):
            _insert(found.setdefault(value, []), instance)

    def find(self, wanted: Wanted) -> Iterable[Instance]:
        """The instances that may be wanted, in no order if they are found by several values."""
        if wanted.path is None:
            return _between(self._sorted, wanted)
        _, by_value = self._by[wanted.path]
        values = dict.fromkeys([*wanted.values, _ABSENT])
        lists = [by_value[value] for value in values if value in by_value]
        if len(lists) == 1:
            return _between(lists[0], wanted)
        return {id(each): each for own in lists for each in _between(own, wanted)}.values()

    def expire(self, horizon: int) -> None:
        """Drop what ended before a time."""
        gone = _expire(self._sorted, horizon)
        for path, (variable, found) in self._by.items():
            values = {value for each in gone for value in _values(each, path, variable)}
            for value in values:
                _expire(found[value], horizon)
                if not found[value]:
                    del found[value]


def _insert(ordered: list[Instance], instance: Instance) -> None:
    if ordered and ordered[-1].start > instance.start:
        insort(ordered, instance, key=_start)
    else:
        ordered.append(instance)


def _between(ordered: list[Instance], wanted: Wanted) -> list[Instance]:
    after, before = wanted.after, wanted.before
    low = 0 if after is None else bisect_right(ordered, after, key=_start)
    if before is None:
        return ordered[low:]
    high = bisect_left(ordered, before, key=_start)
    return [instance for instance in ordered[low:high] if instance.end < before]


def _expire(ordered: list[Instance], horizon: int) -> list[Instance]:
    """Drop what ended before a time, and return it. What starts later is not looked at."""
    high = bisect_left(ordered, horizon, key=_start)
    gone = [each for each in ordered[:high] if each.end < horizon]
    ordered[:high] = [each for each in ordered[:high] if each.end >= horizon]
    return gone


_ABSENT = object()
"""What instances are found by that have no such variable, of which nothing is asked."""


def _values(instance: Instance, path: str, variable: str) -> Iterable[object]:
    if path == PARTITION:
        return (_ABSENT,) if instance.tuples is None else instance.tuples
    row = instance.single.get(variable)
    return (_ABSENT,) if row is None else dict.fromkeys(row.values[path])

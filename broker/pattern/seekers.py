"""Seekers: who looks for a successor, and what may be one for whom.

A new document concerns those that have found nothing yet and those for which it is sooner, among
the seekers that are tied to its values; what others have found costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.pattern.absences import sides
from broker.pattern.instances import (
    Instance,
    Tuples,
    due_from,
)
from broker.pattern.plan import Conjunct, Leaf, Unit
from broker.pattern.pool import PARTITION
from broker.pattern.setting import Source
from broker.pattern.values import Scope, path_text
from xscl import ast
from xscl.interruption import PENDING, check


@dataclass(slots=True, eq=False)
class Seeker:
    """`left` and the `taken` of its iteration; it ends at `end`. `soonest` are those that end
    at `soonest_end`, `given` those of them that were. `own` finds its successors if they
    depend on where they may begin."""

    left: Instance
    taken: tuple[Instance, ...]
    end: int
    keys: frozenset[int]
    tuples: Tuples
    computed: Mapping[str, Any]
    soonest_end: int | None = None
    soonest: list[Successor] = field(default_factory=list)
    given: set[int] = field(default_factory=set)
    own: Source | None = None


@dataclass(slots=True, eq=False)
class Successor:
    instance: Instance
    tuples: Tuples
    scope: Scope
    goes: bool = True

    def due(self, seeker: Seeker) -> int:
        dues = [seeker.left.due, self.instance.due, due_from(self.instance.last)]
        return max(*dues, *[each.due for each in seeker.taken])


Tie = tuple[ast.Path, ast.Path]
"""Two paths that an equality compares: of the left operand, and of the right one."""


def tie_of(left: Unit, right: Unit, conjuncts: Sequence[Conjunct]) -> Tie | None:
    """An equality by which seekers and what succeeds them are found."""
    ours, theirs = (_of_blocks(unit) for unit in (left, right))
    for each in conjuncts:
        for one, other in sides(each):
            if one.variable in ours and other.variable in theirs:
                return one, other
    return None


def _of_blocks(unit: Unit) -> set[str]:
    """The variables of a unit's blocks."""
    return {name for item in unit.order if isinstance(item, Leaf) for name in item.variables}


class _Bucket:
    """Seekers of one value: those that have found nothing, and the others in order of
    `soonest_end`, which only what is sooner concerns."""

    def __init__(self) -> None:
        self._hungry: dict[int, Seeker] = {}
        self._fed: list[Seeker] = []

    def __bool__(self) -> bool:
        return bool(self._hungry or self._fed)

    def add(self, seeker: Seeker) -> None:
        if seeker.soonest_end is None:
            self._hungry[id(seeker)] = seeker
        else:
            insort(self._fed, seeker, key=_soonest_end)

    def remove(self, seeker: Seeker) -> None:
        if seeker.soonest_end is None:
            del self._hungry[id(seeker)]
            return
        at = bisect_left(self._fed, seeker.soonest_end, key=_soonest_end)
        while self._fed[at] is not seeker:
            at += 1
        del self._fed[at]

    def may_seek(self, end: int) -> Iterator[Seeker]:
        """The seekers that may seek what ends at a time."""
        yield from self._hungry.values()
        yield from self._fed[bisect_left(self._fed, end, key=_soonest_end) :]


def _soonest_end(seeker: Seeker) -> int:
    assert seeker.soonest_end is not None
    return seeker.soonest_end


class Seekers:
    """Seekers, by the values of a tie if there is one, else by their partitions. `path` and
    `variable` are those by which what they seek is found, None if there is neither."""

    def __init__(self, tie: Tie | None, partitioned: bool) -> None:
        self._tie = tie
        self._all: dict[int, Seeker] = {}
        self._by: dict[object, _Bucket] = {}
        self.path: str | None = None
        self.variable = ""
        if tie is not None:
            self.path, self.variable = path_text(tie[1]), tie[1].variable or ""
        elif partitioned:
            self.path = PARTITION

    def __iter__(self) -> Iterator[Seeker]:
        return iter(self._all.values())

    def __contains__(self, seeker: Seeker) -> bool:
        return id(seeker) in self._all

    def values(self, seeker: Seeker) -> Sequence[object] | None:
        """The values that a successor must have one of; None for any, as nothing is asked of what
        is absent."""
        if self._tie is not None:
            path = self._tie[0]
            row = seeker.left.single.get(path.variable or "")
            return None if row is None else row.values[path_text(path)]
        if self.path is None or seeker.tuples is None:
            return None
        return [*seeker.tuples]

    def _keys(self, seeker: Seeker) -> Iterable[object]:
        values = self.values(seeker)
        return (_UNTIED,) if values is None else dict.fromkeys(values)

    def add(self, seeker: Seeker) -> None:
        self._all[id(seeker)] = seeker
        for key in self._keys(seeker):
            self._by.setdefault(key, _Bucket()).add(seeker)

    def remove(self, seeker: Seeker) -> None:
        del self._all[id(seeker)]
        for key in self._keys(seeker):
            self._by[key].remove(seeker)
            if not self._by[key]:
                del self._by[key]

    def found(self, seeker: Seeker, end: int) -> None:
        """Note the end of what is the soonest for a seeker now."""
        buckets = [self._by[key] for key in self._keys(seeker)]
        for bucket in buckets:
            bucket.remove(seeker)
        seeker.soonest_end, seeker.soonest = end, []
        for bucket in buckets:
            bucket.add(seeker)

    def sought(self, new: Sequence[Instance]) -> list[tuple[Seeker, list[Instance]]]:
        """Seekers with those of the instances that may be what they seek."""
        found: dict[int, tuple[Seeker, list[Instance]]] = {}
        for instance in new:
            if PENDING:
                check()
            seekers: dict[int, Seeker] = {}
            for bucket in self._buckets(instance):
                for seeker in bucket.may_seek(instance.end):
                    seekers[id(seeker)] = seeker
            for key, seeker in seekers.items():
                found.setdefault(key, (seeker, []))[1].append(instance)
        return [*found.values()]

    def _buckets(self, instance: Instance) -> Iterable[_Bucket]:
        keys: Iterable[object] | None = None
        if self._tie is not None:
            row = instance.single.get(self._tie[1].variable or "")
            keys = None if row is None else row.values[path_text(self._tie[1])]
        elif self.path is not None:
            keys = instance.tuples
        if keys is None:
            return self._by.values()
        return [self._by[key] for key in [_UNTIED, *keys] if key in self._by]


_UNTIED = object()
"""What seekers are found by that may be succeeded by anything."""

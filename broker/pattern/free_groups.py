"""Groups that are free (SKIP TILL ANY MATCH): every combination of elements is a match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import count

from broker.pattern.absences import Absences
from broker.pattern.candidates import Candidate
from broker.pattern.groups import combinations
from broker.pattern.instances import NEVER, Instance
from broker.pattern.plan import Group, Unit, Variant
from broker.pattern.pool import Pool
from broker.pattern.setting import Setting
from broker.pattern.timing import Timing


class FreeGroups:
    """The choices of single items to which the groups of a unit may add elements, from `pools`."""

    def __init__(
        self, unit: Unit, setting: Setting, pools: Mapping[Group, Pool], absences: Absences
    ) -> None:
        self._unit = unit
        self._setting = setting
        self._pools = pools
        self._absences = absences
        self._number = count()
        self._open: list[Candidate] = []
        self._finished: list[tuple[int, int, Candidate, Instance]] = []
        """Matches whose absences are not decided, by when they are."""

    def open(self, candidates: Sequence[Candidate]) -> None:
        """Note choices whose groups may be filled from now on."""
        self._open += candidates

    def combine(self, opened: Sequence[Candidate], elements: Set[int]) -> list[Instance]:
        """The matches of all combinations that have one of these new elements, given by their
        identity, or are of a new choice of single items; those that no absence may forbid."""
        found: list[Instance] = []
        new = {id(candidate) for candidate in opened}
        for candidate in [*self._open, *opened] if elements else opened:
            variant = candidate.variant
            for filling in combinations(
                *(self._unit, self._setting, variant, candidate.chosen, self._pools),
                candidate.unfilled,
            ):
                self._setting.spend()
                own = [id(e) for each in filling.filled.values() for e in each]
                if id(candidate) not in new and elements.isdisjoint(own):
                    continue
                timing = Timing(
                    variant, self._unit.within, candidate.chosen, filling.filled, free=True
                )
                instance = candidate.filled(filling, timing)
                if instance is None or not candidate.passes(instance):
                    continue
                if not variant.absences:
                    found.append(instance)
                else:
                    item = (instance.due, next(self._number), candidate, instance)
                    heappush(self._finished, item)
                    self._setting.hold(len(self._finished))
        self.open([each for each in opened if each.variant.groups])
        return found

    def settle(self, watermark: int) -> list[Instance]:
        """The matches whose absences are decided now."""
        found: list[Instance] = []
        while self._finished and self._finished[0][0] <= 2 * watermark:
            _, _, candidate, instance = heappop(self._finished)
            if self._unblocked(candidate, instance):
                found.append(instance)
        return found

    def _unblocked(self, candidate: Candidate, instance: Instance) -> bool:
        filled = _filled(candidate.variant, instance)
        return self._absences.unblocked(candidate.variant, candidate.chosen, filled, instance)

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        return self._finished[0][0] if self._finished else NEVER

    def expire(self, horizon: int) -> None:
        self._open = [
            each
            for each in self._open
            if not each.chosen or max([i.end for i in each.chosen.values()]) >= horizon
        ]

    def waiting(self) -> Iterator[tuple[int, Instance]]:
        """What is not decided, with its `due`."""
        for due, _, candidate, instance in self._finished:
            if self._unblocked(candidate, instance):
                yield due, instance


def _filled(variant: Variant, instance: Instance) -> dict[Group, Sequence[Instance]]:
    filled: dict[Group, Sequence[Instance]] = {}
    for group in variant.groups:
        part = instance.parts[group.slot]
        assert isinstance(part, tuple)
        filled[group] = part
    return filled

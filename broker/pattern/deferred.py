"""Candidates with groups or absences, which wait until the watermark decides them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import count

from broker.pattern.absences import Absences
from broker.pattern.candidates import Candidate, identity
from broker.pattern.deadlines import decided_any_time
from broker.pattern.groups import Filling, longest
from broker.pattern.instances import AT_ONCE, NEVER, Instance
from broker.pattern.plan import Group, Unit
from broker.pattern.pool import Pool
from broker.pattern.setting import Setting
from broker.pattern.timing import Timing


class Deferred:
    """The candidates of a unit that wait, whose groups are filled from `pools`."""

    def __init__(
        self, unit: Unit, setting: Setting, pools: Mapping[Group, Pool], absences: Absences
    ) -> None:
        self._unit = unit
        self._setting = setting
        self._pools = pools
        self._absences = absences
        self._number = count()
        self._waiting: list[tuple[int, int, Candidate]] = []

    def add(self, candidate: Candidate, due: int) -> None:
        """Have a candidate wait until `due`."""
        self._later(candidate, due)
        self._setting.hold(len(self._waiting))

    def _later(self, candidate: Candidate, due: int) -> None:
        heappush(self._waiting, (due, next(self._number), candidate))

    def settle(self, watermark: int) -> list[Instance]:
        """The matches that are decided now."""
        found: list[Instance] = []
        again: list[tuple[int, Candidate]] = []
        while self._waiting and self._waiting[0][0] <= 2 * watermark:
            _, _, candidate = heappop(self._waiting)
            later = self._judge(candidate, watermark, found)
            if later is not None:
                again.append((later, candidate))
        for due, candidate in again:
            self._later(candidate, due)
        return found

    def _judge(self, candidate: Candidate, watermark: int, found: list[Instance]) -> int | None:
        """Adds what a candidate is decided to be; returns when it has to be looked at again."""
        variant = candidate.variant
        last, again = AT_ONCE, NEVER
        for filling in self._fillings(candidate):
            self._setting.spend()
            timing = Timing(variant, self._unit.within, candidate.chosen, filling.filled)
            instance = candidate.filled(filling, timing)
            if instance is None:
                continue
            last = max(last, timing.due)
            elements = identity(filling)
            if instance.due > 2 * watermark or elements in candidate.decided:
                last = max(last, instance.due)
                if instance.due > 2 * watermark:
                    again = min(again, instance.due)
                continue
            candidate.decide(elements)
            if self._stands(candidate, filling, instance):
                found.append(instance)
        if not variant.groups:
            return None
        # As long as a group may still grow, the candidate may still become something else.
        whole = Timing(variant, self._unit.within, candidate.chosen, {}, whole=True)
        if whole.span() is not None:
            last = max(last, whole.due)
        if last <= 2 * watermark:
            return None
        return 2 * watermark + 1 if decided_any_time(variant) else min(again, last)

    def _fillings(self, candidate: Candidate) -> Iterator[Filling]:
        return longest(
            self._unit,
            self._setting,
            candidate.variant,
            candidate.chosen,
            self._pools,
            candidate.unfilled,
            decided=candidate.begun,
        )

    def _stands(self, candidate: Candidate, filling: Filling, instance: Instance) -> bool:
        """Whether a match passes, and no absence forbids it."""
        return candidate.passes(instance) and self._absences.unblocked(
            candidate.variant, candidate.chosen, filling.filled, instance
        )

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        return self._waiting[0][0] if self._waiting else NEVER

    def waiting(self) -> Iterator[tuple[int, Instance]]:
        """What the candidates would be now, with its `due`."""
        for _, _, candidate in self._waiting:
            yield from self.would_be(candidate)

    def would_be(self, candidate: Candidate) -> Iterator[tuple[int, Instance]]:
        """What a candidate would be now, if nothing else came, with its `due`."""
        for filling in self._fillings(candidate):
            timing = Timing(candidate.variant, self._unit.within, candidate.chosen, filling.filled)
            made = candidate.filled(filling, timing)
            if made is None or identity(filling) in candidate.decided:
                continue
            if self._stands(candidate, filling, made):
                yield made.due, made

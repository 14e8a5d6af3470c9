"""Runs: SKIP TILL NEXT MATCH, STRICT CONTIGUITY and PARTITION CONTIGUITY.

A run takes one document after the other. Documents are taken in order of their ends, once the
watermark is there; those that end at the same time never follow each other. What may not be skipped
closes a run for all that end later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count

from broker.pattern.absences import Absences
from broker.pattern.instances import (
    NEVER,
    Arrived,
    Instance,
    Part,
    Row,
    due_from,
    several_of,
)
from broker.pattern.live_runs import Awaited, LiveRuns, Run
from broker.pattern.plan import (
    Group,
    Item,
    Leaf,
    Ordered,
    Plan,
    Tree,
    Variant,
    slots_of,
)
from broker.pattern.run_conjuncts import Place, RunConjuncts, leaves_of
from broker.pattern.setting import Setting


@dataclass(slots=True)
class Step:
    """The run that a run is with one more document. `grows`: it is one more element, or the first
    of the group that is awaited first; `awaited`: it is the single item that is awaited."""

    run: Run
    grows: bool
    awaited: bool


class RunsRunner:
    """The matches of a pattern whose selection makes runs."""

    def __init__(self, plan: Plan, setting: Setting, selection: str) -> None:
        self.unit = plan.unit
        self.setting = setting
        self._selection = selection
        self._absences = Absences(plan.unit, setting, lambda _: True)
        self._conjuncts = RunConjuncts(plan.unit)
        self._items, self._groups = self._conjuncts.items, self._conjuncts.groups
        self._once = [self._conjuncts.once(at) for at in range(len(self._items))]
        self._taps = {leaf.tap for item in self._items for leaf in _blocks(item)}
        self._contiguous = set(plan.contiguous)
        self._runs = LiveRuns()
        self._ready: list[tuple[int, int, int, Row]] = []
        self._number = count()
        self._waiting: list[tuple[int, int, Variant, dict[Item, Instance], Instance]] = []

    # -- advancing -----------------------------------------------------------------------------

    def advance(self, arrived: Arrived, watermark: int | None) -> list[Instance]:
        self._absences.advance(arrived, watermark)
        for tap, rows in arrived.items():
            if tap in self._taps or tap in self._contiguous:
                for row in rows:
                    heappush(self._ready, (row.end, next(self._number), tap, row))
        found: list[Instance] = []
        if watermark is None:
            return found
        self._take_until(watermark)
        self._runs.drop(watermark)
        while self._waiting and self._waiting[0][0] <= 2 * watermark:
            _, _, variant, chosen, instance = heappop(self._waiting)
            filled = self._filled(instance)
            if self._absences.unblocked(variant, chosen, filled, instance):
                found.append(instance)
        return found

    def _take_until(self, watermark: int) -> None:
        while self._ready and self._ready[0][0] <= watermark:
            end = self._ready[0][0]
            here: dict[int, list[Row]] = {}
            while self._ready and self._ready[0][0] == end:
                _, _, tap, row = heappop(self._ready)
                here.setdefault(tap, []).append(row)
            self._take(end, here)

    def _take(self, end: int, here: Mapping[int, Sequence[Row]]) -> None:
        """All runs that these documents concern take what ends at a time."""
        made: list[Run] = []
        for run in [*self._begin(here), *self._runs.at(self._places(here))]:
            if run.closed is not None and run.closed < end:
                continue
            steps, growing = self._steps(run, here)
            made += [step.run for step in steps]
            begun = run.last is not None and run.closed is None
            if begun and self._closes(run, here, steps, growing):
                run.closed = end
                self._runs.drop_after(run, end)
        for run in made:
            self._matched(run)
            self._runs.add(run, self._awaits(run))
            if self.unit.extent is not None:
                self._runs.drop_after(run, run.start + self.unit.extent)

    def _begin(self, here: Mapping[int, Sequence[Row]]) -> list[Run]:
        """The runs that may begin with a document: one in each of its partitions."""
        if not self.setting.plan.query.partition:
            return [Run(None)]
        own = [row for tap in self._taps & here.keys() for row in here[tap]]
        ones = {one for row in own for one in row.tuples or ()}
        return [Run(one) for one in sorted(ones)]

    def _places(self, here: Mapping[int, Sequence[Row]]) -> Iterator[Awaited]:
        """Where the runs are that documents concern. Contiguity is a matter of all documents, the
        next match of those that a run awaits."""
        if self._selection == "STRICT CONTIGUITY":
            yield None, None
            return
        contiguous = self._selection == "PARTITION CONTIGUITY"
        for tap, rows in here.items():
            awaited = None if contiguous else tap
            if not self.setting.plan.query.partition:
                yield None, awaited
                continue
            for row in rows:
                for one in row.tuples or ():
                    yield one, awaited

    def _awaits(self, run: Run) -> Iterator[Awaited]:
        """Where a run is found."""
        if self._selection == "STRICT CONTIGUITY":
            yield None, None
        elif self._selection == "PARTITION CONTIGUITY":
            yield run.partition, None
        else:
            for leaf in self._next(run):
                yield run.partition, leaf.tap

    def _next(self, run: Run) -> Iterator[Leaf]:
        """The blocks of which a run may take a document."""
        for at in range(run.at, len(self._items)):
            item = self._items[at]
            if not isinstance(item, Group):
                yield from leaves_of(item)
                return
            size = len(run.elements.get(item, ()))
            if item.most is None or size < item.most:
                yield from leaves_of(_parts(item)[len(run.partial)])
            if run.partial or size < item.least:
                return

    def _closes(
        self, run: Run, here: Mapping[int, Sequence[Row]], steps: Sequence[Step], growing: bool
    ) -> bool:
        """Whether one of these documents may not be skipped."""
        if self._selection == "SKIP TILL NEXT MATCH":
            return any(step.grows if growing else step.awaited for step in steps)
        assert run.last is not None
        after = run.last.end
        partitioned = self._selection == "PARTITION CONTIGUITY"
        return any(
            row.start > after and (not partitioned or run.partition in (row.tuples or ()))
            for tap in self._contiguous & here.keys()
            for row in here[tap]
        )

    # -- steps ---------------------------------------------------------------------------------

    def _steps(self, run: Run, here: Mapping[int, Sequence[Row]]) -> tuple[list[Step], bool]:
        """What a run could take, in every role; and whether a group may begin or grow, so that what
        could only begin the next item may be skipped."""
        found: list[Step] = []
        if run.partial:
            self._element(run, run.at, here, found, grows=False)
            return found, False
        growing, first = False, True
        for at in range(run.at, len(self._items)):
            item = self._items[at]
            now = run if at == run.at else self._passed(run, at)
            if not isinstance(item, Group):
                self._single(now, at, item, here, found)
                break
            size = len(run.elements.get(item, ()))
            if item.most is None or size < item.most:
                growing = growing or first
                self._element(now, at, here, found, grows=first)
                first = False
            if size < item.least:
                break
        return found, growing

    def _passed(self, run: Run, at: int) -> Run:
        """The run when it leaves the groups before an item."""
        passed = {item.slot for item in self._items[:at] if isinstance(item, Group)}
        return replace(run, at=at, left=run.left | passed)

    def _single(
        self,
        run: Run,
        at: int,
        item: Place,
        here: Mapping[int, Sequence[Row]],
        found: list[Step],
    ) -> None:
        for leaf in leaves_of(item):
            for row in self._takes(run, leaf, here):
                after = run.taking(row, at=at + 1, chosen=(*run.chosen, (leaf, row)))
                after = self._passed(after, at + 1)
                if self._conjuncts.holds(after):
                    found.append(Step(after, False, True))

    def _element(
        self,
        run: Run,
        at: int,
        here: Mapping[int, Sequence[Row]],
        found: list[Step],
        *,
        grows: bool,
    ) -> None:
        """Steps into an element of a group, whose documents are taken one after the other. One that
        is a document is taken once: for the first branch, and with the first nodes, that pass."""
        group = self._items[at]
        assert isinstance(group, Group)
        parts = _parts(group)
        once, taken = self._once[at], set[int]()
        for leaf in leaves_of(parts[len(run.partial)]):
            for row in self._takes(run, leaf, here):
                if row.doc in taken:
                    continue
                partial = (*run.partial, (leaf, row))
                if len(partial) < len(parts):
                    after = run.taking(row, at=at, partial=partial)
                else:
                    element = _element(group, partial)
                    own = (*run.elements.get(group, ()), element)
                    after = run.taking(
                        row, at=at, partial=(), elements={**run.elements, group: own}
                    )
                if self._conjuncts.holds(after):
                    found.append(Step(after, grows, bool(run.partial)))
                    if once:
                        taken.add(row.doc)

    def _takes(self, run: Run, leaf: Leaf, here: Mapping[int, Sequence[Row]]) -> Iterator[Row]:
        for row in here.get(leaf.tap, ()):
            self.setting.spend()
            if run.last is not None and row.start <= run.last.end:
                continue
            there = run.partition is None or run.partition in (row.tuples or ())
            if there and row.key not in run.keys:
                yield row

    # -- matches -------------------------------------------------------------------------------

    def _matched(self, run: Run) -> None:
        """Note the match that a run has come to, if all items that are left may be empty."""
        if run.partial:
            return
        for item in self._items[run.at :]:
            if not isinstance(item, Group) or len(run.elements.get(item, ())) < item.least:
                return
        if not self._conjuncts.holds(run, ended=True):
            return
        variant = self._conjuncts.variant(run)
        timing = self._conjuncts.timing(run, variant)
        span = timing.span()
        if span is None:
            return
        parts: dict[int, Part] = dict.fromkeys(variant.absent)
        several: dict[str, Sequence[Row | None]] = {}
        for group in self._groups:
            elements = run.elements.get(group, ())
            parts[group.slot] = elements
            several.update(dict.fromkeys(group.variables, ()))
            several.update(several_of(elements))
        single: dict[str, Row] = {}
        for leaf, row in run.chosen:
            parts[leaf.slot] = row
            single.update(dict.fromkeys(row.nodes, row))
        tuples = None if run.partition is None else frozenset([run.partition])
        due = max(timing.due, due_from(span.last))
        instance = Instance(*span, due, parts, run.keys, tuples, single, several)
        chosen = dict(timing.chosen)
        heappush(self._waiting, (due, next(self._number), variant, chosen, instance))
        self.setting.hold(len(self._waiting))

    def _ahead(self) -> RunsRunner:
        """This runner as it will be, if nothing else comes, when the watermark is beyond all."""
        if not self._ready:
            return self
        twin = copy(self)
        twin._runs, twin._ready, twin._waiting = self._runs.copy(), [*self._ready], [*self._waiting]
        twin._take_until(NEVER)
        return twin

    def _filled(self, instance: Instance) -> dict[Group, Sequence[Instance]]:
        filled: dict[Group, Sequence[Instance]] = {}
        for group in self._groups:
            part = instance.parts[group.slot]
            filled[group] = part if isinstance(part, tuple) else ()
        return filled

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        found = due_from(self._ready[0][0]) if self._ready else NEVER
        return min(found, self._waiting[0][0]) if self._waiting else found

    def expire(self, horizon: int) -> None:
        self._absences.expire(horizon)
        self._runs.expire(horizon)

    def waiting(self) -> Iterator[tuple[int, Instance]]:
        for due, _, variant, chosen, instance in self._ahead()._waiting:
            filled = self._filled(instance)
            if self._absences.unblocked(variant, chosen, filled, instance):
                yield due, instance


def _parts(group: Group) -> Sequence[Tree]:
    """What the documents of an element are taken for, one after the other."""
    tree = group.unit.tree
    return tree.items if isinstance(tree, Ordered) else [tree]


def _blocks(item: Place) -> Iterator[Leaf]:
    """The blocks of an item, those of a group's elements too."""
    for each in item.unit.order if isinstance(item, Group) else [item]:
        if not isinstance(each, Group):
            yield from leaves_of(each)


def _element(group: Group, partial: Sequence[tuple[Leaf, Row]]) -> Instance:
    parts: dict[int, Part] = {slot: None for item in group.unit.order for slot in slots_of(item)}
    single: dict[str, Row] = {}
    for leaf, row in partial:
        parts[leaf.slot] = row
        single.update(dict.fromkeys(leaf.variables, row))
    rows = [row for _, row in partial]
    start, end = min([row.start for row in rows]), max([row.end for row in rows])
    keys = frozenset([row.key for row in rows])
    return Instance(start, end, start, end, -(2**62), parts, keys, None, single)

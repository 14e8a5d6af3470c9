"""Runs: SKIP TILL NEXT MATCH, STRICT CONTIGUITY and PARTITION CONTIGUITY.

A run takes one document after the other. In: the unit of a query. Out: its instances, before what
must be absent is looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.oracle.matches import Stored
from tests.oracle.part2 import naming, shape
from tests.oracle.part2.absences import unblocked
from tests.oracle.part2.groups import is_simple
from tests.oracle.part2.instances import Around, Instance, State, Taken, World, several
from tests.oracle.part2.scope import Bound, Scope
from tests.oracle.part2.times import Span, Timing, Wait, hull, later
from tests.oracle.patterns import embeddings
from tests.oracle.queries import bound_in
from xscl import ast


@dataclass(frozen=True)
class Run:
    """Where a run is: `at` is the item that it awaits or is in, `elements` those taken of each group,
    `partial` the documents of an element that is not complete."""

    at: int = 0
    chosen: tuple[tuple[shape.Leaf, Taken], ...] = ()
    elements: tuple[tuple[shape.Group, tuple[Instance, ...]], ...] = ()
    partial: tuple[tuple[shape.Leaf, Taken], ...] = ()
    last: Stored | None = None
    left: frozenset[int] = frozenset()  # slots of groups that were left, or passed over

    def of(self, group: shape.Group) -> tuple[Instance, ...]:
        return dict(self.elements).get(group, ())


@dataclass(frozen=True)
class Step:
    """A document that a run could take, and the run that it then is. `grows`: as one more element, or
    as the first of the group that is awaited first."""

    taken: Taken
    run: Run
    grows: bool
    awaited: bool


class Runs:
    def __init__(
        self, world: World, unit: shape.Unit, strategy: ast.Selection, blocks: Sequence[ast.Block]
    ) -> None:
        self.world, self.unit, self.strategy, self.blocks = world, unit, strategy, blocks
        tree = unit.tree
        items = tree.items if isinstance(tree, shape.List) else [tree]
        self.items = [item for item in items if not isinstance(item, shape.Absence)]
        self.tuple: tuple[str, ...] | None = None

    def instances(self) -> Iterator[Instance]:
        tuples: list[tuple[str, ...] | None] = [None]
        if self.world.partition:
            found = {
                one
                for document in self.world.documents
                for block in self.blocks
                for taken in self.world.taken(block, document)
                for one in self.world.tuples(taken) or ()
            }
            tuples = sorted(found)  # type: ignore[assignment]
        for one in tuples:
            self.tuple = one
            for run in self._from(Run()):
                yield from self._matched(run)

    def _from(self, run: Run) -> Iterator[Run]:
        steps, growing = self._steps(run)
        for step in steps:
            if run.last is None or not self._skips(run, step, steps, growing):
                yield step.run
                yield from self._from(step.run)

    # -- what may be skipped -------------------------------------------------------------------

    def _skips(self, run: Run, step: Step, steps: list[Step], growing: bool) -> bool:
        """Whether there is something between the last document and this one that may not be skipped."""
        d, e = run.last, step.taken.document
        assert d is not None
        between = [x for x in self.world.documents if x.start > d.end and x.end < e.end]
        if self.strategy == "STRICT CONTIGUITY":
            streams = {block.stream for block in self.blocks}
            return any(streams & set(x.streams) for x in between)
        if self.strategy == "PARTITION CONTIGUITY":
            return any(self._in_partition(x) for x in between)
        keys = {x.key for x in between}
        return any(
            other.taken.document.key in keys and (other.grows if growing else other.awaited)
            for other in steps
        )

    def _in_partition(self, document: Stored) -> bool:
        for block in self.blocks:
            if block.stream not in document.streams:
                continue
            steps = tuple(replace(step, filters=()) for step in block.steps)
            plain = ast.Block(block.stream, steps, span=block.span)
            for node, _ in embeddings(document.tree, plain, self.world.namespaces):
                taken = Taken(document, node, ())
                if self.tuple in (self.world.tuples(taken) or ()):
                    return True
        return False

    # -- steps ---------------------------------------------------------------------------------

    def _steps(self, run: Run) -> tuple[list[Step], bool]:
        """All documents that a run could take now, in every role; and whether a group may begin or
        grow, so that what could only begin the next item may be skipped."""
        found: list[Step] = []
        if run.partial:
            self._element(run, run.at, found, grows=False)
            return found, False
        growing, first = False, True
        for at in range(run.at, len(self.items)):
            item = self.items[at]
            here = run if at == run.at else self._passed(run, at)
            if not isinstance(item, shape.Group):
                self._single(here, at, item, found)
                break
            count = len(run.of(item))
            if item.most is None or count < item.most:
                growing = growing or first
                self._element(here, at, found, grows=first)
                first = False
            if count < item.least:
                break
        return found, growing

    def _single(self, run: Run, at: int, item: shape.Tree, found: list[Step]) -> None:
        for leaf in _leaves(item):
            for taken in self._takes(run, leaf):
                chosen = (*run.chosen, (leaf, taken))
                after = replace(run, at=at + 1, chosen=chosen, last=taken.document)
                after = self._passed(after, at + 1)
                if self._holds(after):
                    found.append(Step(taken, after, False, True))

    def _passed(self, run: Run, at: int) -> Run:
        """The run as it is when it leaves the groups before an item."""
        passed = {item.slot for item in self.items[:at] if isinstance(item, shape.Group)}
        return replace(run, at=at, left=run.left | passed)

    def _element(self, run: Run, at: int, found: list[Step], *, grows: bool) -> None:
        """Steps into a group's element, whose documents are taken one after the other."""
        group = self.items[at]
        assert isinstance(group, shape.Group)
        tree = group.unit.tree
        parts = tree.items if isinstance(tree, shape.List) else [tree]
        once, done = self._once(at), set()
        for leaf in _leaves(parts[len(run.partial)]):
            for taken in self._takes(run, leaf):
                if taken.document.key in done:
                    continue
                partial = (*run.partial, (leaf, taken))
                if len(partial) < len(parts):
                    after = replace(run, at=at, partial=partial, last=taken.document)
                else:
                    element = _element(group, partial, self.world)
                    elements = dict(run.elements)
                    elements[group] = (*run.of(group), element)
                    after = replace(
                        run,
                        at=at,
                        partial=(),
                        elements=tuple(elements.items()),
                        last=taken.document,
                    )
                if self._holds(after):
                    found.append(Step(taken, after, grows, bool(run.partial)))
                    if once:
                        done.add(taken.document.key)

    def _once(self, at: int) -> bool:
        """Whether an element is a document, and all its conjuncts can be asked when it is taken. Then
        it counts with the first branch and nodes that pass."""
        group = self.items[at]
        assert isinstance(group, shape.Group)
        if not is_simple(group):
            return False
        known = set(group.variables)
        for item in self.items[:at]:
            if isinstance(item, shape.Group):
                known |= item.variables
            for leaf in _leaves(item):
                known |= set(bound_in(leaf.block.steps))
        return all(naming.named(part) <= known for part in group.conjuncts)

    def _takes(self, run: Run, leaf: shape.Leaf) -> Iterator[Taken]:
        for document in self.world.documents:
            if run.last is not None and not document.start > run.last.end:
                continue
            for taken in self.world.taken(leaf.block, document):
                if self.tuple is None or self.tuple in (self.world.tuples(taken) or ()):
                    yield taken

    # -- what is asked -------------------------------------------------------------------------

    def _holds(self, run: Run, ended: bool = False) -> bool:
        """Whether windows hold so far, and all conjuncts that can be answered."""
        state = self._state(run)
        begun = run.chosen or run.elements
        if begun and not Timing(self.unit, state.spans(), state.branches, runs=True).checked():
            return False
        known = {name for leaf, taken in run.chosen for name in taken.bindings}
        absent = self._absent(run)
        groups = [item for item in self.items if isinstance(item, shape.Group)]
        complete = [
            group for group in groups if ended or group.slot in run.left or self._full(group, run)
        ]
        whole = {name for group in complete for name in group.variables}
        scope = self._scope(run)
        for part in self.unit.conjuncts:
            if naming.named(part) <= known | absent | whole and not scope.holds(part):
                return False
        for group in groups:
            elements = run.of(group)
            for part in group.conjuncts:
                others = naming.named(part) - group.variables
                if not others <= known | absent | whole:
                    continue
                if not naming.of_elements(part, group.variables):
                    first = self._scope(run, group, elements[:1])
                    if elements and not first.holds(part):
                        return False
                    continue
                for number, element in enumerate(elements):
                    asked = self._scope(run, group, elements[:number], element)
                    if not asked.holds(part):
                        return False
        return True

    def _full(self, group: shape.Group, run: Run) -> bool:
        return self.items.index(group) < run.at

    def _absent(self, run: Run) -> set[str]:
        """Variables of branches that were not taken."""
        taken = {id(leaf) for leaf, _ in run.chosen}
        absent: set[str] = set()
        for item in self.items[: run.at]:
            if isinstance(item, shape.Either):
                for leaf in _leaves(item):
                    if id(leaf) not in taken:
                        absent |= set(bound_in(leaf.block.steps))
        return absent

    def _scope(
        self,
        run: Run,
        group: shape.Group | None = None,
        before: Sequence[Instance] = (),
        current: Instance | None = None,
    ) -> Scope:
        single = {n: b for _, taken in run.chosen for n, b in taken.bindings.items()}
        every: dict[str, Sequence[Bound | None]] = {}
        for item in self.items:
            if isinstance(item, shape.Group):
                every.update({name: [] for name in item.variables})
                every.update(several(run.of(item)))
        spans = [Span(t.document.start, t.document.end) for _, t in run.chosen]
        if group is not None:
            every.update({name: [] for name in group.variables})
            every.update(several(before))
            place = self.items.index(group)
            earlier = {id(x) for item in self.items[:place] for x in _leaves(item)}
            spans = [
                Span(t.document.start, t.document.end)
                for leaf, t in run.chosen
                if id(leaf) in earlier
            ]
            spans += [e.span for g, es in run.elements if self.items.index(g) < place for e in es]
            spans += [e.span for e in before]
        else:
            spans += [e.span for _, elements in run.elements for e in elements]
        if current is not None:
            spans.append(current.span)
        whole = hull(spans)
        return Scope(
            self.world.namespaces,
            single,
            every,
            current=None if current is None else current.single(),
            length=0 if whole is None else whole.length,
        )

    def _state(self, run: Run) -> State:
        chosen = {leaf: self.world.of_one(leaf.slot, taken) for leaf, taken in run.chosen}
        tree = self.unit.tree
        items = tree.items if isinstance(tree, shape.List) else [tree]
        windows = tree.windows if isinstance(tree, shape.List) else [(None, False)]
        taken = {id(leaf) for leaf in chosen}
        kept: list[shape.Tree] = []
        for item in items:
            if isinstance(item, shape.Either):
                own = [leaf for leaf in _leaves(item) if id(leaf) in taken]
                kept.append((own or list(_leaves(item)))[0])
            else:
                kept.append(item)
        groups = {item: run.of(item) for item in self.items if isinstance(item, shape.Group)}
        tuples = None if self.tuple is None else frozenset([self.tuple])
        return State(self.unit, shape.List(kept, windows), chosen, groups, tuples)  # type: ignore[arg-type]

    # -- matches -------------------------------------------------------------------------------

    def _matched(self, run: Run) -> Iterator[Instance]:
        """The match that a run has come to, if all items that are left may be empty."""
        if run.partial:
            return
        for at in range(run.at, len(self.items)):
            item = self.items[at]
            if not isinstance(item, shape.Group) or len(run.of(item)) < item.least:
                return
        if run.last is None or not self._holds(run, ended=True):
            return
        state = self._state(run)
        timing = Timing(self.unit, state.spans(), state.branches, runs=True)
        span = timing.whole()
        if span is None:
            return
        match = state.instance(self.unit, span)
        if unblocked(self.world, self.unit, state, match, Around()):
            waits = [match.wait, *timing.waits(), Wait(match.inner.end)]
            yield replace(match, wait=later(waits))


def _leaves(item: shape.Tree) -> Iterator[shape.Leaf]:
    match item:
        case shape.Leaf():
            yield item
        case shape.Either():
            for branch in item.branches:
                yield from _leaves(branch)


def _element(
    group: shape.Group, partial: Sequence[tuple[shape.Leaf, Taken]], world: World
) -> Instance:
    taken = dict(partial)
    parts = {
        leaf.slot: taken.get(leaf) for leaf in group.unit.order if isinstance(leaf, shape.Leaf)
    }
    spans = [Span(t.document.start, t.document.end) for t in taken.values()]
    span = hull(spans)
    assert span is not None
    return Instance(parts, span, span)

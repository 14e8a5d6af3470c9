"""How far the event patterns in shards are, as the coordinator knows it.

In: the patterns that are registered with the engine and matched elsewhere, the documents of a
round, what shards answer. Out: what a round tells the shards of them, and what a shard that is made
anew begins with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.cluster.answers import Answer
from broker.cluster.variants import Variants
from broker.documents.admitted import Admitted
from broker.model import UNBOUNDED
from broker.state.pattern_tables import Entry, Mark

if TYPE_CHECKING:
    from broker.engine import Engine


class Patterns(NamedTuple):
    """How far event patterns are: those that are registered, by the numbers of their variants, the
    highest time by which they have decided, and by number what they have kept of their matches."""

    entries: Mapping[int, Entry]
    settled: int
    marks: Mapping[int, Mapping[str, int]]


class Told(NamedTuple):
    """What a round tells patterns of a run, see `broker.cluster.segments.Step`."""

    late: tuple[tuple[int, int, int], ...] = ()
    settles: tuple[tuple[int, int], ...] = ()


class PatternsElsewhere:
    """The patterns of an engine that shards match. `now` is how far they are after the rounds of
    this batch that were received."""

    def __init__(self) -> None:
        self.now = self._before = Patterns({}, -UNBOUNDED, {})
        self._entered: dict[int, Entry] = {}
        """Those that shards were not told of."""
        self._variants = Variants()
        self._settles = -UNBOUNDED

    def enter(self, engine: Engine) -> None:
        """Register patterns, before shards are told of them."""
        standings = engine.standings
        with engine.store.transaction():
            standings.begin(engine.newest())
        self.now = self.now._replace(settled=standings.settled)

    def know(self, engine: Engine, variants: Variants) -> None:
        """Take note of the variants that shards have of them."""
        self._variants = variants
        before, known = self.now.entries, self.now.marks
        entries = {variant.number: entry for variant, entry in variants.patterns()}
        self._entered |= {n: e for n, e in entries.items() if before.get(n) != e}
        marks: dict[int, Mapping[str, int]] = {}
        for number in entries:
            if number in before:
                kept = known.get(number, {})
            else:
                kept = dict(engine.standings.tables.marks(self._subscription(number)))
            if kept:
                marks[number] = kept
        self.now = self.now._replace(entries=entries, marks=marks)

    def _subscription(self, number: int) -> int:
        """The number of a subscription that has a variant. What keeps marks has one only."""
        return self._variants.numbered[number].any.number

    def begin(self) -> None:
        """Begin a batch."""
        self._before, self._settles = self.now, -UNBOUNDED

    def undo(self) -> None:
        """The batch has failed."""
        self.now = self._before

    def told(self, engine: Engine, run: Sequence[Admitted], *, held: bool, again: bool) -> Told:
        """What they are told of a run; see `Elsewhere.send`."""
        if run[0].revision:
            return Told()
        settled = engine.standings.settled
        reached = [(a.document, settled if held else max(a.highest, settled)) for a in run]
        late = [(d.doc, d.end, seen) for d, seen in reached if d.end < seen]
        settles = [(document.doc, seen) for document, seen in reached]
        if not (again or engine.limits):
            settles = settles[-1:]
        return Told(tuple(late), tuple(settles))

    def decide(self, told: Iterable[Told]) -> Mapping[int, Entry]:
        """A round with this is sent; returns the entries that shards do not know yet."""
        for each in told:
            self._settles = max([self._settles, *[highest for _, highest in each.settles]])
        entered, self._entered = self._entered, {}
        return entered

    def take(self, answers: Sequence[Answer], engine: Engine) -> None:
        """Note how far they are, and stop those that are too much."""
        marks = dict(self.now.marks)
        news: list[Mark] = []
        for answer in answers:
            for number, kept in answer.marked.items():
                own = self._subscription(number)
                news += [Mark(own, key, end) for key, end in kept.items()]
                marks[number] = {**marks.get(number, {}), **kept}
            for id, doc, why in answer.stopped:
                engine.budget.alone()
                for subscription in self._variants.subscribers(id):
                    engine.limits.stop(subscription, doc, why)
        engine.standings.tables.mark(news)
        settled = max(self.now.settled, self._settles)
        self.now = self.now._replace(settled=settled, marks=marks)

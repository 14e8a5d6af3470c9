"""What became of the documents of an event pattern, by brute force: the oracle's own instances.

In: a checked event pattern and documents in the order in which they come. Out: the same counts as
`broker why` gives. Blocked is what the pattern would match without its absences, and does not match.

    python -m tests.why.patterns --cases 2000 --seed 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random

import xscl
from broker import Broker
from broker.standing.why import SHOWN, Blocked, Seen, Why
from tests.deep import Outcome, long_run
from tests.oracle.generate_documents import SECOND
from tests.oracle.generate_patterns import pattern_documents, pattern_text
from tests.oracle.matches import Stored
from tests.oracle.oracle import Arrival, Oracle
from tests.oracle.part2 import shape
from tests.oracle.part2.instances import Around, Instance, World
from tests.oracle.part2.runs import Runs
from tests.oracle.part2.standing import RUNS, Decided, PatternStanding
from tests.oracle.part2.times import later
from tests.properties.harness import _document
from xscl.check.patterns import holds_pattern
from xscl.syntax.printer import format_pattern

Ids = frozenset[str]
_Identity = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """`before` of the documents come before the pattern is registered; `lateness` in seconds."""

    text: str
    documents: list[Arrival]
    before: int
    lateness: int


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of documents: by block how many it takes, decided matches, what waits and how
    often, what is blocked."""

    blocks: set[tuple[str, int]]
    found: int
    waiting: Counter[Ids]
    blocked: set[Ids]


def case(seed: int, absences: bool | None = None) -> Case:
    """A case; in half of them, or as `absences` says, the pattern has a NOT."""
    random = Random(seed)
    wanted = random.random() < 0.5 if absences is None else absences
    while True:
        text = f"q: {pattern_text(random)}"
        (resolved,) = xscl.check([xscl.parse(text)]).queries
        if holds_pattern(resolved.query) and (" NOT " in text or not wanted):
            break
    documents = pattern_documents(random, random.randint(4, 9))
    return Case(text, documents, random.choice((0, 0, 0, 1, 2)), random.choice((0, 0, 1, 2, 5, 40)))


class Judge:
    """The oracle with all documents of a case in it."""

    def __init__(self, case: Case) -> None:
        oracle = Oracle(case.lateness * SECOND)
        (resolved,) = xscl.check([xscl.parse(case.text)]).queries
        oracle.process(case.documents[: case.before])
        oracle.subscribe(resolved)
        oracle.process(case.documents[case.before :])
        standing = oracle.standing(resolved.id)
        assert isinstance(standing, PatternStanding)
        self.standing, self.watermark = standing, standing.watermark(oracle.highest)
        self.known = [
            each
            for each in oracle.stored
            if each.arrived >= standing.since and each.key not in standing.unknown
        ]

    def fate(self) -> Fate:
        unit, world = self.standing.unit, self._world(self.known, self.standing.highest)
        found, free = self._found(world, unit), self._found(world, replace(unit, absences=[]))
        waits = [e.instance for e in found.values() if not e.instance.wait.over(self.watermark)]
        return Fate(
            {
                (format_pattern(b), sum(bool(world.taken(b, d)) for d in self.known))
                for b in self.standing.blocks
            },
            len(found) - len(waits),
            Counter([_ids(instance) for instance in waits]),
            {_ids(free[identity].instance) for identity in free.keys() - found.keys()},
        )

    def forbids(self, blocked: Blocked) -> bool:
        """Whether, among the documents of a blocked match and what it names alone, there is the
        match without the absences, and not with them."""
        ids = {each.id for each in (*blocked.documents, *blocked.by)}
        world = self._world([each for each in self.known if each.id in ids], None)
        unit = self.standing.unit
        free = self._found(world, replace(unit, absences=[])).items()
        found = self._found(world, unit)
        of = _named(blocked.documents)
        return any(_ids(e.instance) == of and identity not in found for identity, e in free)

    @property
    def flat(self) -> bool:
        """Whether nothing in the pattern is judged by itself. Of NEXT, FOLD and parentheses with
        WHERE or WITHIN `why` tells what is blocked in each of them, and not what the whole pattern
        would make of it."""
        plain = (shape.Leaf, shape.Group)
        return all(isinstance(each, plain) for each in self.standing.unit.order)

    @property
    def simple(self) -> bool:
        """Whether what a match is does not depend on documents that are not in it."""
        return self.standing.strategy.selection is None and all(
            isinstance(each, shape.Leaf) for each in self.standing.unit.order
        )

    def _world(self, documents: Iterable[Stored], registered: int | None) -> World:
        standing = self.standing
        return World(
            documents,
            standing.resolved.namespaces,
            standing.query.partition,
            standing.strategy.selection == "SKIP TILL ANY MATCH",
            registered,
            standing.bound,
        )

    def _found(self, world: World, unit: shape.Unit) -> dict[_Identity, Decided]:
        """All matches, each at the soonest that it is decided."""
        selection = self.standing.strategy.selection
        every = (
            Runs(world, unit, selection, self.standing.blocks).instances()
            if selection in RUNS
            else world.instances(unit, Around())
        )
        found: dict[_Identity, Decided] = {}
        for instance in every:
            made = self.standing.identified(instance)
            other = found.setdefault(made.identity, made)
            if later([made.instance.wait, other.instance.wait]) == other.instance.wait:
                found[made.identity] = made
        return found


@contextmanager
def asked(case: Case) -> Iterator[tuple[Broker, Why]]:
    """A broker that has seen a case, and what it tells."""
    with Broker(lateness=case.lateness) as broker:
        broker.process([_document(each) for each in case.documents[: case.before]])
        broker.subscribe(case.text)
        broker.process([_document(each) for each in case.documents[case.before :]])
        (found,) = broker.why("q")
        assert isinstance(found, Why)
        yield broker, found


def told(case: Case) -> Why:
    with asked(case) as (_, found):
        return found


def difference(case: Case, why: Why) -> str | None:
    """What differs between what `why` tells and what the oracle knows, None for nothing."""
    judge = Judge(case)
    fate = judge.fate()
    blocks = {(each.block, each.documents) for each in why.blocks}
    waiting = Counter([_named(each.documents) for each in why.waiting])
    blocked = {_named(each.documents) for each in why.blocked}
    if (blocks, why.found) != (fate.blocks, fate.found):
        return f"expected {fate}\nfound    {blocks}, {why.found}"
    if why.waiting_count <= SHOWN and waiting != fate.waiting:
        return f"waiting: expected {fate.waiting}\nfound    {waiting}"
    if not judge.flat:
        return None
    if why.blocked_count <= SHOWN and blocked != fate.blocked:
        return f"blocked: expected {fate.blocked}\nfound    {blocked}"
    if judge.simple:
        for each in why.blocked:
            if each.by and not judge.forbids(each):
                return f"nothing forbids {each}"
    return None


def _ids(instance: Instance) -> Ids:
    return frozenset([document.id for document in instance.documents()])


def _named(documents: Sequence[Seen]) -> Ids:
    return frozenset([document.id for document in documents])


def one(seed: int, _level: str) -> Outcome:
    of = case(seed)
    why = told(of)
    counts = Counter(matched=bool(why.found), waiting=bool(why.waiting), blocked=bool(why.blocked))
    failed = difference(of, why)
    return Outcome(1, counts, None if failed is None else partial(_shown, of, failed))


def _shown(of: Case, failed: str, _trials: int) -> str:
    return "\n".join([of.text, repr(of), failed])


if __name__ == "__main__":
    raise SystemExit(long_run(__doc__, "level", ("patterns",), one))

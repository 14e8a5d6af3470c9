"""A registered query of Part 2: what it publishes, when it is decided, and each match once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lxml import etree

from tests.oracle import queries
from tests.oracle.matches import Found, Match, Resolved, Stored
from tests.oracle.part2 import naming, shape
from tests.oracle.part2.instances import Around, Instance, Taken, World
from tests.oracle.part2.output import Output
from tests.oracle.part2.runs import Runs
from tests.oracle.part2.scope import Scope
from tests.oracle.part2.times import Wait, later
from tests.oracle.trees import canonical
from tests.oracle.values import NodeSet, to_string
from xscl import ast
from xscl.normal.normalize import nested_query

RUNS = ("SKIP TILL NEXT MATCH", "STRICT CONTIGUITY", "PARTITION CONTIGUITY")


@dataclass(frozen=True)
class Decided:
    """A match that passed everything but what looks at several matches."""

    instance: Instance
    identity: tuple[object, ...]
    nodes: tuple[int, ...]

    @property
    def order(self) -> tuple[object, ...]:
        span = self.instance.span
        absent = [part is None for part in self.instance.parts.values()]
        return (span.end, span.start, ids(self.instance), absent, self.nodes)


@dataclass
class PatternStanding:
    """Like `matches.Standing`, for a query of Part 2. `highest` is the highest time seen at its
    registration; `lateness` that of its streams, in microseconds, None for no bound."""

    resolved: Resolved
    since: int
    stream: str | None
    anonymous: Mapping[str, str]
    highest: int | None
    lateness: int | None
    hidden: bool = False
    unit: shape.Unit = field(init=False)
    blocks: list[ast.Block] = field(init=False)
    bound: dict[int, frozenset[str]] = field(init=False)
    unknown: set[object] = field(default_factory=set)
    late: list[str] = field(default_factory=list)
    undecided: list[Decided] = field(default_factory=list)
    _known: set[object] = field(default_factory=set)
    _judged: set[object] = field(default_factory=set)
    _watermark: int | None = None
    _kept_ones: set[object] = field(default_factory=set)
    _kept: dict[object, int] = field(default_factory=dict)
    _begun: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        query = self.query
        nested = {
            id(term): self.anonymous[nested_query(term, self.resolved.namespaces).id]
            for term in naming.terms(query.pattern)
            if isinstance(term, ast.Nested)
        }
        shaper = shape.Shaper(nested)
        where = [] if query.where is None else [query.where]
        self.unit = shaper.unit(query.pattern, where, query.within)
        self.blocks = shaper.blocks
        self.bound = shaper.bound

    @property
    def query(self) -> ast.Query:
        return self.resolved.query

    @property
    def streams(self) -> set[str]:
        return {block.stream for block in self.blocks}

    @property
    def strategy(self) -> ast.Strategy:
        return self.query.strategy or ast.Strategy(span=self.query.span)

    # -- time ----------------------------------------------------------------------------------

    def watermark(self, highest: int | None) -> int | None:
        if highest is None or self.lateness is None:
            return None
        return highest - self.lateness

    def arrives(self, document: Stored, highest: int | None) -> None:
        """What is older than the watermark when it arrives is unknown to the query."""
        watermark = self.watermark(highest)
        if watermark is not None and document.end < watermark:
            self.unknown.add(document.key)
            self.late.append(document.id)

    def waiting(self) -> list[tuple[object, ...]]:
        """The documents of what is not decided."""
        return [refs(each.instance) for each in self.undecided]

    # -- matches -------------------------------------------------------------------------------

    def step(self, stored: Iterable[Stored], highest: int | None) -> list[Match]:
        """What is published now, that was not before."""
        documents = self._documents(stored)
        before = self._watermark
        now = self.watermark(highest)
        if now is not None and before is not None:
            now = max(now, before)
        found = self._decided(documents)
        new = [
            decided
            for decided in found.values()
            if decided.instance.wait.over(now)
            and not self._was_over(decided.instance, before)
            and decided.identity not in self._judged
        ]
        self.undecided = [d for d in found.values() if not d.instance.wait.over(now)]
        self._known = {d.key for d in documents}
        self._watermark = now
        over_now = [decided for decided in found.values() if decided.instance.wait.over(now)]
        return list(self._published(sorted(new, key=lambda each: each.order), over_now))

    def revises(self, stored: Iterable[Stored]) -> None:
        """One of these documents is about to be revised. What is decided is judged, whatever becomes
        of its documents."""
        for identity, decided in self._decided(self._documents(stored)).items():
            if decided.instance.wait.over(self._watermark):
                self._judged.add(identity)

    def _documents(self, stored: Iterable[Stored]) -> list[Stored]:
        return [d for d in stored if d.arrived >= self.since and d.key not in self.unknown]

    def _decided(self, documents: Sequence[Stored]) -> dict[tuple[object, ...], Decided]:
        """Of each match among documents the instance that is decided first."""
        found: dict[tuple[object, ...], Decided] = {}
        for instance in self._instances(documents):
            decided = self.identified(self._at_its_end(instance))
            other = found.get(decided.identity)
            if other is None or _sooner(decided, other):
                found[decided.identity] = decided
        return found

    def _at_its_end(self, instance: Instance) -> Instance:
        """What looks at several matches waits until none that ends before can come."""
        if self.strategy.choosing is None and self.query.over is None:
            return instance
        return replace(instance, wait=later([instance.wait, Wait(instance.span.end, True)]))

    def _was_over(self, instance: Instance, before: int | None) -> bool:
        there = all(document.key in self._known for document in instance.documents())
        return there and instance.wait.over(before)

    def _instances(self, documents: Sequence[Stored]) -> Iterable[Instance]:
        selection = self.strategy.selection
        world = World(
            documents,
            self.resolved.namespaces,
            self.query.partition,
            selection == "SKIP TILL ANY MATCH",
            self.highest,
            self.bound,
        )
        self.world = world
        if selection in RUNS:
            return Runs(world, self.unit, selection, self.blocks).instances()
        return world.instances(self.unit, Around())

    def identified(self, instance: Instance) -> Decided:
        nodes: list[int] = []
        single = instance.single()
        if self.query.select is None:
            nodes = [p.node.number for p in instance.parts.values() if isinstance(p, Taken)]
        else:
            named = queries.selected(self.query.select)
            nodes = [single[name][1].number for name in named if name in single]
        return Decided(instance, (keys(instance), tuple(nodes)), tuple(nodes))

    # -- strategies over matches, and windows of matches ---------------------------------------

    def _published(self, new: list[Decided], over_now: list[Decided]) -> Iterable[Match]:
        over = self.query.over
        kept = [decided for decided in new if self._keeps(decided)]
        self._kept_ones |= {decided.identity for decided in kept}
        if self.strategy.choosing is not None:
            over_now = [each for each in over_now if each.identity in self._kept_ones]
        for decided in kept:
            if over is None:
                yield self._match(decided, None)
                continue
            scope = self._window(decided, over, over_now)
            if over.having is None or scope.holds(over.having):
                yield self._match(decided, scope)

    def _keeps(self, decided: Decided) -> bool:
        choosing, instance = self.strategy.choosing, decided.instance
        if choosing is None:
            return True
        if choosing == "ONE PER START":
            earliest = min(instance.documents(), key=lambda d: (d.end, d.start, d.id)).key
            if earliest in self._begun:
                return False
            self._begun.add(earliest)
            return True
        partition = None if instance.tuples is None else min(instance.tuples)
        last = self._kept.get(partition)
        if last is not None and not instance.span.start > last:
            return False
        self._kept[partition] = instance.span.end
        return True

    def _window(self, decided: Decided, over: ast.Over, among: Sequence[Decided]) -> Scope:
        """What functions range over: the matches as their documents are now."""
        end, width = decided.instance.span.end, over.window.microseconds
        key = self._key(decided, over)
        inside = [
            other
            for other in among
            if other.instance.span.end <= end
            and (width is None or other.instance.span.end >= end - width)
            and self._key(other, over) == key
        ]
        inside.sort(key=lambda each: each.order)
        names = {name for other in inside for name in other.instance.single()}
        return Scope(
            self.resolved.namespaces,
            decided.instance.single(),
            {
                **decided.instance.elements(),
                **{name: [o.instance.single().get(name) for o in inside] for name in names},
            },
            length=decided.instance.span.length,
            windowed=frozenset(names),
        )

    def _key(self, decided: Decided, over: ast.Over) -> tuple[object, ...]:
        scope = self.world.scope(decided.instance, Around())
        found = [scope.known(key) for key in over.keys]
        return tuple(v.texts if isinstance(v, NodeSet) else to_string(v) for v in found)

    # -- what is told --------------------------------------------------------------------------

    def _match(self, decided: Decided, scope: Scope | None) -> Match:
        instance = decided.instance
        scope = scope or self.world.scope(instance, Around())
        interval = (instance.span.start, instance.span.end)
        xml = Output(self.resolved, instance, scope, interval).xml()
        found = Found(
            self.resolved.id,
            refs(instance),  # type: ignore[arg-type]
            decided.nodes,
            *interval,
            (),
            canonical(etree.fromstring(xml)),
        )
        return Match(found, tuple(instance.documents()), xml, self.hidden)

    def derived(self, match: Match) -> Stored:
        """The result as a document of the query's stream; AT END, a point."""
        made = match.document(self)  # type: ignore[arg-type]
        # Of an OR two matches may have the same documents, in other places.
        made = replace(made, key=(made.key, match.found.documents))
        return replace(made, start=made.end) if self.query.at_end else made


def _sooner(one: Decided, other: Decided) -> bool:
    waits = [one.instance.wait, other.instance.wait]
    return waits[0] != waits[1] and later(waits) == waits[1]


def keys(instance: Instance) -> tuple[object, ...]:
    """The documents of an instance by slot."""
    return tuple(
        part.document.key
        if isinstance(part, Taken)
        else None
        if part is None
        else tuple(keys(each) for each in part)
        for part in instance.parts.values()
    )


def refs(instance: Instance) -> tuple[object, ...]:
    """The same as (id, time); an element that is one document stands by itself."""
    found: list[object] = []
    for part in instance.parts.values():
        if part is None:
            found.append(None)
        elif isinstance(part, Taken):
            found.append((part.document.id, part.document.end))
        else:
            found.append(tuple(_element(each) for each in part))
    return tuple(found)


def _element(instance: Instance) -> object:
    inner = refs(instance)
    return inner[0] if len(inner) == 1 else inner


def ids(instance: Instance) -> list[str]:
    return [document.id for document in instance.documents()]

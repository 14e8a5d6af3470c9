"""A registered pattern: its watermark, and which of its matches it publishes, each once.

What selects among matches (NON OVERLAPPING, ONE PER START) and what looks at several (OVER) comes
last, when no match that ends earlier can come any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any

from broker.pattern.instances import Arrived, Instance, Part, Row, due_beyond
from broker.pattern.plan import Plan
from broker.pattern.reading import named_in
from broker.pattern.setting import UNCOUNTED
from broker.pattern.sliding import Past
from broker.pattern.sources import source_of_plan
from broker.pattern.trace import Trace
from broker.pattern.values import Scope
from broker.planner import PLANNING, Planning
from xscl.functions.table import to_string
from xscl.interruption import PENDING, check

END = 2**60
"""A watermark beyond all documents."""


@dataclass(slots=True, eq=False)
class Published:
    """A match that is published: `nodes` are those that SELECT names, `scope` what its expressions
    range over."""

    instance: Instance
    nodes: tuple[int, ...]
    scope: Scope


@dataclass(slots=True, eq=False)
class _Decided:
    instance: Instance
    nodes: tuple[int, ...]

    @property
    def order(self) -> tuple[Any, ...]:
        return order_of(self.instance, self.nodes)


class Marks:
    """What a pattern has kept of its matches, and cannot be made again of the documents: by
    partition the end of the last one kept (NON OVERLAPPING), and the documents with which matches
    began (ONE PER START). `news` are those that are not stored yet."""

    def __init__(self, known: Iterable[tuple[str, int]] = ()) -> None:
        self.ends: dict[str, int] = dict(known)
        self.news: dict[str, int] = {}

    def keep(self, key: str, end: int) -> None:
        self.ends[key] = self.news[key] = end

    def expire(self, horizon: int) -> None:
        """Drop those of documents that ended before a time."""
        self.ends = {
            key: end for key, end in self.ends.items() if end >= horizon or key.startswith("last")
        }


class Standing:
    """One pattern. `registered` is the highest time seen at its registration, None for none.

    Rows come in by tap, in any order that the lateness allows; `advance` gives what is published
    with them and with the watermark. Raises TooMuch where more than `budget` choices would have to
    be tried at once.
    """

    def __init__(
        self,
        plan: Plan,
        registered: int | None,
        budget: int,
        marks: Marks | None = None,
        trace: Trace | None = None,
        planning: Planning = PLANNING,
    ) -> None:
        self.plan = plan
        self.marks = marks or Marks()
        self.watermark: int | None = None
        self._registered = registered
        self._budget = budget
        self._trace = trace
        self._planning = planning
        strategy = plan.query.strategy
        self._choosing = None if strategy is None else strategy.choosing
        self._over = plan.query.over
        self._names = named_in(plan.query.select)
        self._number = count()
        self._ready: list[tuple[int, int, _Decided]] = []
        """Matches that wait for those that end before them."""
        self._past: dict[object, Past] = {}
        """Those that OVER ranges over by their keys of GROUP BY."""
        self._seen: dict[object, int] = {}
        """By identity the end of each match that was decided."""
        self._reset()

    def _reset(self) -> None:
        self._setting, self._source = source_of_plan(
            self.plan, self._registered, self._budget, self._trace, self._planning
        )

    # -- advancing -----------------------------------------------------------------------------

    def advance(self, arrived: Arrived, watermark: int | None) -> list[Published]:
        """What is published now, and was not before."""
        return self._publish(self._decide(arrived, watermark))

    def found(self, arrived: Arrived) -> list[Instance]:
        """The matches among rows that come at once, before any selection among matches, if nothing
        else comes and time goes on: each is decided when twice the watermark is at its `due`, and
        until then it waits. Raises TooMuch."""
        self._setting.left = self._budget
        found: dict[object, Instance] = {}
        for instance in self._source.advance(arrived, END):
            if PENDING:
                check()
            identity = identity_of(instance, nodes_of(instance, self._names))
            if identity not in found or instance.due < found[identity].due:
                found[identity] = instance
        return [*found.values()]

    def again(self, arrived: Arrived) -> None:
        """Make the state of the rows of all live documents, as it was when the watermark was where
        it is, after a restart or a revision. What was published is not published again."""
        self._reset()
        for _, _, decided in self._ready:
            self._seen.pop(identity_of(decided.instance, decided.nodes), None)
        self._ready.clear()
        self._past.clear()
        self._publish(self._decide(arrived, self.watermark, silently=True), silently=True)

    def _decide(
        self, arrived: Arrived, watermark: int | None, silently: bool = False
    ) -> list[_Decided]:
        if self.watermark is None or (watermark is not None and self.watermark < watermark):
            self.watermark = watermark
        self._setting.left = UNCOUNTED if silently else self._budget
        found: list[_Decided] = []
        known: set[object] = set() if silently else self._seen.keys()  # type: ignore[assignment]
        for instance in self._source.advance(arrived, self.watermark):
            if PENDING:
                check()
            nodes = nodes_of(instance, self._names)
            identity = identity_of(instance, nodes)
            if identity not in known:
                found.append(_Decided(instance, nodes))
            self._seen[identity] = instance.end
            if silently:
                known.add(identity)
        return sorted(found, key=lambda each: each.order)

    def _publish(self, decided: Sequence[_Decided], silently: bool = False) -> list[Published]:
        if self._choosing is None and self._over is None:
            return [
                Published(d.instance, d.nodes, scope_of(self.plan, d.instance)) for d in decided
            ]
        for each in decided:
            if PENDING:
                check()
            heappush(self._ready, (due_beyond(each.instance.end), next(self._number), each))
        ready: list[_Decided] = []
        while self._ready and self.watermark is not None:
            if self._ready[0][0] > 2 * self.watermark:
                break
            ready.append(heappop(self._ready)[-1])
        ready.sort(key=lambda each: each.order)
        kept = [each for each in ready if self._keeps(each, silently)]
        if self._over is None:
            return [Published(d.instance, d.nodes, scope_of(self.plan, d.instance)) for d in kept]
        keys = [self._key(each) for each in kept]
        for key, each in zip(keys, kept, strict=True):
            self._past.setdefault(key, Past()).add(each.instance)
        found = [self._windowed(key, each) for key, each in zip(keys, kept, strict=True)]
        return [published for published in found if published is not None]

    # -- which matches are kept ------------------------------------------------------------------

    def _keeps(self, decided: _Decided, silently: bool) -> bool:
        """Whether a match is kept. `silently`: it was decided before, and the marks say how."""
        instance = decided.instance
        if self._choosing is None:
            return True
        if silently:
            return f"kept {_name(decided)}" in self.marks.ends
        if self._choosing == "ONE PER START":
            earliest = min(instance.rows, key=lambda row: row.order)
            key = f"start {earliest.doc}"
            if key in self.marks.ends:
                return False
            self.marks.keep(key, earliest.end)
        else:
            partition = "" if instance.tuples is None else repr(min(instance.tuples))
            key = f"last {partition}"
            last = self.marks.ends.get(key)
            if last is not None and not instance.start > last:
                return False
            self.marks.keep(key, instance.end)
        if self._over is not None:
            self.marks.keep(f"kept {_name(decided)}", instance.end)
        return True

    # -- OVER ----------------------------------------------------------------------------------

    def _key(self, decided: _Decided) -> tuple[object, ...]:
        scope = scope_of(self.plan, decided.instance)
        found: list[object] = []
        for key in self.plan.keys:
            value = key(scope)
            found.append(tuple(value) if isinstance(value, list | tuple) else to_string(value))
        return tuple(found)

    def _windowed(self, key: object, decided: _Decided) -> Published | None:
        """A match with what its functions range over; None if HAVING leaves it out. Matches come in
        order of their ends, so what is before its window is before that of all that follow."""
        assert self._over is not None
        if PENDING:
            check()
        past, end, width = self._past[key], decided.instance.end, self._over.window.microseconds
        if width is not None:
            past.drop(end - width)
        windows = past.window(end)
        scope = Scope(
            decided.instance.single,
            {**decided.instance.several, **windows},
            length=decided.instance.span,
            windowed=frozenset(windows),
        )
        if self.plan.having is not None and not self.plan.having.holds(scope):
            return None
        return Published(decided.instance, decided.nodes, scope)

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        """Twice the watermark at which something may be decided without a new row, or less; NEVER
        if nothing waits. Until then `advance` gives nothing without rows."""
        found = self._source.due()
        return min(found, self._ready[0][0]) if self._ready else found

    def expire(self, watermark: int | None) -> None:
        """Drop what no match can contain any more; nothing is `due` before this watermark."""
        kept = self.plan.kept
        if kept is None or watermark is None:
            return
        horizon = watermark - kept
        self._source.expire(horizon)
        self._seen = {key: end for key, end in self._seen.items() if end >= horizon}
        if self._over is not None and self._over.window.microseconds is not None:
            past = watermark - self._over.window.microseconds
            for key, found in [*self._past.items()]:
                found.drop(past)
                if not found:
                    del self._past[key]
            horizon = min(horizon, past)
        self.marks.expire(horizon)

    def waiting(self, tries: int = UNCOUNTED) -> Iterator[tuple[int, Instance]]:
        """What is not decided, with twice the watermark that decides it; see `due_from`. Raises
        TooMuch where more than so many choices would have to be tried."""
        self._setting.left = tries
        seen: set[object] = set()
        for due, instance in self._source.waiting():
            identity = identity_of(instance, nodes_of(instance, self._names))
            if identity not in self._seen and identity not in seen:
                seen.add(identity)
                yield due, instance
        for due, _, decided in self._ready:
            yield due, decided.instance

    def tried(self, tries: int) -> int:
        """How many choices were tried since there were so many left."""
        return tries - max(0, self._setting.left)


def order_of(instance: Instance, nodes: tuple[int, ...]) -> tuple[Any, ...]:
    """The order of matches that are decided together."""
    ids = [row.id for row in instance.rows]
    absent = [instance.parts[slot] is None for slot in sorted(instance.parts)]
    return (instance.end, instance.start, ids, absent, nodes)


def identity_of(instance: Instance, nodes: tuple[int, ...]) -> object:
    """What a match is: its documents by block, and the nodes that SELECT names."""
    return (_documents(instance.parts), nodes)


def nodes_of(instance: Instance, names: Sequence[str] | None) -> tuple[int, ...]:
    """The nodes that SELECT names; None for *: those that blocks select."""
    if names is None:
        parts = [instance.parts[slot] for slot in sorted(instance.parts)]
        return tuple([part.node for part in parts if isinstance(part, Row)])
    single = instance.single
    return tuple([single[name].nodes[name] for name in names if name in single])


def scope_of(plan: Plan, instance: Instance) -> Scope:
    """The scope of a match; variables of groups that are absent are no elements."""
    empty: Mapping[str, Sequence[Row | None]] = {
        name: ()
        for slot, names in plan.group_variables.items()
        if instance.parts.get(slot) == ()
        for name in names
    }
    several = {**empty, **instance.several}
    return Scope(instance.single, several, instance.computed, length=instance.span)


def _documents(parts: Mapping[int, Part]) -> tuple[object, ...]:
    """The documents of a match by slot."""
    return tuple([_document(parts[slot]) for slot in sorted(parts)])


def _document(part: Part) -> object:
    if part is None:
        return None
    if isinstance(part, Row):
        return part.doc
    return tuple([_documents(each.parts) for each in part])


def _name(decided: _Decided) -> str:
    return repr((_documents(decided.instance.parts), decided.nodes))

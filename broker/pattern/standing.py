"""A registered pattern: its watermark, and which of its matches it publishes, each once.

What selects among matches (NON OVERLAPPING, ONE PER START) and what looks at several (OVER) comes
last, when no match that ends earlier can come any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.pattern.instances import END, Arrived, Instance, due_beyond
from broker.pattern.keeping import Keeping, Known, Names, News, looks_at_several
from broker.pattern.plan import Plan
from broker.pattern.published import Published, identity_of, nodes_of, scope_of
from broker.pattern.reading import named_in
from broker.pattern.setting import UNCOUNTED
from broker.pattern.sources import source_of_plan
from broker.pattern.trace import Trace
from broker.planner import PLANNING, Planning
from xscl.interruption import PENDING, check

_OWN = 0
"""The number of the only query."""


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
        known: Known = (),
        trace: Trace | None = None,
        planning: Planning = PLANNING,
        told: Names = lambda _: (),
    ) -> None:
        self.plan = plan
        self.watermark: int | None = None
        self._registered = registered
        self._budget = budget
        self._trace = trace
        self._planning = planning
        self._names = named_in(plan.query.select)
        self._keeping = Keeping(plan, lambda _: known, told) if looks_at_several(plan) else None
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
        decided, keeping = self._decide(arrived, watermark), self._keeping
        if keeping is None:
            return [each.within(scope_of(self.plan, each.instance)) for each in decided]
        if decided:
            keeping.add(_OWN, decided)
        return keeping.settle(self.watermark).get(_OWN, [])

    def news(self) -> News:
        """What it has kept of its matches and is not stored yet, which it is from now on."""
        news = [] if self._keeping is None else self._keeping.news()
        return news[0][1] if news else {}

    def found(self, arrived: Arrived) -> list[Instance]:
        """The matches among rows that come at once, before any selection among matches, if nothing
        else comes and time goes on: each is decided when twice the watermark is at its `due`, and
        until then it waits. Raises TooMuch."""
        self._setting.left = self._budget
        found: dict[object, Instance] = {}
        for instance in self._source.advance(arrived, END):
            if PENDING:
                check()
            identity = self._identity(instance)
            if identity not in found or instance.due < found[identity].due:
                found[identity] = instance
        if self._trace is not None:
            self._trace.matched(found, self._identity)
        return [*found.values()]

    def _identity(self, instance: Instance) -> object:
        return identity_of(instance, nodes_of(instance, self._names))

    def again(self, arrived: Arrived) -> list[Published]:
        """Make the state of the rows of all live documents, as it was when the watermark was where
        it is, after a restart or a revision. What was decided is not published again; it is
        returned."""
        self._reset()
        keeping = self._keeping
        for waits in () if keeping is None else keeping.waiting(_OWN):
            self._seen.pop(waits.identity, None)
        decided = self._decide(arrived, self.watermark, silently=True)
        if keeping is not None:
            keeping.renew(_OWN, decided, self.watermark)
        return decided

    def _decide(
        self, arrived: Arrived, watermark: int | None, silently: bool = False
    ) -> list[Published]:
        if self.watermark is None or (watermark is not None and self.watermark < watermark):
            self.watermark = watermark
        self._setting.left = UNCOUNTED if silently else self._budget
        found: list[Published] = []
        here: dict[object, Published] = {}
        known: set[object] = set() if silently else self._seen.keys()  # type: ignore[assignment]
        for instance in self._source.advance(arrived, self.watermark):
            if PENDING:
                check()
            nodes = nodes_of(instance, self._names)
            identity = identity_of(instance, nodes)
            if identity not in known:
                found.append(Published(instance, self._names))
                here[identity] = found[-1]
            elif identity in here:
                here[identity].prefer(instance)
            self._seen[identity] = instance.end
            if silently:
                known.add(identity)
        return sorted(found, key=lambda each: each.order)

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        """Twice the watermark at which something may be decided without a new row, or less; NEVER
        if nothing waits. Until then `advance` gives nothing without rows."""
        found = self._source.due()
        return found if self._keeping is None else min(found, self._keeping.due())

    def expire(self, watermark: int | None) -> None:
        """Drop what no match can contain any more; nothing is `due` before this watermark."""
        kept = self.plan.kept
        if kept is None or watermark is None:
            return
        horizon = watermark - kept
        self._source.expire(horizon)
        self._seen = {key: end for key, end in self._seen.items() if end >= horizon}
        if self._keeping is not None:
            self._keeping.expire(watermark)

    def waiting(self, tries: int = UNCOUNTED) -> Iterator[tuple[int, Instance]]:
        """What is not decided, with twice the watermark that decides it; see `due_from`. Raises
        TooMuch where more than so many choices would have to be tried."""
        self._setting.left = tries
        seen: set[object] = set()
        for due, instance in self._source.waiting():
            identity = self._identity(instance)
            if identity not in self._seen and identity not in seen:
                seen.add(identity)
                yield due, instance
        for decided in () if self._keeping is None else self._keeping.waiting(_OWN):
            yield due_beyond(decided.instance.end), decided.instance

    def tried(self, tries: int) -> int:
        """How many choices were tried since there were so many left."""
        return tries - max(0, self._setting.left)

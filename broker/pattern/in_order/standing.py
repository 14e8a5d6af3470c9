"""A registered pattern that is matched in the order of time.

Rows wait until the watermark is at their times; then they are taken in order, so that what is found
is decided. It answers as `broker.pattern.standing.Standing` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count

from broker.pattern.in_order.asking import all_hold
from broker.pattern.in_order.following import Follows, Made
from broker.pattern.in_order.forms import Following, Form, Iterated, Lacking
from broker.pattern.in_order.iterating import Iterates
from broker.pattern.in_order.lacking import SECOND, Lacks
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import NEVER, Arrived, Instance, Row, due_from
from broker.pattern.plan import Leaf, Plan
from broker.pattern.reading import named_in
from broker.pattern.setting import UNCOUNTED
from broker.pattern.standing import Marks, Published, identity_of, nodes_of, order_of, scope_of
from broker.pattern.values import Scope
from xscl.interruption import PENDING, check

Matcher = Follows | Iterates | Lacks
_Event = tuple[int, int, str, tuple[int, ...], int, int, Row]
"""A row by its time, start, id and nodes, and in the order of arrival; with its place."""


class Shared:
    """What all queries of a form share."""

    def __init__(self, plan: Plan, form: Form) -> None:
        self.plan = plan
        self.form = form
        self.names = named_in(plan.query.select)
        self.taps: dict[int, tuple[int, Leaf]] = {
            leaf.tap: (place, leaf) for place, leaf in enumerate(form.leaves)
        }

    def matcher(self, spending: Spending) -> Matcher:
        match self.form:
            case Following():
                return Follows(self.form, spending)
            case Iterated():
                return Iterates(self.form, spending)
            case Lacking():
                return Lacks(self.form, spending)


class InOrder:
    """One pattern of a form. Raises TooMuch where more than `budget` pairs would have to be tried
    for one document."""

    def __init__(self, shared: Shared, budget: int) -> None:
        self.plan = shared.plan
        self.marks = _NONE
        self.watermark: int | None = None
        self._shared = shared
        self._budget = budget
        self._spending = Spending(budget)
        self._matcher = shared.matcher(self._spending)
        self._pending: list[_Event] = []
        """A heap of rows whose times are to come."""
        self._number = count()

    # -- advancing -----------------------------------------------------------------------------

    def advance(self, arrived: Arrived, watermark: int | None) -> list[Published]:
        """What is published now, and was not before."""
        return self._published(self._decided(arrived, watermark, self._budget))

    def again(self, arrived: Arrived) -> None:
        """Make the state of the rows of all live documents, as it was when the watermark was where
        it is. What was published is not published again."""
        self._matcher = self._shared.matcher(self._spending)
        self._pending.clear()
        self._decided(arrived, self.watermark, UNCOUNTED)

    def _decided(self, arrived: Arrived, watermark: int | None, tries: int) -> list[Made]:
        if self.watermark is None or (watermark is not None and self.watermark < watermark):
            self.watermark = watermark
        now = self.watermark
        ready: list[_Event] = []
        for tap, rows in arrived.items():
            for event in self._events(tap, rows):
                if now is not None and event[0] <= now:
                    ready.append(event)
                else:
                    heappush(self._pending, event)
        found: list[Made] = []
        if now is None:
            return found
        while self._pending and self._pending[0][0] <= now:
            ready.append(heappop(self._pending))
        if len(ready) > 1:
            ready.sort()
        take = self._matcher.take
        for event in ready:
            if PENDING:
                check()
            # However many come at once, each may try as much.
            self._spending.left = tries
            take(event[-2], event[-1], found)
        self._matcher.settle(now, found)
        return found

    def _events(self, tap: int, rows: Iterable[Row]) -> Iterator[_Event]:
        place, leaf = self._shared.taps[tap]
        # What stands after a NOT is decided when it starts.
        starts = place == SECOND
        for row in rows:
            if leaf.conjuncts:
                scope = Scope(dict.fromkeys(row.nodes, row), length=row.end - row.start)
                if not all_hold(leaf.conjuncts, scope):
                    continue
            nodes = row.nodes
            rank = (
                row.node,
                *[nodes[name] for name in (nodes if len(nodes) < 2 else sorted(nodes))],
            )
            time = row.start if starts else row.end
            yield time, row.start, row.id, rank, next(self._number), place, row

    def _published(self, found: list[Made]) -> list[Published]:
        if not found:
            return []
        plan, names = self.plan, self._shared.names
        found.sort(key=_first)
        seen: set[object] = set()
        made: list[Published] = []
        for _, instance in found:
            nodes = nodes_of(instance, names)
            if len(found) > 1:
                identity = identity_of(instance, nodes)
                if identity in seen:
                    continue
                seen.add(identity)
            made.append(Published(instance, nodes, scope_of(plan, instance)))
        if len(made) > 1:
            made.sort(key=lambda each: order_of(each.instance, each.nodes))
        return made

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        """Twice the watermark at which something may be decided without a new row, or less."""
        found = due_from(self._pending[0][0]) if self._pending else NEVER
        deadline = self._matcher.due()
        return found if deadline is None else min(found, deadline)

    def expire(self, watermark: int | None) -> None:
        """Drop what no match can contain any more."""
        if watermark is not None:
            self._matcher.expire(watermark)

    def waiting(self, tries: int = UNCOUNTED) -> Iterator[tuple[int, Instance]]:
        """What is not decided, with twice the watermark that decides it. Raises TooMuch."""
        self._spending.left = tries
        trial = self._matcher.trial(self._spending)
        found: list[Made] = []
        for event in sorted(self._pending):
            trial.take(event[-2], event[-1], found, asks=False)
        trial.settle(NEVER, found)
        seen: set[object] = set()
        for _, instance in sorted(found, key=_first):
            identity = identity_of(instance, nodes_of(instance, self._shared.names))
            if identity not in seen:
                seen.add(identity)
                yield instance.due, instance

    def tried(self, tries: int) -> int:
        """How many choices were tried since there were so many left."""
        return tries - max(0, self._spending.left)


def _first(made: Made) -> int:
    return made[0]


_NONE = Marks()
"""Such a pattern keeps nothing of its matches."""

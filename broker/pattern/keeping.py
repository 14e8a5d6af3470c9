"""What looks at several matches: NON OVERLAPPING and ONE PER START, which keep some of them, and
OVER, which ranges over windows of them.

A match waits until the watermark is beyond its end, so that none which ends earlier can come any
more. Those that are ready are looked at in the order of matches: for many queries of one plan, each
by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter

from broker.pattern.instances import NEVER, due_beyond
from broker.pattern.plan import Plan
from broker.pattern.published import Published, scope_of
from broker.pattern.sliding import Past
from broker.pattern.values import Scope
from xscl.functions.table import to_string
from xscl.interruption import PENDING, check

Known = Iterable[tuple[str, int]]
"""Marks: keys, and the times at which what they are of ends."""

News = dict[str, int]
"""New marks of one query."""

Names = Callable[[int], Container[str]]
"""The names of some matches of a query."""

LASTING = "last "
"""What keys of partitions begin with: these marks are never forgotten."""

_FEW = 64
"""Places in a heap that are not worth to be tidied up."""


def keeps(plan: Plan) -> bool:
    """Whether a plan has a memory of its matches that cannot be made again of documents."""
    strategy = plan.query.strategy
    return strategy is not None and strategy.choosing is not None


def looks_at_several(plan: Plan) -> bool:
    """Whether a plan looks at several matches."""
    return keeps(plan) or plan.query.over is not None


class Marks:
    """What a query has kept of its matches, and cannot be made again of the documents: by partition
    the end of the last one kept (NON OVERLAPPING), and the documents with which matches began (ONE
    PER START). `news` are those that are not stored yet."""

    __slots__ = ("_first", "ends", "news")

    def __init__(self, known: Known = ()) -> None:
        self.ends: dict[str, int] = dict(known)
        self.news: News = {}
        self._first = min(self.ends.values(), default=NEVER)
        """Nothing that may be dropped ended before."""

    def keep(self, key: str, end: int) -> None:
        self.ends[key] = self.news[key] = end
        if end < self._first:
            self._first = end

    def expire(self, horizon: int) -> None:
        """Drop those of documents that ended before a time."""
        if horizon <= self._first:
            return
        self._first = horizon
        self.ends = {
            key: end for key, end in self.ends.items() if end >= horizon or key.startswith(LASTING)
        }


class Keeping:
    """The matches of queries of one plan that wait for those that end before them, by the numbers
    of the queries. `known` gives the marks that are stored of a query, `told` the names of matches
    that it has looked at and that are there again, as a document was revised."""

    def __init__(
        self, plan: Plan, known: Callable[[int], Known], told: Names = lambda _: ()
    ) -> None:
        self._plan = plan
        self._known = known
        self._told = told
        strategy = plan.query.strategy
        self._choosing = None if strategy is None else strategy.choosing
        self._over = plan.query.over
        self._number = 0
        self._dues: list[tuple[int, int, int]] = []
        """A heap of twice the watermarks that decide matches, the numbers of these and of their
        queries; those that are not in `_waits` any more do not count."""
        self._waits: dict[int, dict[int, Published]] = {}
        self._waiting = 0
        self._past: dict[int, dict[object, Past]] = {}
        """Those that OVER ranges over, by their keys of GROUP BY."""
        self._marks: dict[int, Marks] = {}
        self._marked: set[int] = set()

    @property
    def ranges(self) -> bool:
        """Whether matches are needed beyond the time when they are looked at."""
        return self._over is not None

    def add(self, owner: int, decided: Iterable[Published]) -> None:
        """Matches of a query are decided."""
        waits = self._waits.setdefault(owner, {})
        for each in decided:
            self._number += 1
            waits[self._number] = each
            self._waiting += 1
            heappush(self._dues, (due_beyond(each.instance.end), self._number, owner))

    def settle(
        self, watermark: int | None, begins: Callable[[int], bool] | None = None
    ) -> dict[int, list[Published]]:
        """What is published now, by query. With `begins` only of those for which it says so; what
        is ready of the others is dropped."""
        ready: dict[int, list[Published]] = {}
        while watermark is not None and self.due() <= 2 * watermark:
            _, number, owner = heappop(self._dues)
            own = self._waits[owner]
            ready.setdefault(owner, []).append(own.pop(number))
            self._waiting -= 1
            if not own:
                del self._waits[owner]
        found: dict[int, list[Published]] = {}
        for owner in sorted(ready):
            if begins is None or begins(owner):
                published = self._published(owner, ready[owner])
                if published:
                    found[owner] = published
        return found

    def _published(self, owner: int, ready: list[Published]) -> list[Published]:
        """Of matches of a query that are ready those that are published, in order."""
        if len(ready) > 1:
            ready.sort(key=_order)
        if self._choosing is not None:
            marks, told = self.marks(owner), self._told(owner)
            ready = [each for each in ready if self._is_kept(marks, each, told)]
            if marks.news:
                self._marked.add(owner)
        if self._over is None:
            return [each.within(scope_of(self._plan, each.instance)) for each in ready]
        pasts = self._note(owner, ready)
        found = [self._windowed(past, each) for past, each in zip(pasts, ready, strict=True)]
        return [published for published in found if published is not None]

    def renew(self, owner: int, decided: Sequence[Published], watermark: int | None) -> None:
        """The matches that a query has by this watermark are these, after a restart or a revision.
        Those that were looked at by then are not looked at again: the marks say what was kept."""
        self.forget(owner)
        past: list[Published] = []
        for each in decided:
            if watermark is not None and due_beyond(each.instance.end) <= 2 * watermark:
                past.append(each)
            else:
                self.add(owner, (each,))
        if self._over is None or not past:
            return
        past.sort(key=_order)
        if self._choosing is not None:
            ends = self.marks(owner).ends
            past = [each for each in past if _kept(each) in ends]
        self._note(owner, past)

    # -- which matches are kept ------------------------------------------------------------------

    def marks(self, owner: int) -> Marks:
        """The marks of a query."""
        found = self._marks.get(owner)
        if found is None:
            found = self._marks[owner] = Marks(self._known(owner))
        return found

    def news(self) -> list[tuple[int, News]]:
        """The marks that are new, by query: they are to be stored, and not new from now on."""
        marked, self._marked = sorted(self._marked), set()
        found = []
        for owner in marked:
            marks = self._marks[owner]
            found.append((owner, marks.news))
            marks.news = {}
        return found

    def _is_kept(self, marks: Marks, decided: Published, told: Container[str]) -> bool:
        if PENDING:
            check()
        if told and decided.name in told:
            return self._over is not None and _kept(decided) in marks.ends
        instance = decided.instance
        if self._choosing == "ONE PER START":
            earliest = min(instance.rows, key=_order)
            key, end = f"start {earliest.doc}", earliest.end
            if key in marks.ends:
                return False
        else:
            partition, end = decided.partition, instance.end
            key = f"{LASTING}{'' if partition is None else repr(partition)}"
            last = marks.ends.get(key)
            if last is not None and not instance.start > last:
                return False
        marks.keep(key, end)
        if self._over is not None:
            marks.keep(_kept(decided), instance.end)
        return True

    # -- OVER ----------------------------------------------------------------------------------

    def _note(self, owner: int, decided: Sequence[Published]) -> list[Past]:
        """Note matches, in order, for the windows of later ones; with what they are among."""
        pasts = self._past.setdefault(owner, {})
        found = []
        for each in decided:
            if PENDING:
                check()
            key = self._key(each)
            past = pasts.get(key)
            if past is None:
                past = pasts[key] = Past()
            past.add(each.instance)
            found.append(past)
        return found

    def _key(self, decided: Published) -> tuple[object, ...]:
        scope = scope_of(self._plan, decided.instance)
        found: list[object] = []
        for key in self._plan.keys:
            value = key(scope)
            found.append(tuple(value) if isinstance(value, list | tuple) else to_string(value))
        return tuple(found)

    def _windowed(self, past: Past, decided: Published) -> Published | None:
        """A match with what its functions range over; None if HAVING leaves it out. Matches come in
        order of their ends, so what is before its window is before that of all that follow."""
        assert self._over is not None
        if PENDING:
            check()
        end, width = decided.instance.end, self._over.window.microseconds
        if width is not None:
            past.drop(end - width)
        windows = past.window(end)
        scope = Scope(
            decided.instance.single,
            {**decided.instance.several, **windows},
            length=decided.instance.span,
            windowed=frozenset(windows),
        )
        if self._plan.having is not None and not self._plan.having.holds(scope):
            return None
        return decided.within(scope)

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        """Twice the watermark at which the next match is looked at; NEVER for none."""
        dues = self._dues
        while dues and not self._is_waiting(dues[0]):
            heappop(dues)
        return dues[0][0] if dues else NEVER

    def _is_waiting(self, due: tuple[int, int, int]) -> bool:
        return due[1] in self._waits.get(due[2], ())

    def waiting(self, owner: int) -> Iterator[Published]:
        """What waits of a query, what is looked at first in front."""
        yield from sorted(self._waits.get(owner, {}).values(), key=_end)

    def forget(self, owner: int) -> None:
        """Forget the matches of a query, but not its marks."""
        self._waiting -= len(self._waits.pop(owner, ()))
        self._past.pop(owner, None)
        if len(self._dues) > _FEW + 2 * self._waiting:
            self._dues = [*filter(self._is_waiting, self._dues)]
            heapify(self._dues)

    def drop(self, owner: int) -> Mapping[str, int]:
        """Forget all that there is of a query, as nothing comes of it, or as it has gone. Returns
        its marks, which are asked for again if something comes."""
        self.forget(owner)
        self._marked.discard(owner)
        marks = self._marks.pop(owner, None)
        return {} if marks is None else marks.ends

    def expire(self, watermark: int) -> None:
        """Drop what no window reaches any more, and what has kept nothing that can come again."""
        kept = self._plan.kept
        if kept is None:
            return
        horizon = watermark - kept
        if self._over is not None and self._over.window.microseconds is not None:
            reached = watermark - self._over.window.microseconds
            for owner, pasts in [*self._past.items()]:
                for key, past in [*pasts.items()]:
                    past.drop(reached)
                    if not past:
                        del pasts[key]
                if not pasts:
                    del self._past[owner]
            horizon = min(horizon, reached)
        for marks in self._marks.values():
            marks.expire(horizon)


def _kept(decided: Published) -> str:
    """The key of the mark that a match was kept."""
    return f"kept {decided.name}"


def _end(decided: Published) -> int:
    return decided.instance.end


_order = attrgetter("order")

"""Steps of runs: which items they may take documents for, and what is asked then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from broker.pattern.in_order.run_checks import (
    NOTHING,
    Check,
    Checks,
    Filled,
    Sums,
    Whole,
    added,
)
from broker.pattern.in_order.run_forms import Running, Timed
from broker.pattern.instances import Row

Fed = tuple[int, int]
"""A document, and as bits the items for which it was taken. Its nodes come to these by turns."""


def is_fed(fed: Fed, at: int, doc: int) -> bool:
    """Whether a document was taken for an item."""
    return fed[0] == doc and bool(fed[1] >> at & 1)


def feed(fed: Fed, at: int, doc: int) -> Fed:
    """The same with a document that is taken for an item."""
    return (doc, (fed[1] if fed[0] == doc else 0) | 1 << at)


class Run:
    """`at` is the item that it awaits, or the group that it is in; `level` is the last item for
    which it took a document, so that what was asked then is not asked again. `filled` are its
    documents, `sums` those of the group that it is in. It started at `start`, its last document
    ended at `end`, and it is `closed` for all that end after that time. `fed` is the
    document that it took last for an element, and for which items."""

    __slots__ = ("at", "closed", "end", "fed", "filled", "level", "start", "sums")

    def __init__(
        self, at: int, level: int, filled: Filled, sums: Sums, start: int, end: int
    ) -> None:
        self.at = at
        self.level = level
        self.filled = filled
        self.sums = sums
        self.start = start
        self.end = end
        self.closed: int | None = None
        self.fed: Fed = (0, 0)

    def copied(self) -> Run:
        found = Run(self.at, self.level, self.filled, self.sums, self.start, self.end)
        found.closed, found.fed = self.closed, self.fed
        return found

    def size(self, at: int) -> int:
        """How many elements it has in a group."""
        return len(self.filled[at]) if at < len(self.filled) else 0

    def rows(self) -> Iterator[Row]:
        """Its documents."""
        for one in self.filled:
            if isinstance(one, Row):
                yield one
            else:
                yield from one

    def has(self, key: int) -> bool:
        """Whether a document is there, whichever version of it."""
        return any(row.key == key for row in self.rows())


NEW = Run(0, -1, (), (), 0, 0)
"""What has taken nothing yet."""

_Between = tuple[list[Whole], list[tuple[int, Check]], list[tuple[int, Check]]]
"""What is asked of runs, of elements and of first elements of groups at these items."""


class Steps:
    """What a form asks of a run: which items it may take documents for, and its conjuncts."""

    def __init__(self, form: Running) -> None:
        self._places = form.places
        count = len(form.places)
        self.last = [place.limit for place in form.places]
        """How long a run may last with a document for an item."""
        self.begins = [all(not p.least for p in form.places[:at]) for at in range(count)]
        """Whether a run may begin with an item; and whether it can take nothing else for it."""
        self.begins_only = [at == 0 and place.group is None for at, place in enumerate(form.places)]
        self.once = [
            place.group is not None
            and all(each.ready <= at for each in (*form.each[at], *form.first[at]))
            for at, place in enumerate(form.places)
        ]
        """Whether all is known of an element when it is taken: the first nodes that pass count."""
        self._rest = [all(not p.least for p in form.places[at:]) for at in range(count + 1)]
        """Whether nothing needs to come from an item on; and, in one, from the next one on."""
        self.may_end = [*self._rest[1:], True]
        checks = Checks(form.places)
        self._whole = [(each.ready, checks.whole(each.conjunct)) for each in form.whole]
        self._each = [_elements(at, own, checks) for at, own in enumerate(form.each)]
        self._first = [
            [(each.ready, checks.first(each.conjunct)) for each in own] for own in form.first
        ]
        self._texts = checks.texts
        self._nothing = [(NOTHING,) * len(texts) for texts in checks.texts]
        self._late = [
            (at, each.ready, checks.late(at, each.conjunct))
            for at, own in enumerate(form.each)
            for each in own
            if each.ready > at
        ]
        self._asked = [
            [self._between(before, to) if before < to else None for to in range(count + 1)]
            for before in range(-1, count)
        ]
        """By the item before, none first, and the item that is reached."""
        self._of = [
            (
                place.limit,
                place.group is not None,
                self._each[at],
                [holds for ready, holds in self._first[at] if ready <= at],
                self._texts[at],
            )
            for at, place in enumerate(form.places)
        ]

    def reaches(self, run: Run, at: int) -> bool:
        """Whether a run may take a document for an item now."""
        now = run.at
        if at < now:
            return False
        while now < at:
            place = self._places[now]
            if place.group is None or run.size(now) < place.least:
                return False
            now += 1
        place = self._places[at]
        return place.group is None or place.most == inf or run.size(at) < place.most

    def _has_room(self, run: Run, at: int) -> bool:
        return run.size(at) < self._places[at].most

    def awaits(self, run: Run) -> Iterator[int]:
        """The items for which a run may take a document."""
        for at in range(run.at, len(self._places)):
            place = self._places[at]
            if place.group is None:
                yield at
                return
            if self._has_room(run, at):
                yield at
            if run.size(at) < place.least:
                return

    def grows(self, run: Run) -> int | None:
        """The first group that may begin or grow; None if there is none."""
        for at in self.awaits(run):
            if self._places[at].group is not None:
                return at
        return None

    def ends(self, run: Run) -> bool:
        """Whether a run is a match."""
        at, places = run.at, self._places
        if not self.may_end[at] or (at < len(places) and run.size(at) < places[at].least):
            return False
        checks = self._asked[run.level + 1][len(places)]
        return checks is None or _holds(run, checks)

    def taken(self, run: Run, at: int, row: Row) -> Run | None:
        """The run with one more document for an item; None where that is not allowed."""
        limit, group, each, first, texts = self._of[at]
        level, end, filled = run.level, row.end, run.filled
        start = row.start if level < 0 else run.start
        if end - start > limit:
            return None
        if len(filled) < at:
            filled = (*filled, *((),) * (at - len(filled)))
        if not group:
            found = Run(at + 1, at, (*filled, row), (), start, end)
        else:
            sums = run.sums
            if len(filled) == at:
                filled, sums = (*filled, ()), self._nothing[at]
            for holds in each:
                if not holds(filled, sums, row):
                    return None
            before = filled[at]
            filled = (*filled[:at], (*before, row))
            if first and not before:
                for holds in first:
                    if not holds(filled, (), row):
                        return None
            if texts:
                sums = added(sums, texts, row)
            found = Run(at, at, filled, sums, start, end)
        checks = self._asked[level + 1][at]
        return found if checks is None or _holds(found, checks) else None

    def _between(self, before: int, to: int) -> _Between | None:
        """What can be asked with the item `to`, and not with the one `before`."""
        found = (
            [holds for ready, holds in self._whole if before < ready <= to],
            [(at, holds) for at, ready, holds in self._late if before < ready <= to],
            [
                (at, holds)
                for at, own in enumerate(self._first)
                for ready, holds in own
                if ready > at and before < ready <= to
            ],
        )
        return found if any(found) else None


def _holds(run: Run, checks: _Between) -> bool:
    whole, late, first = checks
    filled = run.filled
    for holds_whole in whole:
        if not holds_whole(filled):
            return False
    for at, holds in late:
        own = filled[at] if at < len(filled) else ()
        for number, row in enumerate(own):
            if not holds((*filled[:at], own[:number], *filled[at + 1 :]), (), row):
                return False
    for at, holds in first:
        own = filled[at] if at < len(filled) else ()
        if own and not holds((*filled[:at], own[:1], *filled[at + 1 :]), (), own[0]):
            return False
    return True


def _elements(at: int, own: Sequence[Timed], checks: Checks) -> list[Check]:
    """The conjuncts that are asked of each element when it is taken."""
    return [checks.element(at, each.conjunct) for each in own if each.ready <= at]

"""Limits: a subscription that matches more than its owner wants to hear is found out, and stopped.

In go the candidates of a batch, before anything is made of them; out come the subscriptions that
are over their limit, each with the document at which it goes over. A document that would bring a
subscription over its limit brings it nothing: all matches that earlier documents complete are
published, and none from this one on. So what it has not seen begins at an exact document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from broker.join.candidates import Candidate, Found, admits, lengths
from broker.model import UNBOUNDED, Limit
from broker.query.catalog import Canonical, Catalog, Subscription
from broker.state.relations import Interval
from broker.state.store import Store
from xscl.normal.template import Template
from xscl.syntax.durations import format_microseconds

_T = TypeVar("_T")

LONGEST = 1_000
"""Documents that are searched at once where there is a limit."""
_SHORTEST = 16
_CANDIDATES = 100_000
"""Candidates that a search should bring, at most about so many."""


class Limits:
    """The limit of each subscription, by its number, and how much of it has been used.

    `cuts`: those that the batch of now has brought over their limit, with the document.
    """

    def __init__(self, store: Store, default: Limit | None) -> None:
        self.store = store
        self.default = default
        rows = store.rows("SELECT number, matches, period FROM limits")
        self._own = {number: Limit.of(matches, period) for number, matches, period in rows}
        self._used: dict[int, tuple[int, int]] = {}
        """The end of the period, and the matches in it."""
        self._counted: Counter[int] = Counter()
        """Matches of the batch of now."""
        self.cuts: dict[int, int] = {}
        self._completed: dict[int, int] = {}
        """Of the documents that results of this batch are, the number of the one that came in and
        completed them."""
        self._each = 0.0
        """Candidates that a document brought lately."""
        self._stopped: list[Subscription] = []

    def __bool__(self) -> bool:
        return self.default is not None or bool(self._own)

    def change(self, number: int, limit: Limit | None) -> None:
        """Give a subscription a limit of its own, or None: the one for all."""
        with self.store.transaction():
            self.store.run("DELETE FROM limits WHERE number = ?", [number])
            before = self._own.pop(number, None)
            if before is not None:
                self.store.on_rollback(lambda: self._own.update({number: before}))
            if limit is not None:
                self.store.on_rollback(lambda: self._own.pop(number, None))
                self._own[number] = limit
                self.store.run(
                    "INSERT INTO limits VALUES (?, ?, ?)",
                    [number, limit.matches, limit.microseconds],
                )

    def leave(self, numbers: Iterable[int]) -> None:
        """Subscriptions go, and with them the limits of their own."""
        gone = {number: self._own.pop(number) for number in self._own.keys() & set(numbers)}
        if gone:
            self.store.on_rollback(lambda: self._own.update(gone))
            self.store.delete("limits", "number", gone)

    # -- a batch -----------------------------------------------------------------------------

    def begin(self) -> None:
        self._counted.clear()
        self.cuts.clear()
        self._completed.clear()
        self._stopped.clear()

    def derive(self, doc: int, docs: Iterable[int]) -> None:
        """A result has become a document. It has a number above all that came in with this batch,
        though others may have come in behind the one that completed it."""
        self._completed[doc] = self._completing(docs)

    def _completing(self, docs: Iterable[int]) -> int:
        """The document that came in and completed a match: numbers grow with arrival."""
        return max([self._completed.get(doc, doc) for doc in docs])

    def pieces(self, run: list[_T]) -> Iterator[list[_T]]:
        """A run in pieces, each of which brings about as many candidates as one search may. So one
        query that matches everything is found out before it has filled the memory."""
        while self and run:
            size = int(_CANDIDATES / max(1.0, self._each))
            size = max(_SHORTEST, min(LONGEST, size))
            yield run[:size]
            run = run[size:]
        if run:
            yield run

    def find_exceeded(
        self,
        candidates: list[Found],
        shapes: Sequence[Template],
        intervals: Callable[[set[int]], dict[int, Interval]],
        now: int | None,
    ) -> None:
        """Find out who is over the limit; `intervals` brings those of documents by number."""
        counts = Counter([canonical.number for canonical, _ in candidates])
        suspects: dict[int, tuple[Canonical, list[Subscription]]] = {}
        for canonical, _ in candidates:
            count = counts.pop(canonical.number, 0)
            if count:
                over = [
                    s
                    for s in canonical.subscribers.values()
                    if s.number not in self.cuts and count > self._left(s.number, now)
                ]
                if over:
                    suspects[canonical.number] = (canonical, over)
        for canonical, over in suspects.values():
            own = [candidate for c, candidate in candidates if c is canonical]
            own.sort(key=self._last_in)
            known = intervals({doc for candidate in own for doc in candidate.docs})
            for subscription in over:
                left = self._left(subscription.number, now)
                at = self._crossing(subscription, own, shapes[canonical.template], known, left)
                if at is not None:
                    self._stop(subscription, at)

    def _crossing(
        self,
        subscription: Subscription,
        candidates: list[Candidate],
        shape: Template,
        known: dict[int, Interval],
        left: int,
    ) -> int | None:
        """The document whose matches are more than what is left; None where none is."""
        for doc, group in groupby(candidates, key=self._last_in):
            for candidate in group:
                documents = [known[d] for d in candidate.docs]
                base = min(d.base for d in documents)
                left -= admits(subscription, base, lengths(shape, documents))
                if left < 0:
                    return doc
        return None

    def _last_in(self, candidate: Candidate) -> int:
        return self._completing(candidate.docs)

    def _stop(self, subscription: Subscription, at: int) -> None:
        if subscription.number not in self.cuts:
            self._stopped.append(subscription)
        self.cuts[subscription.number] = min(at, self.cuts.get(subscription.number, at))

    def stop_outer_queries(self, catalog: Catalog) -> None:
        """A query in FROM that is over the limit stops those in whose FROM it stands."""
        for inner in self._stopped:  # it grows meanwhile: queries stand in queries
            if inner.number < 0:
                for outer in catalog.subscriptions.values():
                    if any(each.id == inner.id for each in outer.shape.nested):
                        self._stop(outer, self.cuts[inner.number])

    def take_stopped(self) -> list[tuple[str, int, str]]:
        """The ids of those that were stopped since the last call, each with the first document that
        it does not see, and the reason."""
        stopped, self._stopped = self._stopped, []
        return [
            (s.id, self.cuts[s.number], f"over its limit of {self._described(s.number)}")
            for s in stopped
            if s.number > 0
        ]

    def _described(self, number: int) -> str:
        limit = self._of(number) or self.default
        assert limit is not None
        matches = f"{limit.matches:,} match{'es' if limit.matches > 1 else ''}"
        return f"{matches} in {format_microseconds(limit.microseconds)}"

    def wanted(self, candidates: list[Found]) -> list[Found]:
        """Those candidates that somebody gets."""
        if not self.cuts:
            return candidates
        return [
            (canonical, candidate)
            for canonical, candidate in candidates
            if any(self.receives(number, candidate.docs) for number in canonical.subscribers)
        ]

    def receives(self, number: int, docs: Iterable[int]) -> bool:
        """Whether a subscription still gets what these documents are together."""
        return self.cuts.get(number, UNBOUNDED) > self._completing(docs)

    def count(self, documents: int, candidates: int, numbers: Iterable[int]) -> None:
        """A piece has been searched; `numbers` are the subscriptions of its matches."""
        self._each = candidates / documents
        if self:
            self._counted.update(numbers)

    def commit(self, now: int | None) -> None:
        """The batch is done: what it counted has been used up."""
        for number, count in self._counted.items():
            end, used = self._period(number, now)
            self._used[number] = (end, used + count)
        self._counted.clear()

    def renew(self, number: int) -> None:
        """Nothing of a subscription's limit has been used any more."""
        self._used.pop(number, None)

    def forget(self, now: int) -> None:
        """Let go of periods that are over."""
        self._used = {n: period for n, period in self._used.items() if period[0] > now}

    def _of(self, number: int) -> Limit | None:
        return self._own.get(number, self.default)

    def _period(self, number: int, now: int | None) -> tuple[int, int]:
        limit = self._of(number)
        if now is None:
            return UNBOUNDED, self._used.get(number, (0, 0))[1]
        length = UNBOUNDED if limit is None else limit.microseconds
        end, used = self._used.get(number, (0, 0))
        # One that ends too late was begun by a clock that has been set back.
        if now < end <= now + length:
            return end, used
        return now + length, 0

    def _left(self, number: int, now: int | None) -> int:
        limit = self._of(number)
        if limit is None:
            return UNBOUNDED
        return limit.matches - self._period(number, now)[1] - self._counted[number]

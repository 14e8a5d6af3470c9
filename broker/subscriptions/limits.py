"""Limits: a subscription with more matches in a period than its limit is suspended.

In: the candidates of a batch, before matches are made of them. Out: the subscriptions that exceed
their limit, each with the document at which it does. That document completes no match for the
subscription: all matches that earlier documents complete are published, and none from this one on.
So its gap begins at an exact document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TypeVar

from broker.join.budget import HOPELESS
from broker.join.candidates import Candidate, Found, admits, lengths
from broker.model import UNBOUNDED, Limit
from broker.query.canonical import Canonical, Subscription
from broker.query.catalog import Catalog
from broker.query.patterns import TAP
from broker.state.store import Store
from broker.state.stored_documents import Interval
from xscl.normal.template import Template
from xscl.syntax.durations import format_microseconds

_T = TypeVar("_T")

_STRIKES = "strikes_"
"""What the keys of the documents begin with at which a subscription was set aside."""

LONGEST = 1_000
"""Documents that are searched at once at most if there is a limit."""
_SHORTEST = 16
_CANDIDATES = 100_000
"""Candidates that one search should yield at most, about."""


class Limits:
    """The limit of each subscription, by its number, and how much of it has been used.

    `cuts` maps subscriptions that exceeded their limit in the current batch to the first document
    that they do not see.
    """

    def __init__(self, store: Store, default: Limit | None) -> None:
        self.store = store
        self.default = default
        rows = store.stored("SELECT number, matches, period FROM limits")
        self._own = {number: Limit.of(matches, period) for number, matches, period in rows}
        self._used: dict[int, tuple[int, int]] = {}
        """The end of the period, and the matches in it."""
        self._counted: Counter[int] = Counter()
        """Matches in the current batch, by subscription."""
        self.cuts: dict[int, int] = {}
        self._completed: dict[int, int] = {}
        """For the derived documents of this batch, the admitted document that completed them."""
        self._each = 0.0
        """Candidates per document in the last piece."""
        self._stopped: list[tuple[Subscription, str]] = []
        """With the reason, if it is not the limit."""
        found = store.stored("SELECT key, value FROM meta WHERE starts_with(key, ?)", [_STRIKES])
        self._strikes = {int(key.removeprefix(_STRIKES)): int(value) for key, value in found}

    def __bool__(self) -> bool:
        return self.default is not None or bool(self._own)

    def change(self, number: int, limit: Limit | None) -> None:
        """Set a subscription's own limit; with None the common limit applies."""
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

    def remove(self, numbers: Iterable[int]) -> None:
        """Delete the limits of subscriptions that are removed."""
        every = set(numbers)
        gone = {number: self._own.pop(number) for number in self._own.keys() & every}
        if gone:
            self.store.on_rollback(lambda: self._own.update(gone))
            self.store.delete("limits", "number", gone)
        for number in self._strikes.keys() & every:
            self._forgive(number)

    # -- a batch -----------------------------------------------------------------------------

    def begin(self) -> None:
        self._counted.clear()
        self.cuts.clear()
        self._completed.clear()
        self._stopped.clear()

    def derive(self, doc: int, docs: Iterable[int]) -> None:
        """Record which document completed the derived document `doc`, which is made of `docs`. The
        number of a derived document is above all of the batch, so it does not show that order."""
        self._completed[doc] = self.completing(docs)

    def completing(self, docs: Iterable[int]) -> int:
        """The admitted document that completed a match: the one with the highest number."""
        return max([self._completed.get(doc, doc) for doc in docs])

    def pieces(self, run: Sequence[_T]) -> Iterator[Sequence[_T]]:
        """A run cut into pieces that should yield about `_CANDIDATES` candidates each, so that a
        query that matches everything exceeds its limit before it fills the memory."""
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
        """Find the subscriptions that exceed their limit; `intervals` returns the intervals of
        documents by number."""
        counts = Counter([canonical.number for canonical, _ in candidates])
        suspects: dict[int, tuple[Canonical, list[Subscription]]] = {}
        for canonical, _ in candidates:
            count = counts.pop(canonical.number, 0)
            if count:
                over = [
                    s
                    for s in canonical.subscribers.values()
                    if s.number not in self.cuts
                    and count > self.left(s.number, now)
                    and not s.id.startswith(TAP)  # of its documents a pattern makes few matches
                ]
                if over:
                    suspects[canonical.number] = (canonical, over)
        for canonical, over in suspects.values():
            own = [candidate for c, candidate in candidates if c is canonical]
            own.sort(key=self._last_in)
            known = intervals({doc for candidate in own for doc in candidate.docs})
            for subscription in over:
                left = self.left(subscription.number, now)
                at = self._crossing(subscription, own, shapes[canonical.template], known, left)
                if at is not None:
                    self.stop(subscription, at)

    def _crossing(
        self,
        subscription: Subscription,
        candidates: list[Candidate],
        shape: Template,
        known: dict[int, Interval],
        left: int,
    ) -> int | None:
        """The first document whose matches exceed `left`, None if none does."""
        for doc, group in groupby(candidates, key=self._last_in):
            for candidate in group:
                documents = [known[d] for d in candidate.docs]
                base = min(d.base for d in documents)
                left -= admits(subscription, base, lengths(shape, documents))
                if left < 0:
                    return doc
        return None

    def _last_in(self, candidate: Candidate) -> int:
        return self.completing(candidate.docs)

    def take(self, subscription: Subscription, docs: Sequence[int], now: int | None) -> None:
        """Suspend a subscription with more matches than it may have; `docs` are the documents that
        complete them, in order."""
        left = self.left(subscription.number, now)
        if left < len(docs):
            self.stop(subscription, docs[max(0, left)])

    def admits(self, subscription: Subscription, doc: int, matches: int, now: int | None) -> bool:
        """Whether an event pattern may have so many more matches; otherwise it is suspended from
        document number `doc` on."""
        number = subscription.number
        if not self or number < 0 or matches <= self.left(number, now):
            return True
        self.stop(subscription, doc)
        return False

    def count_matches(self, number: int, matches: int) -> None:
        """Count matches of an event pattern."""
        if self:
            self._counted[number] += matches

    def stop(self, subscription: Subscription, at: int, reason: str = "") -> None:
        """Suspend a subscription: it does not see document number `at` and those after it."""
        if subscription.number not in self.cuts:
            self._stopped.append((subscription, reason))
        self.cuts[subscription.number] = min(at, self.cuts.get(subscription.number, at))

    # -- documents at which a subscription was set aside -------------------------------------

    def strike(self, subscription: Subscription, docs: Iterable[int], why: str) -> None:
        """Count a match's documents at which a subscription was set aside, see
        `broker/join/budget.py`. Too many such matches suspend it, from the last of them on."""
        number = subscription.number
        before = self._strikes.get(number, 0)
        if number in self.cuts:
            return
        if before + 1 >= HOPELESS:
            self._forgive(number)
            reason = f"set aside at {HOPELESS} documents, the last time for {why}"
            self.stop(subscription, self.completing(docs), reason)
            return
        self.store.on_rollback(partial(self._reset, number, before))
        self._strikes[number] = before + 1
        self.store.set_numbers(**{f"{_STRIKES}{number}": before + 1})

    def _forgive(self, number: int) -> None:
        before = self._strikes.pop(number, 0)
        self.store.on_rollback(partial(self._reset, number, before))
        self.store.run("DELETE FROM meta WHERE key = ?", [f"{_STRIKES}{number}"])

    def _reset(self, number: int, count: int) -> None:
        if count:
            self._strikes[number] = count
        else:
            self._strikes.pop(number, None)

    def stop_outer_queries(self, catalog: Catalog) -> None:
        """Stop the queries in whose FROM a query stands that exceeds the limit."""
        for inner, why in self._stopped:  # the loop appends to it, since FROM may be nested
            if inner.number < 0:
                for outer in catalog.subscriptions.values():
                    if any(each.id == inner.id for each in outer.nested):
                        self.stop(outer, self.cuts[inner.number], why)

    def take_stopped(self) -> list[tuple[str, int, str]]:
        """The subscriptions that were stopped since the last call: id, the first document that it
        does not see, and the reason."""
        stopped, self._stopped = self._stopped, []
        return [
            (s.id, self.cuts[s.number], why or f"over its limit of {self._described(s.number)}")
            for s, why in stopped
            if s.number > 0
        ]

    def _described(self, number: int) -> str:
        limit = self._of(number) or self.default
        assert limit is not None
        matches = f"{limit.matches:,} match{'es' if limit.matches > 1 else ''}"
        return f"{matches} in {format_microseconds(limit.microseconds)}"

    def wanted(self, candidates: list[Found]) -> list[Found]:
        """The candidates that at least one subscriber still receives."""
        if not self.cuts:
            return candidates
        return [
            (canonical, candidate)
            for canonical, candidate in candidates
            if any(self.receives(number, candidate.docs) for number in canonical.subscribers)
        ]

    def receives(self, number: int, docs: Iterable[int]) -> bool:
        """Whether a subscription still receives a match of these documents."""
        return self.cuts.get(number, UNBOUNDED) > self.completing(docs)

    def count(self, documents: int, candidates: int, numbers: Iterable[int]) -> None:
        """Count a searched piece; `numbers` are the subscriptions of its matches."""
        self._each = candidates / documents
        if self:
            self._counted.update(numbers)

    def commit(self, now: int | None) -> None:
        """Add the batch's counts to those of the periods."""
        for number, count in self._counted.items():
            end, used = self._period(number, now)
            self._used[number] = (end, used + count)
        self._counted.clear()

    def renew(self, number: int) -> None:
        """Begin a new period for a subscription."""
        self._used.pop(number, None)

    def forget(self, now: int) -> None:
        """Drop periods that have ended."""
        self._used = {n: period for n, period in self._used.items() if period[0] > now}

    def _of(self, number: int) -> Limit | None:
        return self._own.get(number, self.default)

    def _period(self, number: int, now: int | None) -> tuple[int, int]:
        limit = self._of(number)
        if now is None:
            return UNBOUNDED, self._used.get(number, (0, 0))[1]
        length = UNBOUNDED if limit is None else limit.microseconds
        end, used = self._used.get(number, (0, 0))
        # A period that ends later than now + length was begun before the clock was set back.
        if now < end <= now + length:
            return end, used
        return now + length, 0

    def left(self, number: int, now: int | None) -> int:
        """How many more matches a subscription may have in its period."""
        limit = self._of(number)
        if limit is None:
            return UNBOUNDED
        return limit.matches - self._period(number, now)[1] - self._counted[number]

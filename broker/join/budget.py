"""Bounded work: how much a query may cost at one document.

What counts is the work of a pair, a canonical query and the document that completes its
combinations: combinations of documents and nodes, counted before they are made, and the length of
results, counted before they are put together. So neither how documents are cut into batches nor
the speed of the machine changes what is found. A pair beyond its budget is set aside: it has no
match at all, and all other queries find what they find.

A document made of a result counts for the document that came in and caused it. That such a pair has
too much may be known only when some of its matches have become documents: then the batch is begun
again without the pair (`Again`).
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from broker.join.candidates import Found
from broker.join.work import Work
from broker.model import Budgets
from broker.text.meter import Meter
from xscl.functions.texts import LONGEST

HOPELESS = 3
"""A query that is set aside at so many documents is suspended."""

_AT_ONCE = 10
"""Combinations that a query in SQL may make at once, in budgets of one pair."""

Pair = tuple[int, int]
"""The numbers of a canonical query and of a document."""


class Again(Exception):
    """The batch has to be begun again: what it has made so far contains matches of a pair that is
    set aside now."""


class Aside(NamedTuple):
    """A pair that is set aside, and why; if not for all subscriptions, then for those with these
    numbers."""

    pair: Pair
    why: str
    of: frozenset[int] | None


class Budget:
    """What the pairs of a batch have used of their budgets. `exceeded` says of each pair that is
    set aside why it is, `too_long_for` for which subscriptions alone it is."""

    def __init__(self, budgets: Budgets, work: Work | None = None) -> None:
        self.budgets = budgets
        self.work = work or Work()
        self.one_by_one = False
        """Whether documents come one by one, so that nothing later has been made of any."""
        self.exceeded: dict[Pair, str] = {}
        self.too_long_for: dict[Pair, set[int]] = {}
        self._used: Counter[tuple[Pair, int]] = Counter()
        self._taken: Counter[Pair] = Counter()
        self._news: list[Aside] = []
        self._derived: dict[int, Counter[int]] = {}
        """By document that came in, the documents that the results of canonical queries became."""
        self._origins: dict[int, int] = {}
        self._late = False
        self._aside: dict[int, list[int]] = {}
        """By canonical query, the documents at which it is set aside, in order."""

    def begin(self, again: bool = False, one_by_one: bool = False) -> None:
        """Begin a batch. If it is begun again, what is set aside stays so, and documents come one
        by one."""
        self.one_by_one = again or one_by_one
        kept = [*self.exceeded.items()] if again else []
        self.exceeded.clear()
        self._used.clear()
        self._taken.clear()
        self._news.clear()
        self.too_long_for.clear()
        self._derived.clear()
        self._origins.clear()
        self._aside.clear()
        self._late = False
        for pair, why in kept:
            self._set_aside(pair, why)

    def news(self) -> list[Aside]:
        """What was set aside since the last call, in order of the documents."""
        fresh, self._news = self._news, []
        return sorted(fresh, key=lambda aside: (aside.pair[1], aside.pair[0]))

    def postpone(self, asides: Iterable[Aside]) -> None:
        """Leave what was set aside to the next call of `news`."""
        self._news += asides

    @property
    def combinations(self) -> int:
        return self.budgets.combinations

    @property
    def at_once(self) -> int:
        """The combinations that one query in SQL may make."""
        return _AT_ONCE * self.budgets.combinations

    def is_set_aside(self, pair: Pair) -> bool:
        """Whether there is no need to search for a pair: it is set aside, or enough others of its
        query are for it to be suspended."""
        return pair in self.exceeded or self.is_hopeless(*pair)

    def is_hopeless(self, number: int, doc: int) -> bool:
        """Whether a canonical query is set aside at so many documents before this one that it will
        be suspended by then."""
        docs = self._aside.get(number, ())
        return len(docs) >= HOPELESS and docs[HOPELESS - 1] < doc

    def refuse(self, pair: Pair, why: str) -> None:
        """Set a pair aside before it is searched."""
        self._set_aside(pair, why)

    def too_many(self, pair: Pair) -> None:
        """Set a pair aside that has more combinations than it may."""
        self._set_aside(pair, f"more than {self.combinations:,} combinations")

    def too_long(self, pair: Pair, of: Collection[int] | None = None) -> None:
        """Set a pair aside whose results are longer than they may be; or only the subscriptions
        with these numbers, whose SELECT it is."""
        most = f"a text may have {LONGEST:,} characters, all at one document {self.budgets.text:,}"
        why = f"results that are too long: {most}"
        if of is None:
            self._set_aside(pair, why)
        else:
            self.too_long_for.setdefault(pair, set()).update(of)
            self._news.append(Aside(pair, why, frozenset(of)))

    def too_deep(self, pair: Pair) -> None:
        """Set a pair aside whose results would be too many documents in the end."""
        self._set_aside(pair, f"more than {self.budgets.derived:,} documents made of its results")

    def _set_aside(self, pair: Pair, why: str) -> None:
        if pair not in self.exceeded:
            self._late = self._late or bool(self._origins)
            self.exceeded[pair] = why
            insort(self._aside.setdefault(pair[0], []), pair[1])
            self._news.append(Aside(pair, why, None))

    def meter(self, pair: Pair, select: object) -> Meter:
        """What counts the characters of a result of a pair, for the subscriptions with this
        SELECT."""
        used = self._used.get((pair, id(select)), 0) if self._used else 0
        return Meter(self.budgets.text - used)

    def use(self, pair: Pair, select: object, meter: Meter) -> None:
        """Add what a meter has counted."""
        if meter.used:
            self._used[pair, id(select)] += meter.used

    # -- documents made of results -------------------------------------------------------------

    def derive(self, doc: int, docs: Iterable[int]) -> None:
        """Record that the document `doc` is made of a match of the documents `docs`."""
        self._origins[doc] = self.completing(docs)

    @property
    def has_derived(self) -> bool:
        """Whether any document of this batch is made of a match."""
        return bool(self._origins)

    def is_derived(self, doc: int) -> bool:
        """Whether a document of this batch is made of a match."""
        return doc in self._origins

    def completing(self, docs: Iterable[int]) -> int:
        """The document that came in and completed a match of these documents: the highest number,
        where the number of a derived document is that of the one that caused it."""
        if not self._origins:
            return max(docs)
        return max([self._origins.get(doc, doc) for doc in docs])

    def become(self, pair: Pair, count: int) -> None:
        """Count results of a pair that become documents. If that are too many of one document, the
        query that makes the most of them is set aside there."""
        number, doc = pair
        made = self._derived.setdefault(doc, Counter())
        made[number] += count
        if made.total() > self.budgets.derived:
            most = max(made, key=lambda each: (made[each], each))
            self._late = True
            self.too_deep((most, doc))

    def alone(self) -> None:
        """To be called where an event pattern is stopped: raises Again unless documents come one by
        one, so that it is the document that was too much at which the pattern ends."""
        if not self.one_by_one:
            raise Again

    def check(self) -> None:
        """Raise Again if matches of what is set aside now have become documents."""
        if self._late:
            raise Again

    def take(self, pair: Pair, combinations: int) -> bool:
        """Count combinations of a pair that SQL has found; whether it stays within its budget."""
        self._taken[pair] += combinations
        if self._taken[pair] > self.combinations:
            self.too_many(pair)
            return False
        return True

    def within(self, found: list[Found]) -> list[Found]:
        """The candidates of pairs within their budgets, where these are all candidates."""
        spent = Counter([self.pair(each) for each in found])
        for pair, count in spent.items():
            if count > self.combinations:
                self.too_many(pair)
        return self.left(found)

    def left(self, found: list[Found]) -> list[Found]:
        """The candidates of pairs that are not set aside."""
        gone = self.exceeded
        if not gone:
            return found
        return [each for each in found if self.pair(each) not in gone]

    def pair(self, found: Found) -> Pair:
        """The pair that a candidate is of."""
        canonical, candidate = found
        return canonical.number, self.completing(candidate.docs)

"""Exact numbers of matches, counted without a join, with which every system is compared.

A query's matches are the pairs (earlier, later) of documents whose leaves agree on all its joins,
the earlier one strictly earlier and not further back than the window. Documents come in order of
time, so for each document the possible partners are a range of numbers; values that must agree are
ranked together; sorted by (rank, number), the partners of a document are one range again, and its
length is a difference of two binary searches. Shares no code with any system that it judges.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from bench.workload import UNBOUNDED, Documents, Integers, Query

Joins = tuple[tuple[int, int], ...]


class Exact:
    """Counts over one set of documents; what queries have in common is worked out once."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._ranks: dict[Joins, tuple[Integers, Integers]] = {}
        self._totals: dict[Joins, int] = {}
        self._sorted: dict[Joins, Integers] = {}

    def count(self, query: Query) -> int:
        """The number of matches of a query among the documents."""
        if not self._possible(query.joins):
            return 0
        if query.window == UNBOUNDED and not query.left and not query.right:
            return self._total(query.joins)
        return self._pairs(query)

    def _possible(self, joins: Joins) -> bool:
        """Whether each join alone, and each pair of them, ever holds: cheap, and most do not."""
        return all(self._total((join,)) for join in joins) and all(
            self._total(pair) for pair in combinations(joins, 2)
        )

    def _total(self, joins: Joins) -> int:
        """Matches without filters and window."""
        known = self._totals.get(joins)
        if known is None:
            known = self._totals[joins] = self._pairs(Query(joins))
        return known

    def _pairs(self, query: Query) -> int:
        documents, size = self.documents, len(self.documents)
        times = documents.timestamps
        window = min(query.window, int(times[-1] - times[0]) + 1) if size else 0
        left, right = self._rank(query.joins)
        early, late = documents.satisfying(query.left), documents.satisfying(query.right)
        if len(early) < len(late):
            # Fewer documents on the earlier side: look from there into the later ones.
            keys = self._keys(query, 1, right, late)
            low = np.searchsorted(times, times[early], "right")
            high = np.searchsorted(times, times[early] + window, "right")
            rank = left[early]
        else:
            keys = self._keys(query, 0, left, early)
            low = np.searchsorted(times, times[late] - window, "left")
            high = np.searchsorted(times, times[late], "left")
            rank = right[late]
        base = rank * (size + 1)
        below = np.searchsorted(keys, base + low)
        return int((np.searchsorted(keys, base + high) - below).sum())

    def _keys(self, query: Query, side: int, rank: Integers, numbers: Integers) -> Integers:
        """(rank, number) of one side's documents, sorted, as one integer."""
        if query.constants(side):
            return np.sort(rank[numbers] * (len(self.documents) + 1) + numbers)
        key = (*query.joins, (side, side))
        known = self._sorted.get(key)
        if known is None:
            known = np.sort(rank * (len(self.documents) + 1) + numbers)
            if len(self._sorted) < 200:
                self._sorted[key] = known
        return known

    def _rank(self, joins: Joins) -> tuple[Integers, Integers]:
        """For each document as the earlier and as the later one, a number: equal where they
        agree."""
        known = self._ranks.get(joins)
        if known is None:
            ids = self.documents.ids
            left, right = ids[:, joins[-1][0]], ids[:, joins[-1][1]]
            if len(joins) > 1:
                above_left, above_right = self._rank(joins[:-1])
                strings = len(self.documents.strings)
                left, right = above_left * strings + left, above_right * strings + right
            ranks = np.unique(np.concatenate([left, right]), return_inverse=True)[1]
            known = ranks[: len(left)].astype(np.int64), ranks[len(left) :].astype(np.int64)
            if len(self._ranks) < 500:
                self._ranks[joins] = known
        return known


def exact(documents: Documents, queries: list[Query]) -> dict[Query, int]:
    """The number of matches of each of the queries."""
    counter = Exact(documents)
    return {query: counter.count(query) for query in queries}

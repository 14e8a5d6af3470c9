"""A compact set of 64-bit keys, so that a store is queried only for keys that it may have."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_FEW = 2
"""Keys that are looked up one by one, which takes a quarter of the time that arrays take; and by
Python, as NumPy lets other threads run Python meanwhile, for which this one would have to wait."""


class KnownKeys:
    """The keys (of documents, of matches) that a store may have; a superset of those that it has.

    Eight bytes for each. One thread adds keys; any thread may look them up.
    """

    def __init__(self, keys: npt.NDArray[np.uint64]) -> None:
        self._sorted = np.sort(keys)
        self._recent: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def add(self, keys: Iterable[int]) -> None:
        """Add keys that are not in the set."""
        self._recent.update(keys)
        if len(self._recent) > 10_000 + len(self._sorted) // 64:
            recent = np.fromiter(self._recent, np.uint64, len(self._recent))
            merged = np.concatenate([self._sorted, np.sort(recent)])
            # "stable" merges runs that are sorted already.
            merged.sort(kind="stable")
            # In this order, so that a concurrent look-up misses no key.
            self._sorted = merged
            self._recent = set()

    def intersection(self, keys: list[int]) -> list[int]:
        """The given keys that are in the set."""
        recent, known = self._recent, self._sorted
        found = [key for key in keys if key in recent]
        if len(keys) <= _FEW:
            for key in keys:
                place = bisect_left(known.data, key)
                if place < len(known) and known[place] == key:
                    found.append(key)
        elif len(known):
            # In order, since very many in any order would be searched in cold memory.
            wanted = np.sort(np.array(keys, np.uint64))
            places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            found += wanted[known[places] == wanted].tolist()
        return found

"""A compact set of keys, so that the store is asked only for what may be there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


class Keys:
    """Which documents there may be already, by their keys, so that the store is asked for those
    only.

    Eight bytes for each. It may name documents that are not there. One thread adds; any may ask.
    """

    def __init__(self, keys: npt.NDArray[np.uint64]) -> None:
        self._sorted = np.sort(keys)
        self._recent: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def add(self, keys: Iterable[int]) -> None:
        """Add keys that have not been seen."""
        self._recent.update(keys)
        if len(self._recent) > 10_000 + len(self._sorted) // 64:
            recent = np.fromiter(self._recent, np.uint64, len(self._recent))
            merged = np.concatenate([self._sorted, np.sort(recent)])
            # "stable" merges runs that are sorted already.
            merged.sort(kind="stable")
            # In this order, so that nobody misses one who asks meanwhile.
            self._sorted = merged
            self._recent = set()

    def seen(self, keys: list[int]) -> list[int]:
        """Those of the keys that have been added."""
        recent, known = self._recent, self._sorted
        found = [key for key in keys if key in recent]
        if len(known):
            wanted = np.array(keys, np.uint64)
            places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            found += wanted[known[places] == wanted].tolist()
        return found

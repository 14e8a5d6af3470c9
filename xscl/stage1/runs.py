"""Bounds and keywords in runs: large sets that are searched often and change a little at a time.

A sorted list, or an Aho-Corasick automaton, is fast to search and slow to change. Here it is split
into runs, each much longer than the next: additions go into the last, and a run that has grown too
long is merged into the one before it (the logarithmic method of Bentley and Saxe, 1980).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from typing import Any

import ahocorasick_rs

from xscl.normal.ir import Comparator

_SHORT = 512
_FACTOR = 8
_LONGEST = 1 << 17
"""Words in one automaton at most: that of a million takes seconds to build."""
_WORTH = 5
"""The cost of adding a word to an automaton, in searches of one automaton."""


class Bounds:
    """The constants of one inequality comparator, sorted, each with its number."""

    __slots__ = ("_above", "_behind_equal", "_few", "_long", "_short")

    def __init__(self, comparator: Comparator, *, few: int = _SHORT) -> None:
        self._few = few
        self._above = comparator in (Comparator.GREATER, Comparator.AT_LEAST)
        self._behind_equal = comparator in (Comparator.AT_LEAST, Comparator.LESS)
        self._long: list[tuple[float, int]] = []
        self._short: list[tuple[float, int]] = []

    def add(self, bound: float, number: int) -> None:
        insort(self._short, (bound, number))
        if len(self._short) > self._few + len(self._long) // 64:
            self._long += self._short
            self._long.sort()
            self._short = []

    def remove(self, bound: float, number: int) -> None:
        for run in (self._long, self._short):
            at = bisect_left(run, (bound, number))
            if run[at : at + 1] == [(bound, number)]:
                del run[at]

    def find(self, value: float, found: set[int]) -> None:
        """Add to `found` the numbers of the constants for which the comparison holds."""
        if value != value:
            return
        for run in (self._long, self._short):
            if self._behind_equal:
                at = bisect_right(run, (value, math.inf))
            else:
                at = bisect_left(run, (value, -1))
            found.update(n for _, n in (run[:at] if self._above else run[at:]))


class Keywords:
    """Words that are searched for in texts. `numbers` are the current words with their numbers.

    A run is at least `factor` times as long as the next, unless it has `longest` words or more."""

    __slots__ = (
        *("_automata", "_dead", "_factor", "_longest", "_numbers", "_runs", "_spent", "_worth"),
    )

    def __init__(
        self,
        numbers: Mapping[str | float, int],
        *,
        factor: int = _FACTOR,
        longest: int = _LONGEST,
        worth: int = _WORTH,
    ) -> None:
        self._numbers = numbers
        self._factor = factor
        self._longest = longest
        self._worth = worth
        self._runs: list[list[str]] = []
        self._automata: list[ahocorasick_rs.AhoCorasick | None] = []
        self._dead = 0
        self._spent = 0
        """Searches in the runs after the first of those that would fit into one."""

    def __getstate__(self) -> dict[str, object]:
        """Without the automata, which are made again when they are first needed."""
        state = {name: getattr(self, name) for name in self.__slots__}
        return state | {"_automata": [None] * len(self._runs)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def add(self, word: str) -> None:
        """Add a word, which `numbers` has now."""
        runs = self._runs
        runs.append([word])
        self._automata.append(None)
        while len(runs) > 1 and len(runs[-2]) < min(self._factor * len(runs[-1]), self._longest):
            last = runs.pop()
            runs[-1] += last
            self._automata[-2:] = [None]

    def remove(self) -> None:
        """Remove a word, which `numbers` has no longer. The runs still contain it, until half of
        their words are removed ones."""
        self._dead += 1
        if self._dead > len(self._numbers):
            words = [str(word) for word in self._numbers]
            self._runs = [words[i : i + self._longest] for i in range(0, len(words), self._longest)]
            self._automata = [None] * len(self._runs)
            self._dead = 0

    def find(self, text: str, found: set[int]) -> None:
        """Adds the numbers of the words that a text holds."""
        if len(self._runs) > 1:
            self._merge()
        for i, words in enumerate(self._runs):
            automaton = self._automata[i]
            if automaton is None:
                automaton = self._automata[i] = ahocorasick_rs.AhoCorasick(words)
            for at, _, _ in automaton.find_matches_as_indexes(text, overlapping=True):
                number = self._numbers.get(words[at])
                if number is not None:
                    found.add(number)

    def _merge(self) -> None:
        """Merge the last runs, when searching them all has cost as much as merging does."""
        start, total = len(self._runs), 0
        while start and total + len(self._runs[start - 1]) <= self._longest:
            start -= 1
            total += len(self._runs[start])
        self._spent += max(0, len(self._runs) - start - 1)
        if self._spent > self._worth * total:
            self._runs[start:] = [[word for run in self._runs[start:] for word in run]]
            self._automata[start:] = [None]
            self._spent = 0

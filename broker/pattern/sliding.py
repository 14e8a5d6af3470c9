"""The windows of OVER: what functions range over, without a list of its own for each match.

Matches come in order of their ends. What a variable stood for in them is one list that only grows;
a window is a part of it, and what functions read of documents is read once for all windows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any, overload

from broker.pattern.instances import Instance, Row
from xscl.functions.table import to_number


class _Track:
    """The documents that a variable stood for, one after the other, and `at` which match each."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.at: list[int] = []
        self._numbers: dict[str, tuple[list[float], list[int]]] = {}
        self._counts: dict[str, list[int]] = {}

    def numbers(self, text: str, low: int, high: int) -> list[float]:
        """The numbers at a path of the documents between two places."""
        numbers, ends = self._numbers.setdefault(text, ([], [0]))
        for row in self.rows[len(ends) - 1 :]:
            numbers += [each for each in map(to_number, row.values[text]) if not isnan(each)]
            ends.append(len(numbers))
        return numbers[ends[low] : ends[high]]

    def count(self, text: str, low: int, high: int) -> int:
        """How many of the documents between two places have a value at a path."""
        counts = self._counts.setdefault(text, [0])
        for row in self.rows[len(counts) - 1 :]:
            counts.append(counts[-1] + bool(row.values[text]))
        return counts[high] - counts[low]


class Column(Sequence[Row]):
    """What a variable stands for in the matches of a window, those without it left out."""

    __slots__ = ("_high", "_low", "_track")

    def __init__(self, track: _Track, low: int, high: int) -> None:
        self._track = track
        self._low = low
        self._high = high

    def __len__(self) -> int:
        return self._high - self._low

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        found = range(self._low, self._high)[place]
        rows = self._track.rows
        return rows[found] if isinstance(found, int) else [rows[at] for at in found]

    def __iter__(self) -> Iterator[Row]:
        rows = self._track.rows
        return (rows[at] for at in range(self._low, self._high))

    def numbers(self, text: str) -> list[float]:
        """The numbers at a path, as it is written."""
        return self._track.numbers(text, self._low, self._high)

    def count(self, text: Any) -> int:
        """How many of the documents have a value at a path, as it is written."""
        return self._track.count(text, self._low, self._high)


class Past:
    """The matches of one key of GROUP BY over which later ones may range."""

    def __init__(self) -> None:
        self._matches: list[Instance] = []
        self._tracks: dict[str, _Track] = {}
        self._low = 0
        """How many of them no window reaches any more."""

    def __bool__(self) -> bool:
        return self._low < len(self._matches)

    def add(self, instance: Instance) -> None:
        """Add a match, which ends no earlier than the others."""
        for name, row in instance.single.items():
            track = self._tracks.setdefault(name, _Track())
            track.rows.append(row)
            track.at.append(len(self._matches))
        self._matches.append(instance)

    def drop(self, before: int) -> None:
        """Drop what ended before a time. Windows that were given stay as they are."""
        self._low = bisect_left(self._matches, before, lo=self._low, key=_end)
        if 2 * self._low > len(self._matches):
            left, self._matches, self._tracks, self._low = self._matches[self._low :], [], {}, 0
            for each in left:
                self.add(each)

    def window(self, end: int) -> Mapping[str, Column]:
        """By variable what it stands for in the matches up to a time, if in any."""
        low, high = self._low, bisect_right(self._matches, end, lo=self._low, key=_end)
        found: dict[str, Column] = {}
        for name, track in self._tracks.items():
            first, last = bisect_left(track.at, low), bisect_left(track.at, high)
            if first < last:
                found[name] = Column(track, first, last)
        return found


def _end(instance: Instance) -> int:
    return instance.end

"""What patterns have kept of their matches: read at once, and written at once for all patterns of a
batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.state.pattern_tables import Mark, PatternTables

_HELD = 100_000
"""Marks in memory of patterns that have no use for them now."""


class Marking:
    """The marks of patterns, by the numbers of their entries. `fresh` are those of this
    transaction, as key and the time at which what they are of ends. Of patterns that have no use
    for them now `most` are in memory; others are read when they are asked for."""

    def __init__(self, tables: PatternTables, most: int = _HELD) -> None:
        self._tables = tables
        self._most = most
        self._unwritten: list[Mark] = []
        self.clear()
        self.begin()

    def begin(self) -> None:
        """Begin a transaction."""
        self.fresh: dict[int, dict[str, int]] = {}

    def clear(self) -> None:
        """Forget all, as it is read again."""
        self._held: dict[int, Mapping[str, int]] = {}
        """Those of patterns that have no use for them now, or some of these."""
        self._count = 0
        self._loaded = False
        self._marked: set[int] | None = None
        """Whose marks the tables may have that are not held; None: anybody's."""
        self._unwritten.clear()

    def _load(self) -> None:
        self._loaded = True
        if self._tables.count_marks() <= self._most:
            self._marked = set()
            self._held |= self._tables.every_mark()
            self._count = sum(map(len, self._held.values()))

    def of(self, number: int) -> Iterable[tuple[str, int]]:
        """The marks of a pattern, which keeps them itself from now on."""
        if not self._loaded:
            self._load()
        marked, held = self._marked, self._take(number)
        if held is not None:
            return [*held.items()]
        if marked is not None and number not in marked:
            return ()
        self.write()
        return self._tables.marks(number)

    def _take(self, number: int) -> Mapping[str, int] | None:
        """What is held of a pattern, and is not from now on."""
        held = self._held.pop(number, None)
        if held is not None:
            self._count -= len(held)
            if self._marked is not None:
                self._marked.add(number)
        return held

    def back(self, number: int, marks: Mapping[str, int]) -> None:
        """A pattern has no use for its marks now."""
        if marks and self._count + len(marks) <= self._most:
            self._held[number] = marks
            self._count += len(marks)

    def note(self, number: int, news: Mapping[str, int]) -> None:
        """A pattern has kept something."""
        if news:
            if self._marked is not None:
                self._marked.add(number)
            self._unwritten += [Mark(number, key, end) for key, end in news.items()]
            self.fresh.setdefault(number, {}).update(news)

    def change(self, numbers: Iterable[int]) -> None:
        """Patterns may go, and their marks with them: what there is of them is read again."""
        self.write()
        for number in numbers:
            self._take(number)

    def write(self) -> None:
        """Store those that are not stored yet."""
        if self._unwritten:
            marks, self._unwritten = self._unwritten, []
            self._tables.mark(marks)

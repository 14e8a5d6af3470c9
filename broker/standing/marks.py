"""What patterns have kept of their matches: read at once, and written at once for all patterns of a
batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.state.pattern_tables import Mark, PatternTables


class Marking:
    """The marks of patterns, by the numbers of their entries. `fresh` are those of this
    transaction, as key and the time at which what they are of ends."""

    def __init__(self, tables: PatternTables) -> None:
        self._tables = tables
        self._stored: dict[int, dict[str, int]] | None = None
        """Those of the tables that nobody has asked for; None where these were not read."""
        self._unwritten: list[Mark] = []
        self._marked: set[int] = set()
        """Of which there are some in the tables that are not in `_stored`."""
        self.fresh: dict[int, dict[str, int]] = {}

    def begin(self) -> None:
        """Begin a transaction."""
        self.fresh = {}

    def clear(self) -> None:
        """Forget all, as it is read again."""
        self._stored = None
        self._unwritten.clear()
        self._marked.clear()

    def of(self, number: int) -> Iterable[tuple[str, int]]:
        """The marks of a pattern, which keeps them from now on."""
        if self._stored is None:
            self._stored = self._tables.every_mark()
        found = self._stored.pop(number, None)
        if found is not None:
            self._marked.add(number)
            return [*found.items()]
        if number not in self._marked:
            return ()
        self.write()
        return self._tables.marks(number)

    def note(self, number: int, news: Mapping[str, int]) -> None:
        """A pattern has kept something."""
        if news:
            self._marked.add(number)
            self._unwritten += [Mark(number, key, end) for key, end in news.items()]
            self.fresh.setdefault(number, {}).update(news)

    def change(self, numbers: Iterable[int]) -> None:
        """Patterns may go, and their marks with them: what there is of them is asked again."""
        self.write()
        stored = self._stored
        if stored:
            self._marked.update([n for n in numbers if stored.pop(n, None) is not None])

    def write(self) -> None:
        """Store those that are not stored yet."""
        if self._unwritten:
            marks, self._unwritten = self._unwritten, []
            self._tables.mark(marks)

"""The variables of tree patterns: one id for each definition that queries use; no id is used twice.

Rows of the match relations name variables by their ids, and stay for a while after the last query
that used them; so an id is never given to another definition. Definitions that no query uses any
more are deleted, many at a time. If one is used again later it gets a new id. Nothing is lost by
that: a query matches from its first document on, and is witnessed under the new id from there on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import cast

from xscl.compact import Uses

SPARE = 1_000
"""Unused definitions are deleted when there are more of them than this, by default."""


class Variables(Mapping[str, int]):
    """The ids of variables, by the texts of their definitions.

    `new` are those that are not in the store yet: id and text. `spare` are so many unused ones that
    none is deleted.
    """

    __slots__ = ("_idle", "_ids", "_last", "_uses", "new", "spare")

    def __init__(self, spare: int = SPARE) -> None:
        self.spare = spare
        self.new: list[tuple[int, str]] = []
        self._ids: dict[str, int] = {}
        self._last = 0
        self._idle: dict[int, str] = {}
        """Ids without users."""
        self._uses: Uses[int] = Uses()

    def number(self, text: str) -> int:
        """The id of a definition; a new definition gets the next id."""
        number = self._ids.get(text)
        if number is None:
            number = self._last = self._ids[text] = self._last + 1
            self._idle[number] = text
            self.new.append((number, text))
        return number

    def numbers(self, texts: Sequence[str]) -> list[int]:
        """The ids of definitions."""
        found = [*map(self._ids.get, texts)]
        if None in found:
            return [*map(self.number, texts)]
        return cast(list[int], found)

    def use_by(self, number: int, queries: int) -> None:
        """Count so many queries as users of a variable."""
        if queries:
            self._uses.add(number, queries - (self._idle.pop(number, None) is not None))

    def use(self, numbers: Iterable[int]) -> None:
        """Count a query as a user of these variables."""
        self.use_each([{*numbers}])

    def use_each(self, queries: Iterable[Set[int]]) -> None:
        """Count queries as users, each of its own variables."""
        pop, add = self._idle.pop, self._uses.add
        for numbers in queries:
            for number in numbers:
                if pop(number, None) is None:
                    add(number)

    def use_columns(self, columns: Sequence[Sequence[int]], other: Set[int]) -> None:
        """The same, where a query's variables are its row of these columns, without the others."""
        idle = self._idle
        numbers = [*chain.from_iterable(columns)]
        different = {*numbers}
        if (
            len(different) == len(numbers)
            and different.isdisjoint(other)
            and idle.keys() >= different
        ):
            # Each gets its first user, as where queries differ in constants.
            deque(map(idle.__delitem__, numbers), 0)
        else:
            self.use_each([{*row} - other for row in zip(*columns, strict=True)])

    def release(self, texts: Iterable[str]) -> None:
        """Undo `use`, by the texts of the definitions."""
        for text in {*texts}:
            number = self._ids[text]
            if self._uses.remove(number):
                self._idle[number] = text

    def forget(self) -> dict[int, str]:
        """Delete unused definitions if there are many, and return them by id: the caller deletes
        them from the store. The highest id stays, so that the store shows which ids were used."""
        if len(self._idle) <= self.spare:
            return {}
        kept = {number for number, _ in self.new} | {self._last}
        gone = {number: text for number, text in self._idle.items() if number not in kept}
        for number, text in gone.items():
            del self._idle[number], self._ids[text]
        return gone

    def recall(self, gone: Mapping[int, str]) -> None:
        """Undo `forget`."""
        self._idle |= gone
        self._ids.update((text, number) for number, text in gone.items())

    def load(self, rows: Collection[tuple[str, int]]) -> None:
        """Definitions and ids from the store, before the queries that use them."""
        if not rows:
            return
        texts, numbers = zip(*rows, strict=True)
        self._ids.update(rows)
        self._idle.update(zip(numbers, texts, strict=True))
        self._last = max(self._last, *numbers)

    def loaded(self) -> None:
        """To be called after all queries were loaded: drops definitions that none of them uses."""
        self._idle = dict(self._idle)

    def __getitem__(self, text: str) -> int:
        return self._ids[text]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

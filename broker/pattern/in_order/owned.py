"""What waits for all queries of a form: one dictionary by key, so that a query which waits for
nothing costs nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from broker.pattern.in_order.events import Candidate, Event, Key, owner_of
from broker.pattern.in_order.spending import Spending

Part = TypeVar("Part")


class Owned(ABC, Generic[Part]):
    """Parts by their keys. `over` are the queries that have tried too much: they go on with nothing
    more."""

    def __init__(self, spending: Spending) -> None:
        self.parts: dict[Key, Part] = {}
        self.over: set[int] = set()
        self._spending = spending
        self._keys: dict[int, Key | list[Key]] = {}
        """By query; of most queries one."""

    def open(self, owner: int, key: Key, part: Part) -> Part:
        """Add a part."""
        self.parts[key] = part
        known = self._keys.get(owner)
        if known is None:
            self._keys[owner] = key
        elif isinstance(known, list):
            known.append(key)
        else:
            self._keys[owner] = [known, key]
        return part

    def sweep(self) -> None:
        """Drop the parts in which nothing waits."""
        parts, keys = self.parts, self._keys
        empty = [key for key, part in parts.items() if not part]
        for key in empty:
            del parts[key]
        for owner in {owner_of(key) for key in empty}:
            known = keys[owner]
            left = [key for key in known if key in parts] if isinstance(known, list) else ()
            if left:
                keys[owner] = left
            else:
                del keys[owner]

    def drop(self, owner: int) -> None:
        """Forget what waits for a query."""
        for key in self._keys_of(owner):
            del self.parts[key]
        self._keys.pop(owner, None)
        self.over.discard(owner)

    def of(self, owner: int) -> Iterator[tuple[Key, Part]]:
        """The parts of a query."""
        for key in self._keys_of(owner):
            yield key, self.parts[key]

    def _keys_of(self, owner: int) -> Sequence[Key]:
        known = self._keys.get(owner)
        return () if known is None else known if isinstance(known, list) else (known,)

    def is_over(self, owner: int, key: Key) -> bool:
        """Whether a query has tried too much, or its prefix has, if that is the key."""
        if owner not in self.over and key in self.over:
            self.over.add(owner)
        return owner in self.over

    def owners(self) -> Collection[int]:
        """The queries for which something may wait."""
        return self._keys.keys()

    def borrow(self, other: Owned[Any], owner: int) -> None:
        """Take copies of the parts of a query."""
        for key, part in other.of(owner):
            self.open(owner, key, other.copied(part))

    def remember(self, events: Iterable[Event]) -> None:
        """Rows that were there before, whose matches are known."""
        self.take(events, [])

    @abstractmethod
    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in order. Adds the matches that they complete."""

    @abstractmethod
    def copied(self, part: Part) -> Part:
        """A copy of a part, from which it does not change."""

    # -- time, where it decides nothing by itself --------------------------------------------------

    def due(self) -> int | None:
        """Twice the watermark at which time alone decides something; None: never."""
        return None

    def settle(self, watermark: int, found: list[tuple[object, ...]]) -> None:
        """Add the matches that time alone decides."""

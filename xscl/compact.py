"""Compact collections for very many entries that mostly hold one item: reference counts, and one
item or a dictionary.

A million subscriptions have some millions of edges, constants and variables, of which nearly all
are used once. A counter of each, or a dictionary with one entry, would cost more than the thing
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Uses(Generic[K]):
    """Reference counts. Only counts above one are stored, so the caller must know by other means
    whether a thing is used at all."""

    __slots__ = ("_several",)

    def __init__(self) -> None:
        self._several: dict[K, int] = {}

    def add(self, key: K, more: int = 1) -> None:
        """Count so many more uses of a thing that is used already."""
        if more:
            self._several[key] = self._several.get(key, 1) + more

    def remove(self, key: K) -> bool:
        """Count one use less; returns whether it was the last."""
        left = self._several.pop(key, 1) - 1
        if left > 1:
            self._several[key] = left
        return not left


class OneOrMany(Generic[K, T]):
    """A representation of zero, one or several items: `None`, the item itself, or a dictionary of
    several by their keys, in order of insertion. Items are not dictionaries.

    The holder stores what `add` and `remove` return; `key` returns the key of an item.
    """

    __slots__ = ("key",)

    def __init__(self, key: Callable[[T], K]) -> None:
        self.key = key

    def add(self, held: T | dict[K, T] | None, item: T) -> T | dict[K, T]:
        """The collection with an item, which replaces the one with the same key."""
        if held is None:
            return item
        own = self.key(item)
        if isinstance(held, dict):
            held[own] = item
            return held
        there = self.key(held)
        return item if there == own else {there: held, own: item}

    def remove(self, held: T | dict[K, T] | None, item: T) -> T | dict[K, T] | None:
        """The collection without the item that has the same key as this one."""
        if isinstance(held, dict):
            held.pop(self.key(item), None)
            return held or None
        return None if held is None or self.key(held) == self.key(item) else held

    def get(self, held: T | dict[K, T] | None, key: K) -> T | None:
        """The item with the key, None if there is none."""
        if isinstance(held, dict):
            return held.get(key)
        return held if held is not None and self.key(held) == key else None

    def collect(self, held: T | dict[K, T], into: dict[K, T]) -> None:
        """Put all of them into a dictionary, by their keys."""
        if isinstance(held, dict):
            into.update(held)
        else:
            into[self.key(held)] = held

    @staticmethod
    def items(held: T | dict[K, T] | None) -> Iterable[T]:
        """All of them."""
        if isinstance(held, dict):
            return held.values()
        return () if held is None else (held,)

    @staticmethod
    def count(held: T | dict[K, T] | None) -> int:
        """How many there are."""
        return len(held) if isinstance(held, dict) else held is not None
